// Weights of two parts, on the host. The optimizer's loops do the same on the fly.
#include "ablations/techniques/weights/split_weight.h"

#include "model/gpt2.h"

#include <ATen/core/grad_mode.h>

namespace model {

using at::Tensor;

Tensor whole_weight(const Parameter& parameter) {
  if (!parameter.remainder.defined()) return parameter.tensor;
  const Tensor hi = parameter.tensor.detach().cpu(), lo = parameter.remainder.cpu();
  const Tensor weight = at::empty(hi.sizes(), hi.options().dtype(at::kFloat));
  const auto* high = static_cast<const uint16_t*>(hi.const_data_ptr());
  const auto* low = lo.const_data_ptr<int16_t>();
  auto* whole = weight.mutable_data_ptr<float>();
  for (int64_t i = 0; i < weight.numel(); ++i) whole[i] = kernels::join({high[i], low[i]});
  return weight.to(parameter.tensor.device());
}

void split_weight(const Parameter& parameter, const Tensor& weight) {
  const Tensor whole = weight.detach().to(at::kCPU, at::kFloat).contiguous();
  const Tensor hi = at::empty(whole.sizes(), at::kBFloat16), lo = at::empty(whole.sizes(), at::kShort);
  const auto* from = whole.const_data_ptr<float>();
  auto* high = static_cast<uint16_t*>(hi.mutable_data_ptr());
  auto* low = lo.mutable_data_ptr<int16_t>();
  for (int64_t i = 0; i < whole.numel(); ++i) {
    const kernels::SplitWeight parts = kernels::split(from[i]);
    high[i] = parts.hi;
    low[i] = parts.lo;
  }
  const at::NoGradGuard no_grad;
  parameter.tensor.copy_(hi);
  parameter.remainder.copy_(lo);
}

}  // namespace model
