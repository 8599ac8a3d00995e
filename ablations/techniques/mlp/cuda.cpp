// Bias and GELU are made where the first product writes its result, or by a kernel after a plain product where that is
// faster (products/blas.h). One kernel makes GELU's gradient and the bias's, or the product's epilogue and a column sum
// where that is faster. With fp8 kernels make all of it, and the copies that the next products read.
#include "ablations/techniques/fp8/bytes.h"
#include "ablations/techniques/mlp/gelu.h"
#include "ablations/techniques/mlp/mlp.h"
#include "ablations/techniques/products/blas.h"
#include "ablations/techniques/products/column_sum.h"
#include "ablations/techniques/products/strips.h"

namespace model {

using at::Tensor;
using kernels::bf16;

namespace {

// fc without its bias, which GELU's kernel adds.
MlpKernels::Hidden forward_fp8(const LinearProducts& products, const Tensor& x, const Tensor& w_fc,
                               const Tensor& bias) {
  const Tensor fc = products.product(x, w_fc.t(), {}), hidden = at::empty_like(fc);
  kernels::gelu_forward_fp8(pointer<const bf16>(fc), pointer<const bf16>(bias), pointer<bf16>(hidden),
                            copies_beside(hidden), fc.size(0), fc.size(1), stream_for(fc));
  return {fc, hidden};
}

MlpKernels::Hidden forward(const LinearProducts& products, const Tensor& x, const Tensor& w_fc, const Tensor& b_fc) {
  const Tensor bias = b_fc.to(x.scalar_type());
  if (fp8::weight_of(w_fc)) return forward_fp8(products, x, w_fc, bias);
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
  const bool fp8 = fp8::weight_of(w_proj).has_value();
  const Tensor d_fc = at::empty_like(fc);
  const Gradients::Place d_b_fc = place_for(gradients, b_fc);
  Tensor strips;
  if (fp8) {
    products.product_into(d_fc, dy, w_proj);
    const Tensor bias = b_fc.to(fc.scalar_type());
    strips = at::empty({kernels::row_copies_strips(N, C), C}, d_b_fc.buffer.options());
    kernels::gelu_backward_fp8({.fc = pointer<const bf16>(fc),
                                .bias = pointer<const bf16>(bias),
                                .upstream = pointer<const bf16>(d_fc),
                                .gradient = pointer<bf16>(d_fc),
                                .copies = copies_beside(d_fc),
                                .partials = pointer<float>(strips),
                                .N = N,
                                .C = C},
                               stream_for(fc));
  } else {
    const auto by_kernel = [&] {
      products.product_into(d_fc, dy, w_proj);
      with_type(fc.scalar_type(), [&]<class T>() {
        strips = at::empty({kernels::column_strips<T>(N, C), C}, d_b_fc.buffer.options());
        kernels::gelu_backward<T>({.x = pointer<const T>(fc),
                                   .upstream = pointer<const T>(d_fc),
                                   .gradient = pointer<T>(d_fc),
                                   .partials = pointer<float>(strips),
                                   .N = N,
                                   .C = C},
                                  stream_for(fc));
      });
    };
    blas::gelu_backward(
        {.d_fc = d_fc, .dy = dy, .weight = w_proj, .fc = fc}, [&] { strips = strips_of(d_fc); }, by_kernel);
  }
  add_up(gradients, strips, d_b_fc);
  return {d_fc, kept.hidden, gradients == nullptr ? d_b_fc.buffer : Tensor()};
}

}  // namespace

const MlpKernels mlp_on_cuda{.forward = forward, .keeps_hidden = true, .backward = backward};

}  // namespace model
