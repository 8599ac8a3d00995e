#include "model/optimizer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

namespace model {

using at::Tensor;

AdamWFactors adamw_factors(double learning_rate, int64_t count) {
  const auto power = static_cast<double>(count);
  return {.learning_rate = learning_rate,
          .step_size = learning_rate / (1.0 - std::pow(AdamW::beta1, power)),
          .root_correction = std::sqrt(1.0 - std::pow(AdamW::beta2, power))};
}

AdamW::AdamW(const std::vector<Parameter>& parameters, Optimizer kind, const AdamWOptions& options,
             MakeMasterUpdate* master)
    : kind_(kind), max_norm_(options.max_norm), step_count_(options.first_step) {
  const at::TensorOptions on_device = parameters.front().tensor.options().requires_grad(false).dtype(at::kFloat);
  step_tensor_ = at::zeros({}, on_device);
  groups_.resize(2);
  groups_[0].weight_decay = options.weight_decay;
  groups_[1].weight_decay = 0.0;
  for (const Parameter& parameter : parameters) {
    Group& group = groups_[parameter.tensor.dim() >= 2 ? 0 : 1];
    group.names.push_back(parameter.name);
    group.parameters.push_back(parameter.tensor);
    group.remainders.push_back(parameter.remainder);
    group.first_moments.push_back(at::zeros_like(parameter.tensor, on_device));
    group.second_moments.push_back(at::zeros_like(parameter.tensor, on_device));
    group.steps.push_back(step_tensor_);
  }
  if (master == nullptr) return;
  std::vector<MasterWeight> all;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      all.push_back({.weight = group.parameters[i],
                     .remainder = group.remainders[i],
                     .gradient = group.parameters[i].grad(),
                     .first_moment = group.first_moments[i],
                     .second_moment = group.second_moments[i],
                     .weight_decay = group.weight_decay});
    }
  }
  master_ = master(std::move(all));
}

std::vector<Tensor> AdamW::Group::gradients() const {
  std::vector<Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

std::vector<Tensor> AdamW::gradients() const {
  std::vector<Tensor> all;
  for (const Group& group : groups_) std::ranges::move(group.gradients(), std::back_inserter(all));
  return all;
}

void AdamW::set_learning_rate(double learning_rate) { learning_rate_ = learning_rate; }

void AdamW::set_learning_rate(const Tensor& learning_rate) { learning_rate_ = learning_rate.squeeze(); }

void AdamW::unscale(const Tensor& inverse_scale, Tensor& found_inf) {
  at::_amp_foreach_non_finite_check_and_unscale_(gradients(), found_inf, inverse_scale);
}

Tensor AdamW::learning_rate_on_device() const {
  const auto* on_device = std::get_if<Tensor>(&learning_rate_);
  return on_device != nullptr ? *on_device : at::full_like(step_tensor_, std::get<double>(learning_rate_));
}

Clip AdamW::clip() const {
  if (master_) return master_->clip(max_norm_);
  const Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients(), 2)), 2);
  return {norm, (norm + 1e-6).reciprocal_().mul_(max_norm_).clamp_max_(1.0)};
}

void AdamW::step(const Tensor& clip_coefficient, const std::optional<Tensor>& found_inf) {
  const at::NoGradGuard no_grad;
  if (std::holds_alternative<std::monostate>(learning_rate_)) throw std::logic_error("AdamW::step: no learning rate");
  const bool from_host = std::holds_alternative<double>(learning_rate_) && !found_inf;
  if (from_host_.value_or(from_host) != from_host)
    throw std::logic_error(
        "AdamW::step: the learning rate was a number of the host's in one step and a tensor of the device's in "
        "another");
  if (master_ && found_inf) throw std::logic_error("AdamW::step: master weights skip no step");
  from_host_ = from_host;
  ++step_count_;
  // Master weights on a CPU count on the host.
  if (master_ ? step_tensor_.is_cuda() : kind_ == Optimizer::fused || !from_host) step_tensor_.add_(1);
  if (master_) {
    master_->step({learning_rate_, step_count_, step_tensor_}, clip_coefficient);
  } else if (kind_ == Optimizer::fused) {
    step_fused(clip_coefficient.reciprocal(), found_inf);
  } else {
    const std::vector<Tensor> clipped = gradients();
    at::_foreach_mul_(clipped, clip_coefficient);  // for loop, too, as clip_grad_norm_ does by default
    if (found_inf) {
      const Tensor overflowed = found_inf->squeeze().to(at::kBool);
      for (const Tensor& gradient : clipped) gradient.masked_fill_(overflowed, 0);
    }
    if (from_host) {
      const AdamWFactors factors = adamw_factors(std::get<double>(learning_rate_), step_count_);
      for (const Group& group : groups_) {
        kind_ == Optimizer::loop ? step_loop(group, factors) : step_foreach(group, factors);
      }
    } else {
      const DeviceFactors factors = device_factors(found_inf);
      for (const Group& group : groups_) {
        kind_ == Optimizer::loop ? step_loop(group, factors) : step_foreach(group, factors);
      }
    }
  }
  if (found_inf) step_tensor_.sub_(found_inf->squeeze());
  if (std::holds_alternative<Tensor>(learning_rate_)) learning_rate_ = {};  // do not keep the graph's memory any longer
}

