#include "model/optimizer.h"

#include <ATen/core/grad_mode.h>

#include <cmath>

namespace model {

using at::Tensor;

AdamW::AdamW(const std::vector<Parameter>& parameters, Optimizer kind, bool capturable, const AdamWOptions& options)
    : kind_(kind), capturable_(capturable), options_(options) {
  const at::TensorOptions on_device = parameters.front().tensor.options().requires_grad(false);
  learning_rate_tensor_ = at::zeros({}, on_device);
  step_tensor_ = at::zeros({}, on_device);
  groups_.resize(2);
  groups_[0].weight_decay = options.weight_decay;
  groups_[1].weight_decay = 0.0;
  for (const Parameter& parameter : parameters) {
    Group& group = groups_[parameter.tensor.dim() >= 2 ? 0 : 1];
    group.parameters.push_back(parameter.tensor);
    group.first_moments.push_back(at::zeros_like(parameter.tensor, on_device));
    group.second_moments.push_back(at::zeros_like(parameter.tensor, on_device));
    group.steps.push_back(step_tensor_);
  }
}

std::vector<Tensor> AdamW::Group::gradients() const {
  std::vector<Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

void AdamW::set_learning_rate(double learning_rate) {
  learning_rate_ = learning_rate;
  learning_rate_tensor_.fill_(learning_rate);
}

void AdamW::set_learning_rate(const Tensor& learning_rate) { learning_rate_tensor_.copy_(learning_rate.squeeze()); }

void AdamW::unscale(const Tensor& inverse_scale, Tensor& found_inf) {
  for (const Group& group : groups_) {
    at::_amp_foreach_non_finite_check_and_unscale_(group.gradients(), found_inf, inverse_scale);
  }
}

Tensor AdamW::clip_coefficient() const {
  std::vector<Tensor> norms;
  for (const Group& group : groups_) {
    for (Tensor& norm : at::_foreach_norm(group.gradients(), 2)) norms.push_back(std::move(norm));
  }
  const Tensor norm = at::linalg_vector_norm(at::stack(norms), 2);
  return at::clamp_max(options_.max_norm / (norm + 1e-6), 1.0);
}

void AdamW::step(const Tensor& clip_coefficient, const std::optional<Tensor>& found_inf) {
  const at::NoGradGuard no_grad;
  ++step_count_;
  step_tensor_.add_(1);
  const bool from_host = !capturable_ && !found_inf;
  for (Group& group : groups_) {
    if (kind_ == Optimizer::fused) {
      step_fused(group, clip_coefficient, found_inf);
      continue;
    }
    const std::vector<Tensor> gradients = group.gradients();
    at::_foreach_mul_(gradients, clip_coefficient);  // for loop, too, as clip_grad_norm_ does by default
    if (found_inf) {
      const Tensor overflowed = found_inf->squeeze().to(at::kBool);
      for (const Tensor& gradient : gradients) gradient.masked_fill_(overflowed, 0);
    }
    if (from_host) {
      kind_ == Optimizer::loop ? step_loop(group) : step_foreach(group);
    } else {
      const DeviceFactors factors = device_factors(group, found_inf);
      kind_ == Optimizer::loop ? step_loop(group, factors) : step_foreach(group, factors);
    }
  }
  if (found_inf) step_tensor_.sub_(found_inf->squeeze());
}

AdamW::DeviceFactors AdamW::device_factors(const Group& group, const std::optional<Tensor>& found_inf) const {
  // 1, or 0 for a step to be skipped: it keeps moments and weights as they are (its gradients are 0).
  const Tensor taken = found_inf ? 1.0 - found_inf->squeeze() : at::ones_like(step_tensor_);
  const Tensor learning_rate = learning_rate_tensor_ * taken;
  return {.beta1 = 1.0 - taken * (1.0 - options_.beta1),
          .beta2 = 1.0 - taken * (1.0 - options_.beta2),
          .kept = 1.0 - learning_rate * group.weight_decay,
          .negative_step_size = learning_rate / (at::pow(options_.beta1, step_tensor_) - 1.0),
          .root_correction = at::sqrt(1.0 - at::pow(options_.beta2, step_tensor_))};
}

void AdamW::step_loop(const Group& group) {
  // 1-based step count, so that the first correction is 1 - beta.
  const double count = static_cast<double>(step_count_);
  const double step_size = learning_rate_ / (1.0 - std::pow(options_.beta1, count));
  const double root_correction = std::sqrt(1.0 - std::pow(options_.beta2, count));
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor& m = group.first_moments[i];
    const Tensor& v = group.second_moments[i];
    const Tensor g = p.grad();
    m.lerp_(g, 1.0 - options_.beta1);
    v.mul_(options_.beta2).addcmul_(g, g, 1.0 - options_.beta2);
    p.mul_(1.0 - learning_rate_ * group.weight_decay);
    p.addcdiv_(m, v.sqrt().div_(root_correction).add_(options_.eps), -step_size);
  }
}

void AdamW::step_loop(const Group& group, const DeviceFactors& factors) {
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor& m = group.first_moments[i];
    const Tensor& v = group.second_moments[i];
    const Tensor g = p.grad();
    m.mul_(factors.beta1).add_(g, 1.0 - options_.beta1);
    v.mul_(factors.beta2).addcmul_(g, g, 1.0 - options_.beta2);
    p.mul_(factors.kept);
    p.addcdiv_(m * factors.negative_step_size, v.sqrt().div_(factors.root_correction).add_(options_.eps));
  }
}

