// Bias and GELU are made where the first product writes its result. GELU's gradient and the bias's are made where the
// second product's gradient is written (products/blas.h). Where that is slower, the kernels of gelu.cu make them after
// plain products.
#include "ablations/techniques/fp8/bytes.h"
#include "ablations/techniques/mlp/gelu.h"
#include "ablations/techniques/mlp/mlp.h"
#include "ablations/techniques/products/blas.h"
#include "ablations/techniques/products/column_sum.h"

namespace model {

using at::Tensor;

namespace {

// fc without its bias, which GELU's kernel adds.
MlpKernels::Hidden forward_fp8(const LinearProducts& products, const Tensor& x, const Tensor& w_fc,
                               const Tensor& bias) {
  using kernels::bf16;
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

MlpKernels::Backward backward_fp8(const LinearProducts& products, const Tensor& dy, const Tensor& w_proj,
                                  const Tensor& b_fc, const MlpKernels::Hidden& kept) {
  using kernels::bf16;
  const Tensor& fc = kept.fc;
  const int64_t N = fc.size(0), C = fc.size(1);
  const Tensor bias = b_fc.to(fc.scalar_type()), d_fc = at::empty_like(fc);
  kernels::copy_rows_fp8(pointer<const bf16>(dy), copies_beside(dy), N, dy.size(1), stream_for(dy));
  products.product_into(d_fc, dy, w_proj);
  const Tensor d_b_fc = at::empty({C}, fc.options().dtype(at::kFloat));
  const Tensor partials = at::empty({kernels::row_copies_strips(N), C}, d_b_fc.options());
  kernels::gelu_backward_fp8({.fc = pointer<const bf16>(fc),
                              .bias = pointer<const bf16>(bias),
                              .upstream = pointer<const bf16>(d_fc),
                              .gradient = pointer<bf16>(d_fc),
                              .copies = copies_beside(d_fc),
                              .partials = pointer<float>(partials),
                              .N = N,
                              .C = C},
                             stream_for(fc));
  kernels::finish_columns(
      {pointer<const float>(partials), partials.size(0), C, {pointer<float>(d_b_fc), nullptr}, /*accumulate=*/false},
      stream_for(fc));
  return {d_fc, kept.hidden, d_b_fc};
}

MlpKernels::Backward backward(const LinearProducts& products, const Tensor& dy, const Tensor& w_proj,
                              const Tensor& b_fc, const MlpKernels::Hidden& kept) {
  if (fp8::weight_of(w_proj)) return backward_fp8(products, dy, w_proj, b_fc, kept);
  const Tensor& fc = kept.fc;
  const Tensor d_fc = at::empty_like(fc);
  const Tensor d_b_fc = at::empty_like(b_fc);
  products.product_into(d_fc, dy, w_proj);
  with_type(fc.scalar_type(), [&]<class T>() {
    kernels::gelu_backward<T>(pointer<const T>(fc), pointer<const T>(d_fc), pointer<T>(d_fc), fc.numel(),
                              stream_for(fc));
  });
  column_sum(d_fc, {.buffer = d_b_fc});
  return {d_fc, kept.hidden, d_b_fc};
}

}  // namespace

const MlpKernels mlp_on_cuda{.forward = forward, .keeps_hidden = true, .backward = backward};

}  // namespace model
