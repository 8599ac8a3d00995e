// By the kernels of add_norm.cu, which has the formulas.
#include "ablations/techniques/fp8/bytes.h"
#include "ablations/techniques/norm/add_norm.h"
#include "ablations/techniques/norm/norm.h"
#include "ablations/techniques/products/strips.h"

namespace model {

using at::Tensor;

namespace {

using kernels::bf16;

// f.operator()<T, B>() for the stream's type and its branches'.
template <class F>
void with_types(at::ScalarType stream, at::ScalarType branch, const F& f) {
  if (stream == at::kFloat && branch == at::kFloat) {
    f.template operator()<float, float>();
  } else if (stream == at::kFloat && branch == at::kBFloat16) {
    f.template operator()<float, bf16>();
  } else {
    TORCH_CHECK(stream == at::kBFloat16 && branch == at::kBFloat16, "the fused LayerNorm of a stream of ",
                at::toString(stream), " knows no branches of ", at::toString(branch));
    f.template operator()<bf16, bf16>();
  }
}

void forward(const AddNormKernels::Forward& a) {
  const at::ScalarType out = a.normalized.scalar_type();
  TORCH_CHECK(!a.y.defined() || a.y.scalar_type() == out, "the fused LayerNorm adds ", at::toString(out), ", not ",
              a.y.defined() ? at::toString(a.y.scalar_type()) : "nothing");
  const Tensor scale = fp8::norm_scale_of(a.weight);
  const Tensor copy = scale.defined() ? fp8_bytes(a.normalized.sizes(), a.x.device()) : Tensor();
  with_types(a.x.scalar_type(), out, [&]<class T, class B>() {
    kernels::add_norm_forward<T, B, float>({.x = pointer<const T>(a.x),
                                            .y = pointer<const B>(a.y),
                                            .weight = pointer<const float>(a.weight),
                                            .bias = pointer<const float>(a.bias),
                                            .sum = a.y.defined() ? pointer<T>(a.sum) : nullptr,
                                            .normalized = pointer<B>(a.normalized),
                                            .mean = pointer<float>(a.mean),
                                            .rstd = pointer<float>(a.rstd),
                                            .N = a.x.size(0),
                                            .C = a.x.size(1),
                                            .eps = static_cast<float>(a.eps),
                                            .copy = fp8_pointer(copy),
                                            .copy_scale = pointer<const float>(scale)},
                                           stream_for(a.x));
  });
  if (copy.defined()) fp8::put(a.normalized, {copy, scale});
}

void backward(const AddNormKernels::Backward& a) {
  const int64_t N = a.sum.size(0), C = a.sum.size(1);
  const bool of_branch = a.d_added_bias.buffer.defined();
  const kernels::RowCopies copies =
      fp8::is_gradient_copied(a.added_bias) ? copies_beside(a.dy.defined() ? a.dy : a.dx) : kernels::RowCopies();
  with_types(a.sum.scalar_type(), a.d_normalized.scalar_type(), [&]<class T, class B>() {
    const int64_t outputs = of_branch ? 3 : 2;
    const Tensor strips = at::empty({outputs, kernels::add_norm_backward_strips<T, B>(N, C), C}, a.mean.options());
    const bool all = kernels::add_norm_backward<T, B, float>({.of_sum = pointer<const T>(a.d_sum),
                                                              .of_normalized = pointer<const B>(a.d_normalized),
                                                              .sum = pointer<const T>(a.sum),
                                                              .weight = pointer<const float>(a.weight),
                                                              .mean = pointer<const float>(a.mean),
                                                              .rstd = pointer<const float>(a.rstd),
                                                              .gradient = pointer<T>(a.dx),
                                                              .branch_gradient = pointer<B>(a.dy),
                                                              .partials = pointer<float>(strips),
                                                              .sums_branch = of_branch,
                                                              .N = N,
                                                              .C = C,
                                                              .copies = copies},
                                                             stream_for(a.sum));
    add_up(a.gradients, strips[0], a.d_weight);
    add_up(a.gradients, strips[1], a.d_bias);
    if (!of_branch) return;
    add_up(a.gradients, all ? strips[2] : strips_of(a.dy.defined() ? a.dy : a.dx), a.d_added_bias);
  });
}

}  // namespace

const AddNormKernels add_norm_on_cuda{forward, backward};

}  // namespace model
