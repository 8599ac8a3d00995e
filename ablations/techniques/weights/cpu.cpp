// The gradients' norm, and clipping and AdamW in one pass over all master weights, on a CPU (cpu/kernels.h has the
// formulas). ATen's fused AdamW writes the clipped gradients back; here they are only read.
#include "ablations/techniques/cpu/fused.h"
#include "model/optimizer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <vector>

namespace model {

using at::Tensor;

namespace {

// Part of a tensor, the numbers [begin, end).
struct Part {
  size_t tensor;
  int64_t begin, end;
};

// Small enough that threads get about the same amount of work.
std::vector<Part> parts_of(const std::vector<Tensor>& tensors) {
  constexpr int64_t most = 16384;
  std::vector<Part> parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t size = tensors[i].numel();
    for (int64_t begin = 0; begin < size; begin += most) parts.push_back({i, begin, std::min(begin + most, size)});
  }
  return parts;
}

}  // namespace

// A sum for each part, then the sum of these in their order: the number of threads does not matter.
Tensor AdamW::master_norm() const {
  const Node node("model::gradient_norm");
  const std::vector<Tensor> all = gradients();
  const std::vector<Part> parts = parts_of(all);
  std::vector<double> sums(parts.size());
  at::parallel_for(0, std::ssize(parts), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const Part& part = parts[i];
      sums[i] = cpu::kernels().squares(all[part.tensor].const_data_ptr<float>() + part.begin, part.end - part.begin);
    }
  });
  return at::full({}, std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0)), all.front().options());
}

void AdamW::step_master(const Tensor& clip_coefficient) const {
  const Node node("model::adamw");
  // As a device would hold it, and as the fused kind takes it.
  const HostFactors factors = host_factors(static_cast<float>(std::get<double>(learning_rate_)));
  const auto coefficient = clip_coefficient.item<float>();
  std::vector<Tensor> all;
  std::vector<cpu::AdamW> calls;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      const Tensor &weight = group.parameters[i], &remainder = group.remainders[i];
      all.push_back(weight);
      calls.push_back({.type = number_of(weight),
                       .weight = weight.mutable_data_ptr(),
                       .remainder = remainder.defined() ? remainder.mutable_data_ptr<int16_t>() : nullptr,
                       .gradient = weight.grad().const_data_ptr<float>(),
                       .first_moment = group.first_moments[i].mutable_data_ptr<float>(),
                       .second_moment = group.second_moments[i].mutable_data_ptr<float>(),
                       .coefficient = coefficient,
                       .one_minus_beta1 = static_cast<float>(1.0 - beta1),
                       .beta2 = static_cast<float>(beta2),
                       .one_minus_beta2 = static_cast<float>(1.0 - beta2),
                       .eps = static_cast<float>(eps),
                       .kept = static_cast<float>(1.0 - factors.learning_rate * group.weight_decay),
                       .step_size = static_cast<float>(factors.step_size),
                       .root_correction = static_cast<float>(factors.root_correction)});
    }
  }
  const std::vector<Part> parts = parts_of(all);
  at::parallel_for(0, std::ssize(parts), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      cpu::kernels().adamw(calls[parts[i].tensor], parts[i].begin, parts[i].end);
    }
  });
}

}  // namespace model
