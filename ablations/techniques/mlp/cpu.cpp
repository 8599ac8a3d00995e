// By loops over rows (cpu/kernels.h). GELU's result, 4C numbers a token, is not kept. It lives only until the second
// product has read it, and the backward pass makes it once more.
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/mlp/mlp.h"

#include <ATen/Parallel.h>

namespace model {

using at::Tensor;

namespace {

MlpKernels::Hidden forward(const LinearProducts& products, const Tensor& x, const Tensor& w_fc, const Tensor& b_fc) {
  const Tensor fc = products.product(x, w_fc.t(), {});  // without its bias
  const Tensor hidden = at::empty_like(fc);
  const cpu::Gelu call{.type = number_of(fc),
                       .x = fc.const_data_ptr(),
                       .bias = b_fc.const_data_ptr<float>(),
                       .y = hidden.mutable_data_ptr(),
                       .columns = fc.size(1)};
  at::parallel_for(0, fc.size(0), rows_at_once,
                   [&](int64_t begin, int64_t end) { cpu::kernels().gelu(call, begin, end); });
  return {fc, hidden};
}

MlpKernels::Backward backward(const LinearProducts& products, Gradients* gradients, const Tensor& dy,
                              const Tensor& w_proj, const Tensor& b_fc, const MlpKernels::Hidden& kept) {
  const Tensor& fc = kept.fc;
  const Tensor d_fc = products.product(dy, w_proj, {});  // first of GELU's result, then in place of its argument
  const Tensor hidden = at::empty_like(fc);
  const cpu::GeluBackward call{.type = number_of(fc),
                               .x = fc.const_data_ptr(),
                               .dy = d_fc.const_data_ptr(),
                               .bias = b_fc.const_data_ptr<float>(),
                               .y = hidden.mutable_data_ptr(),
                               .dx = d_fc.mutable_data_ptr(),
                               .columns = fc.size(1)};
  const ThreadSums d_b_fc(fc.size(1), b_fc);
  at::parallel_for(0, fc.size(0), rows_at_once, [&](int64_t begin, int64_t end) {
    cpu::kernels().gelu_backward(call, begin, end, d_b_fc.of_this_thread());
  });
  return {d_fc, hidden, deliver(gradients, b_fc, d_b_fc.total())};
}

}  // namespace

const MlpKernels mlp_on_cpu{.forward = forward, .keeps_hidden = false, .backward = backward};

}  // namespace model
