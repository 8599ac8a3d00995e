// A linear layer that is one node of autograd's graph. On a GPU the gradient of the weight is made in float32 by
// cuBLASLt (blas.h), where PyTorch's is rounded to the products' type and converted.
#include "ablations/techniques/products/linear.h"

#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/operations.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>
#include <vector>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Linear {
  // x (rows, in), weight (out, in) of one type, bias (out) or none -> (rows, out)
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& of_bias, const LinearProducts* products, Gradients* gradients) {
    const Tensor bias = of_bias.value_or(Tensor());
    context->save_for_backward({x, weight, bias});
    context->saved_data["products"] = handle_of(products);
    context->saved_data["gradients"] = handle_of(gradients);
    return products->product(x, weight.t(), bias);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const Node node("model::linear_backward");
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], dy = upstream[0].contiguous();
    const auto* products = from_handle<const LinearProducts>(context->saved_data["products"]);
    auto* gradients = from_handle<Gradients>(context->saved_data["gradients"]);
    return {products->product(dy, weight, {}), products->weight_gradient(gradients, weight, dy, x),
            gradient_of_bias(*products, gradients, bias, dy), Tensor(), Tensor()};
  }
};

// By names of their own in autograd's graph.
struct AtenLinear : Linear, torch::autograd::Function<AtenLinear> {};
struct PackedLinear : Linear, torch::autograd::Function<PackedLinear> {};
struct CudaLinear : Linear, torch::autograd::Function<CudaLinear> {};
struct PackedHead : Linear, torch::autograd::Function<PackedHead> {};  // without a bias

// x (..., in), y (rows, out) -> y (..., out)
Tensor shaped(const Tensor& y, const Tensor& x) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = y.size(1);
  return y.view(shape);
}

// x (rows, in) in the products' type, and the weight in it
std::pair<Tensor, Tensor> arguments(const Tensor& x, const Tensor& weight) {
  const at::ScalarType type = product_type(x);
  return {x.reshape({-1, x.size(-1)}).to(type).contiguous(), product_copy(weight, type)};
}

decltype(Ops::head) packed_head() {
  return [](const Tensor& x, const Tensor& wte) {
    const auto [rows, weight] = arguments(x, wte);
    const Node node("model::packed_head");
    return shaped(
        PackedHead::apply(rows, weight, std::optional<Tensor>(), &packed_products, static_cast<Gradients*>(nullptr)),
        x);
  };
}

}  // namespace

std::vector<results::ProductTiming> product_timings() {
  if constexpr (has_cuda_kernels) {
    return cuda_product_timings();
  } else {
    return {};
  }
}

std::string product_library() {
  if constexpr (has_cuda_kernels) {
    return cublaslt_version();
  } else {
    return "";
  }
}

void keep_product_timings(std::vector<results::ProductTiming> timings) {
  if constexpr (has_cuda_kernels) keep_cuda_timings(std::move(timings));
}

Tensor gradient_of_bias(const LinearProducts& products, Gradients* gradients, const Tensor& bias, const Tensor& dy) {
  const bool learns = bias.defined() && (gradients == nullptr ? bias.requires_grad() : gradients->has(bias));
  return learns ? products.bias_gradient(gradients, bias, dy) : Tensor();
}

const LinearProducts& products_of(const Recipe& recipe) {
  if constexpr (has_cuda_kernels) {
    if (recipe.device == Device::cuda) return cuda_products;
  }
  if (recipe.fp8 != Fp8::off) return emulated_fp8_products;
  return recipe.products == Products::packed ? packed_products : aten_products;
}

decltype(Ops::linear) own_linear(const LinearProducts& products, Gradients* gradients) {
  return [products = &products, gradients](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const auto [rows, w] = arguments(x, weight);
    if (products == &packed_products) {
      const Node node("model::packed_linear");
      return shaped(PackedLinear::apply(rows, w, std::optional(bias), products, gradients), x);
    }
    const Node node("model::linear");
    const bool by_aten = products == &aten_products || products == &emulated_fp8_products;
    return shaped(by_aten ? AtenLinear::apply(rows, w, std::optional(bias), products, gradients)
                          : CudaLinear::apply(rows, w, std::optional(bias), products, gradients),
                  x);
  };
}

void install_products(const Recipe& recipe, Gradients* gradients, Ops& ops) {
  const bool packed = recipe.products == Products::packed;
  if (packed || gradients != nullptr) ops.linear = own_linear(products_of(recipe), gradients);
  if (packed) ops.head = packed_head();
}

}  // namespace model
