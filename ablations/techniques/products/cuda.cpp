// Products of cuBLAS and cuBLASLt, and sums of columns by our own kernel.
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/products/blas.h"
#include "ablations/techniques/products/column_sum.h"
#include "ablations/techniques/products/linear.h"

namespace model {

using at::Tensor;

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

void weight_gradient_into(const Gradients::Place& place, const Tensor& dy, const Tensor& x) {
  blas::weight_gradient(place.buffer, dy, x, place.accumulate);
}

}  // namespace

const LinearProducts cuda_products{
    .product = [](const Tensor& a, const Tensor& b, const Tensor& bias) { return product(Products::aten, a, b, bias); },
    .product_into =
        [](const Tensor& c, const Tensor& a, const Tensor& b) {
          Tensor out = c;
          at::mm_out(out, a, b);
        },
    .weight_gradient_into = weight_gradient_into,
    .weight_gradient =
        [](Gradients* gradients, const Tensor& weight, const Tensor& dy, const Tensor& x) {
          const Gradients::Place place = place_for(gradients, weight);
          weight_gradient_into(place, dy, x);
          return gradients == nullptr ? place.buffer : Tensor();
        },
    .bias_gradient =
        [](Gradients* gradients, const Tensor& bias, const Tensor& dy) {
          const Gradients::Place place = place_for(gradients, bias);
          column_sum(dy, place);
          return gradients == nullptr ? place.buffer : Tensor();
        }};

}  // namespace model
