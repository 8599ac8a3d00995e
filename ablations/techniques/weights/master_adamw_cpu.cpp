// ATen's fused AdamW writes the clipped gradients back; here they are only read.
#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/cpu/thread_sums.h"
#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/weights/master_adamw.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace model {

using at::Tensor;

namespace {

// Part of a tensor, the numbers [begin, end).
struct Part {
  size_t tensor;
  int64_t begin, end;
};

// Small enough that threads get about the same amount of work.
std::vector<Part> parts_of(const std::vector<MasterWeight>& weights) {
  constexpr int64_t most = 16384;
  std::vector<Part> parts;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t size = weights[i].weight.numel();
    for (int64_t begin = 0; begin < size; begin += most) parts.push_back({i, begin, std::min(begin + most, size)});
  }
  return parts;
}

class CpuMasterAdamW : public MasterUpdate {
 public:
  explicit CpuMasterAdamW(std::vector<MasterWeight> weights)
      : weights_(std::move(weights)), parts_(parts_of(weights_)) {}

  // A sum for each part, then the sum of these in their order: the number of threads does not matter.
  [[nodiscard]] Clip clip(double max_norm) const override {
    const Node node("model::gradient_norm");
    std::vector<double> sums(parts_.size());
    at::parallel_for(0, std::ssize(parts_), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        const Part& part = parts_[i];
        const auto* gradient = weights_[part.tensor].gradient.const_data_ptr<float>();
        sums[i] = cpu::kernels().squares(gradient + part.begin, part.end - part.begin);
      }
    });
    const Tensor norm =
        at::full({}, std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0)), weights_.front().gradient.options());
    return {norm, (norm + 1e-6).reciprocal_().mul_(max_norm).clamp_max_(1.0)};
  }

  void step(const Step& step, const Tensor& clip_coefficient) const override {
    const auto* learning_rate = std::get_if<double>(&step.learning_rate);
    if (learning_rate == nullptr) {
      throw std::logic_error("master weights on a CPU take the learning rate as a number of the host's");
    }
    const Node node("model::adamw");
    // As a device would hold it, and as the fused kind takes it.
    const AdamWFactors factors = adamw_factors(static_cast<float>(*learning_rate), step.count);
    const auto coefficient = clip_coefficient.item<float>();
    std::vector<cpu::AdamW> calls;
    for (const MasterWeight& one : weights_) {
      calls.push_back({.type = number_of(one.weight),
                       .weight = one.weight.mutable_data_ptr(),
                       .remainder = one.remainder.defined() ? one.remainder.mutable_data_ptr<int16_t>() : nullptr,
                       .gradient = one.gradient.const_data_ptr<float>(),
                       .first_moment = one.first_moment.mutable_data_ptr<float>(),
                       .second_moment = one.second_moment.mutable_data_ptr<float>(),
                       .coefficient = coefficient,
                       .one_minus_beta1 = static_cast<float>(1.0 - AdamW::beta1),
                       .beta2 = static_cast<float>(AdamW::beta2),
                       .one_minus_beta2 = static_cast<float>(1.0 - AdamW::beta2),
                       .eps = static_cast<float>(AdamW::eps),
                       .kept = static_cast<float>(1.0 - factors.learning_rate * one.weight_decay),
                       .step_size = static_cast<float>(factors.step_size),
                       .root_correction = static_cast<float>(factors.root_correction)});
    }
    at::parallel_for(0, std::ssize(parts_), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        cpu::kernels().adamw(calls[parts_[i].tensor], parts_[i].begin, parts_[i].end);
      }
    });
  }

 private:
  std::vector<MasterWeight> weights_;
  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<const MasterUpdate> cpu_master_adamw(std::vector<MasterWeight> weights) {
  return std::make_unique<CpuMasterAdamW>(std::move(weights));
}

std::unique_ptr<const MasterUpdate> master_adamw(std::vector<MasterWeight> weights) {
  if (!weights.front().weight.is_cuda()) return cpu_master_adamw(std::move(weights));
  if constexpr (has_cuda_kernels) {
    return cuda_master_adamw(std::move(weights));
  } else {
    throw std::invalid_argument("master weights on a GPU need a program that was built with its CUDA kernels");
  }
}

}  // namespace model
