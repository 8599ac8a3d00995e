// Bias and GELU are made where the first product writes its result. GELU's gradient and the bias's are made where the
// second product's gradient is written (products/blas.h). Where that is slower, the kernels of gelu.cu make them after
// plain products.
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/mlp/gelu.h"
#include "ablations/techniques/mlp/mlp.h"
#include "ablations/techniques/products/blas.h"

namespace model {

using at::Tensor;

namespace {

MlpKernels::Hidden forward(const LinearProducts& /*products*/, const Tensor& x, const Tensor& w_fc,
                           const Tensor& b_fc) {
  const Tensor bias = b_fc.to(x.scalar_type());
  Tensor fc = at::empty({x.size(0), w_fc.size(0)}, x.options());
  const Tensor hidden = at::empty_like(fc);
  blas::gelu({.fc = fc, .hidden = hidden, .x = x, .weight = w_fc, .bias = bias}, [&] {
    at::addmm_out(fc, bias, x, w_fc.t());
    with_type(x.scalar_type(), [&]<class T>() {
      kernels::gelu_forward<T>(pointer<const T>(fc), pointer<T>(hidden), fc.numel(), stream_for(fc));
    });
  });
  return {fc, hidden};
}

MlpKernels::Backward backward(const LinearProducts& products, const Tensor& dy, const Tensor& w_proj,
                              const Tensor& b_fc, const MlpKernels::Hidden& kept) {
  const Tensor& fc = kept.fc;
  const Tensor d_fc = at::empty_like(fc);
  // Of its own: where products are timed it is made several times, and could not be added to another.
  const Tensor d_b_fc = at::empty_like(b_fc);
  blas::gelu_backward({.d_fc = d_fc, .d_bias = d_b_fc, .dy = dy, .weight = w_proj, .fc = fc}, [&] {
    products.product_into(d_fc, dy, w_proj);
    with_type(fc.scalar_type(), [&]<class T>() {
      kernels::gelu_backward<T>(pointer<const T>(fc), pointer<const T>(d_fc), pointer<T>(d_fc), fc.numel(),
                                stream_for(fc));
    });
    column_sum(d_fc, {.buffer = d_b_fc});
  });
  return {d_fc, kept.hidden, d_b_fc};
}

}  // namespace

const MlpKernels mlp_on_cuda{.forward = forward, .keeps_hidden = true, .backward = backward};

}  // namespace model
