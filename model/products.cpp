#include "model/products.h"

#include "model/cpu/kernels.h"
#include "model/fused.h"
#include "model/ops.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

namespace model {

using at::Tensor;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void packed_product(const Tensor& c, const Tensor& a, const Tensor& b, const Tensor& bias, bool accumulate) {
  TORCH_CHECK(a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat && c.scalar_type() == at::kFloat,
              "packed products are for float32, not ", a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.is_cpu() && b.is_cpu() && c.stride(1) == 1 && a.size(1) == b.size(0) && a.size(1) > 0,
              "packed products: sizes ", a.sizes(), " and ", b.sizes(), ", on ", a.device());
  const cpu::Product call{.M = a.size(0),
                          .N = b.size(1),
                          .K = a.size(1),
                          .a = a.const_data_ptr<float>(),
                          .a_row = a.stride(0),
                          .a_column = a.stride(1),
                          .b = b.const_data_ptr<float>(),
                          .b_row = b.stride(0),
                          .b_column = b.stride(1),
                          .c = c.mutable_data_ptr<float>(),
                          .c_row = c.stride(0),
                          .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr,
                          .accumulate = accumulate};
  const int64_t parts = at::get_num_threads();
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) cpu::kernels().product(call, part, parts);
  });
}

// y = x w^T + b, its gradients dy w, dy^T x and the sum of dy's rows.
struct PackedLinear : torch::autograd::Function<PackedLinear> {
  // x (rows, in), weight (out, in), bias (out) or undefined -> (rows, out)
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.defined();
    return product(Products::packed, x, weight.t(), bias);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &dy = upstream[0];
    return {product(Products::packed, dy, weight), product(Products::packed, dy.t(), x),
            context->saved_data["bias"].toBool() ? dy.sum(0) : Tensor()};
  }
};

// Without a bias, and by another name in autograd's graph.
struct PackedHead : torch::autograd::Function<PackedHead> {
  // x (rows, C), wte (V, C) -> (rows, V)
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& wte) {
    return PackedLinear::forward(context, x, wte, {});
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    variable_list gradients = PackedLinear::backward(context, std::move(upstream));
    gradients.pop_back();
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
  accumulate ? out.addmm_(a, b) : at::mm_out(out, a, b);
}

decltype(Ops::linear) packed_linear() {
  return [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Node node("model::packed_linear");
    return shaped(PackedLinear::apply(x.reshape({-1, x.size(-1)}), weight, bias), x);
  };
}

decltype(Ops::head) packed_head() {
  return [](const Tensor& x, const Tensor& wte) {
    const Node node("model::packed_head");
    return shaped(PackedHead::apply(x.reshape({-1, x.size(-1)}), wte), x);
  };
}

}  // namespace model