AdamW::DeviceFactors AdamW::device_factors(const std::optional<Tensor>& found_inf) const {
  DeviceFactors factors;
  factors.learning_rate = learning_rate_on_device();
  if (found_inf) {
    // 1, or 0 for a step to be skipped, which leaves moments and weights unchanged (its gradients are 0).
    const Tensor taken = at::rsub(found_inf->squeeze(), 1.0);
    factors.learning_rate = factors.learning_rate * taken;
    factors.beta1 = at::rsub(taken * (1.0 - beta1), 1.0);
    factors.beta2 = at::rsub(taken * (1.0 - beta2), 1.0);
  }
  const auto correction = [&](double beta) { return at::rsub(at::pow(beta, step_tensor_), 1.0); };
  const Tensor root_correction = correction(beta2).sqrt_();
  factors.negative_step_size = (factors.learning_rate * root_correction).div_(correction(beta1)).neg_();
  factors.eps = root_correction * eps;
  return factors;
}

void AdamW::step_loop(const Group& group, const AdamWFactors& factors) const {
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor& m = group.first_moments[i];
    const Tensor& v = group.second_moments[i];
    const Tensor g = p.grad();
    m.lerp_(g, 1.0 - beta1);
    v.mul_(beta2).addcmul_(g, g, 1.0 - beta2);
    if (group.weight_decay != 0) p.mul_(1.0 - factors.learning_rate * group.weight_decay);
    p.addcdiv_(m, v.sqrt().div_(factors.root_correction).add_(eps), -factors.step_size);
  }
}

void AdamW::step_loop(const Group& group, const DeviceFactors& factors) const {
  const Tensor kept = group.weight_decay != 0 ? at::rsub(factors.learning_rate * group.weight_decay, 1.0) : Tensor();
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor& m = group.first_moments[i];
    const Tensor& v = group.second_moments[i];
    const Tensor g = p.grad();
    if (factors.may_be_skipped()) {
      m.mul_(factors.beta1).add_(g, 1.0 - beta1);
      v.mul_(factors.beta2);
    } else {
      m.lerp_(g, 1.0 - beta1);
      v.mul_(beta2);
    }
    v.addcmul_(g, g, 1.0 - beta2);
    if (kept.defined()) p.mul_(kept);
    p.addcdiv_(m * factors.negative_step_size, v.sqrt().add_(factors.eps));
  }
}

void AdamW::step_foreach(const Group& group, const AdamWFactors& factors) const {
  const std::vector<Tensor> gradients = group.gradients();
  at::_foreach_lerp_(group.first_moments, gradients, 1.0 - beta1);
  at::_foreach_mul_(group.second_moments, beta2);
  at::_foreach_addcmul_(group.second_moments, gradients, gradients, 1.0 - beta2);
  const std::vector<Tensor> denominators = at::_foreach_sqrt(group.second_moments);
  at::_foreach_div_(denominators, factors.root_correction);
  at::_foreach_add_(denominators, eps);
  if (group.weight_decay != 0) {
    at::_foreach_mul_(group.parameters, 1.0 - factors.learning_rate * group.weight_decay);
  }
  at::_foreach_addcdiv_(group.parameters, group.first_moments, denominators, -factors.step_size);
}

void AdamW::step_foreach(const Group& group, const DeviceFactors& factors) const {
  const std::vector<Tensor> gradients = group.gradients();
  if (factors.may_be_skipped()) {
    at::_foreach_mul_(group.first_moments, factors.beta1);
    at::_foreach_add_(group.first_moments, gradients, 1.0 - beta1);
    at::_foreach_mul_(group.second_moments, factors.beta2);
  } else {
    at::_foreach_lerp_(group.first_moments, gradients, 1.0 - beta1);
    at::_foreach_mul_(group.second_moments, beta2);
  }
  at::_foreach_addcmul_(group.second_moments, gradients, gradients, 1.0 - beta2);
  const std::vector<Tensor> numerators = at::_foreach_mul(group.first_moments, factors.negative_step_size);
  const std::vector<Tensor> denominators = at::_foreach_sqrt(group.second_moments);
  at::_foreach_add_(denominators, factors.eps);
  if (group.weight_decay != 0) {
    at::_foreach_mul_(group.parameters, at::rsub(factors.learning_rate * group.weight_decay, 1.0));
  }
  at::_foreach_addcdiv_(group.parameters, numerators, denominators);
}

// The operation divides the gradients by `inverse_clip`.
void AdamW::step_fused(const Tensor& inverse_clip, const std::optional<Tensor>& found_inf) {
  for (Group& group : groups_) {
    const auto update = [&](const auto& learning_rate) {
      at::_fused_adamw_(group.parameters, group.gradients(), group.first_moments, group.second_moments,
                        /*max_exp_avg_sqs=*/{}, group.steps, learning_rate, beta1, beta2, group.weight_decay, eps,
                        /*amsgrad=*/false, /*maximize=*/false, inverse_clip, found_inf);
    };
    if (const auto* on_device = std::get_if<Tensor>(&learning_rate_); on_device != nullptr) {
      update(*on_device);
    } else {
      update(double{static_cast<float>(std::get<double>(learning_rate_))});  // as a device would hold it
    }
  }
}

int64_t AdamW::state_bytes() const {
  int64_t bytes = 0;
  for (const Group& group : groups_) {
    for (const auto* moments : {&group.first_moments, &group.second_moments}) {
      for (const Tensor& moment : *moments) bytes += static_cast<int64_t>(moment.nbytes());
    }
  }
  return bytes;
}

std::map<std::string, Tensor> AdamW::state() const {
  std::map<std::string, Tensor> tensors{{"step", step_tensor_}};
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.names.size(); ++i) {
      tensors["first_moment." + group.names[i]] = group.first_moments[i];
      tensors["second_moment." + group.names[i]] = group.second_moments[i];
    }
  }
  return tensors;
}

void AdamW::drop_gradients() {
  if (master_) return;
  for (Group& group : groups_) {
    for (Tensor& parameter : group.parameters) parameter.mutable_grad() = Tensor();
  }
}

}  // namespace model
