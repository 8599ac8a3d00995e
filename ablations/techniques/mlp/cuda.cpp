// Bias and GELU are made where the first product writes its result. GELU's gradient and the bias's are made where the
// second product's gradient is written (products/blas.h). Where that is slower, the kernels of gelu.cu make them after
// plain products.
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/mlp/gelu.h"
#include "ablations/techniques/mlp/mlp.h"
#include "ablations/techniques/products/blas.h"
#include "ablations/techniques/products/column_sum.h"
#include "ablations/techniques/products/strips.h"

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

MlpKernels::Backward backward(const LinearProducts& products, Gradients* gradients, const Tensor& dy,
                              const Tensor& w_proj, const Tensor& b_fc, const MlpKernels::Hidden& kept) {
  const Tensor& fc = kept.fc;
  const int64_t N = fc.size(0), C = fc.size(1);
  const Tensor d_fc = at::empty_like(fc), d_bias = at::empty({C}, fc.options());
  const Gradients::Place d_b_fc = place_for(gradients, b_fc);
  with_type(fc.scalar_type(), [&]<class T>() {
    const Tensor strips = at::empty({kernels::column_strips<T>(N, C), C}, d_b_fc.buffer.options());
    const bool by_epilogue =
        blas::gelu_backward({.d_fc = d_fc, .d_bias = d_bias, .dy = dy, .weight = w_proj, .fc = fc}, [&] {
          products.product_into(d_fc, dy, w_proj);
          kernels::gelu_backward<T>({.x = pointer<const T>(fc),
                                     .upstream = pointer<const T>(d_fc),
                                     .gradient = pointer<T>(d_fc),
                                     .partials = pointer<float>(strips),
                                     .N = N,
                                     .C = C},
                                    stream_for(fc));
        });
    by_epilogue ? put(d_b_fc, d_bias) : add_up(gradients, strips, d_b_fc);
  });
  return {d_fc, kept.hidden, gradients == nullptr ? d_b_fc.buffer : Tensor()};
}

}  // namespace

const MlpKernels mlp_on_cuda{.forward = forward, .keeps_hidden = true, .backward = backward};

}  // namespace model
