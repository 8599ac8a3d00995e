#include "ablations/techniques/cpu/fused.h"
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/products/products.h"
#include "model/gradients.h"
#include "model/ops.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>

namespace model {

using at::Tensor;

namespace {

std::atomic<int64_t> packed_bf16_made = 0;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void packed_product(const Tensor& c, const Tensor& a, const Tensor& b, const Tensor& bias, bool accumulate) {
  TORCH_CHECK(a.is_cpu() && b.is_cpu() && c.stride(1) == 1 && a.size(1) == b.size(0) && a.size(1) > 0,
              "packed products: sizes ", a.sizes(), " and ", b.sizes(), ", on ", a.device());
  const bool f32 = a.scalar_type() == at::kFloat && c.scalar_type() == at::kFloat;
  const bool bf16 = a.scalar_type() == at::kBFloat16 && has_packed_bf16() &&
                    (c.scalar_type() == at::kFloat || (c.scalar_type() == at::kBFloat16 && !accumulate));
  TORCH_CHECK(a.scalar_type() == b.scalar_type() && (f32 || bf16), "packed products on this machine: not ",
              a.scalar_type(), " times ", b.scalar_type(), accumulate ? " added to " : " written to ", c.scalar_type());
  packed_bf16_made += bf16 ? 1 : 0;
  const Tensor bias_f32 = bias.defined() ? bias.to(at::kFloat) : bias;
  const cpu::Product call{.c_type = number_of(c),
                          .M = a.size(0),
                          .N = b.size(1),
                          .K = a.size(1),
                          .a = a.const_data_ptr(),
                          .a_row = a.stride(0),
                          .a_column = a.stride(1),
                          .b = b.const_data_ptr(),
                          .b_row = b.stride(0),
                          .b_column = b.stride(1),
                          .c = c.mutable_data_ptr(),
                          .c_row = c.stride(0),
                          .bias = bias.defined() ? bias_f32.const_data_ptr<float>() : nullptr,
                          .accumulate = accumulate};
  const int64_t parts = at::get_num_threads();
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      f32 ? cpu::kernels().product(call, part, parts) : cpu::product_bf16(call, part, parts);
    }
  });
}

// y = x w^T + b, its gradients dy w, dy^T x and the sum of dy's rows.
struct Linear {
  // x (rows, in), weight (out, in) of one type, bias (out) or undefined -> (rows, out)
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        Products products, Gradients* gradients) {
    context->save_for_backward({x, weight, bias});
    context->saved_data["products"] = static_cast<int64_t>(products);
    context->saved_data["gradients"] = handle_of(gradients);
    return product(products, x, weight.t(), bias);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const Node node("model::linear_backward");
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &dy = upstream[0];
    const auto products = static_cast<Products>(context->saved_data["products"].toInt());
    Gradients* gradients = gradients_of(context->saved_data["gradients"].toInt());
    return {product(products, dy, weight), deliver_product(products, gradients, weight, dy.t(), x),
            bias.defined() ? deliver(gradients, bias, dy.sum(0, false, at::kFloat)) : Tensor(), Tensor(), Tensor()};
  }
};

// By names of their own in autograd's graph.
struct PackedLinear : Linear, torch::autograd::Function<PackedLinear> {};
struct AtenLinear : Linear, torch::autograd::Function<AtenLinear> {};

// Without a bias, and by another name in autograd's graph.
struct PackedHead : torch::autograd::Function<PackedHead> {
  // x (rows, C), wte (V, C) -> (rows, V)
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& wte) {
    return Linear::forward(context, x, wte, /*bias=*/{}, Products::packed, /*gradients=*/nullptr);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    variable_list gradients = Linear::backward(context, std::move(upstream));
    gradients.resize(2);
    return gradients;
  }
};

// x (..., in), y (rows, out) -> y (..., out)
Tensor shaped(const Tensor& y, const Tensor& x) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = y.size(1);
  return y.view(shape);
}

}  // namespace

Tensor product(Products kind, const Tensor& a, const Tensor& b, const Tensor& bias) {
  if (kind == Products::aten) return bias.defined() ? at::addmm(bias.to(a.scalar_type()), a, b) : at::mm(a, b);
  const Tensor c = at::empty({a.size(0), b.size(1)}, a.options().requires_grad(false));
  packed_product(c, a, b, bias, /*accumulate=*/false);
  return c;
}

void product_into(Products kind, const Tensor& c, const Tensor& a, const Tensor& b, bool accumulate) {
  if (kind == Products::packed) return packed_product(c, a, b, {}, accumulate);
  Tensor out = c;
  if (c.scalar_type() != a.scalar_type()) {
    accumulate ? out.add_(at::mm(a, b)) : out.copy_(at::mm(a, b));
  } else {
    accumulate ? out.addmm_(a, b) : at::mm_out(out, a, b);
  }
}

bool has_packed_bf16() { return cpu::has_product_bf16(); }

int64_t packed_bf16_products() { return packed_bf16_made; }

decltype(Ops::linear) own_linear(Products products, Gradients* gradients) {
  return [products, gradients](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const at::ScalarType type = product_type(x);
    const Tensor rows = x.reshape({-1, x.size(-1)}).to(type), w = product_copy(weight, type);
    const bool packed = products == Products::packed;
    const Node node(packed ? "model::packed_linear" : "model::linear");
    return shaped(packed ? PackedLinear::apply(rows, w, bias, products, gradients)
                         : AtenLinear::apply(rows, w, bias, products, gradients),
                  x);
  };
}

decltype(Ops::head) packed_head() {
  return [](const Tensor& x, const Tensor& wte) {
    const at::ScalarType type = product_type(x);
    const Tensor rows = x.reshape({-1, x.size(-1)}).to(type), w = product_copy(wte, type);
    const Node node("model::packed_head");
    return shaped(PackedHead::apply(rows, w), x);
  };
}

}  // namespace model