void AdamW::step_foreach(const Group& group) {
  const double count = static_cast<double>(step_count_);
  const std::vector<Tensor> gradients = group.gradients();
  at::_foreach_lerp_(group.first_moments, gradients, 1.0 - options_.beta1);
  at::_foreach_mul_(group.second_moments, options_.beta2);
  at::_foreach_addcmul_(group.second_moments, gradients, gradients, 1.0 - options_.beta2);
  const std::vector<Tensor> denominators = at::_foreach_sqrt(group.second_moments);
  at::_foreach_div_(denominators, std::sqrt(1.0 - std::pow(options_.beta2, count)));
  at::_foreach_add_(denominators, options_.eps);
  at::_foreach_mul_(group.parameters, 1.0 - learning_rate_ * group.weight_decay);
  at::_foreach_addcdiv_(group.parameters, group.first_moments, denominators,
                        -learning_rate_ / (1.0 - std::pow(options_.beta1, count)));
}

void AdamW::step_foreach(const Group& group, const DeviceFactors& factors) {
  const std::vector<Tensor> gradients = group.gradients();
  at::_foreach_mul_(group.first_moments, factors.beta1);
  at::_foreach_add_(group.first_moments, gradients, 1.0 - options_.beta1);
  at::_foreach_mul_(group.second_moments, factors.beta2);
  at::_foreach_addcmul_(group.second_moments, gradients, gradients, 1.0 - options_.beta2);
  const std::vector<Tensor> numerators = at::_foreach_mul(group.first_moments, factors.negative_step_size);
  const std::vector<Tensor> denominators = at::_foreach_sqrt(group.second_moments);
  at::_foreach_div_(denominators, factors.root_correction);
  at::_foreach_add_(denominators, options_.eps);
  at::_foreach_mul_(group.parameters, factors.kept);
  at::_foreach_addcdiv_(group.parameters, numerators, denominators);
}

void AdamW::step_fused(Group& group, const Tensor& clip_coefficient, const std::optional<Tensor>& found_inf) {
  // The operation divides gradients by grad_scale.
  at::_fused_adamw_(group.parameters, group.gradients(), group.first_moments, group.second_moments,
                    /*max_exp_avg_sqs=*/{}, group.steps, learning_rate_tensor_, options_.beta1, options_.beta2,
                    group.weight_decay, options_.eps,
                    /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/clip_coefficient.reciprocal(), found_inf);
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

void AdamW::drop_gradients() {
  for (Group& group : groups_) {
    for (Tensor& parameter : group.parameters) parameter.mutable_grad() = Tensor();
  }
}

}  // namespace model
