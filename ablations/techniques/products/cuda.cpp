// A linear layer whose backward pass writes the gradients of its weight and bias into static buffers: that of the
// weight by cuBLASLt in float32 (cuda/blas.h), where PyTorch's is rounded to the products' type and converted.
#include "ablations/techniques/cpu/fused.h"
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/products/blas.h"
#include "ablations/techniques/products/column_sum.h"
#include "ablations/techniques/products/linear_gradients.h"
#include "model/ops.h"

#include <torch/csrc/autograd/custom_function.h>

#include <vector>

namespace model {

using at::Tensor;

Tensor weight_gradient(Gradients* gradients, const Tensor& weight, const Tensor& dy, const Tensor& x) {
  const Gradients::Place place = place_for(gradients, weight);
  blas::weight_gradient(place.buffer, dy, x, place.accumulate);
  return gradients == nullptr ? place.buffer : Tensor();
}

Tensor bias_gradient(Gradients* gradients, const Tensor& bias, const Tensor& dy) {
  const Gradients::Place place = place_for(gradients, bias);
  column_sum(dy, place);
  return gradients == nullptr ? place.buffer : Tensor();
}

void column_sum(const Tensor& x, const Gradients::Place& sums) {
  const int64_t N = x.size(0), C = x.size(1);
  with_type(x.scalar_type(), [&]<class T>() {
    const Tensor workspace = at::empty({kernels::column_sum_workspace<T>(N, C)}, sums.buffer.options());
    kernels::column_sum<T>({.values = pointer<const T>(x),
                            .N = N,
                            .C = C,
                            .sums = pointer<float>(sums.buffer),
                            .accumulate = sums.accumulate,
                            .workspace = pointer<float>(workspace)},
                           stream_for(x));
  });
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct CudaLinear : torch::autograd::Function<CudaLinear> {
  // x (N, in), weight (out, in) of one type, bias (out) float32 -> (N, out)
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        Gradients* gradients) {
    context->save_for_backward({x, weight, bias});
    context->saved_data["gradients"] = handle_of(gradients);
    return at::addmm(bias.to(x.scalar_type()), x, weight.t());
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const Node node("model::linear_backward");
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], dy = upstream[0].contiguous();
    Gradients* gradients = gradients_of(context->saved_data["gradients"].toInt());
    return {at::mm(dy, weight), weight_gradient(gradients, weight, dy, x), bias_gradient(gradients, bias, dy),
            Tensor()};
  }
};

}  // namespace

decltype(Ops::linear) cuda_linear(Gradients* gradients) {
  return [gradients](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const at::ScalarType type = product_type(x);
    const Tensor rows = x.reshape({-1, x.size(-1)}).to(type).contiguous();
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    const Node node("model::linear");
    return CudaLinear::apply(rows, product_copy(weight, type), bias, gradients).view(shape);
  };
}

}  // namespace model
