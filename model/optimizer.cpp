#include "model/optimizer.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <stdexcept>

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
  if (capturable_ || kind_ == Optimizer::fused) learning_rate_tensor_.fill_(learning_rate);
}

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
  if (kind_ == Optimizer::fused) {
    step_tensor_.add_(1);
    for (Group& group : groups_) step_fused(group, clip_coefficient, found_inf);
    if (found_inf) step_tensor_.sub_(found_inf->squeeze());
    return;
  }
  if (found_inf) {
    if (capturable_) {
      throw std::invalid_argument(
          "recipe: autocast fp16 with execution graph needs optimizer fused: the others ask the host "
          "whether a step is skipped");
    }
    if (found_inf->item<float>() != 0.0F) return;
  }
  ++step_count_;
  step_tensor_.add_(1);
  for (const Group& group : groups_) {
    const std::vector<Tensor> gradients = group.gradients();
    if (kind_ == Optimizer::loop) {
      for (const Tensor& gradient : gradients) gradient.mul_(clip_coefficient);
      step_loop(group);
    } else {
      at::_foreach_mul_(gradients, clip_coefficient);
      step_foreach(group);
    }
  }
}

void AdamW::step_loop(const Group& group) {
  const auto [beta1, beta2, eps, decay, max_norm] = options_;
  // 1-based step count, so that the first correction is 1 - beta.
  const double count = static_cast<double>(step_count_);
  const double step_size = learning_rate_ / (1.0 - std::pow(beta1, count));
  const double root_correction = std::sqrt(1.0 - std::pow(beta2, count));
  Tensor negative_step_size, root_correction_tensor, kept;
  if (capturable_) {
    negative_step_size = learning_rate_tensor_ / (at::pow(beta1, step_tensor_) - 1.0);
    root_correction_tensor = at::sqrt(1.0 - at::pow(beta2, step_tensor_));
    kept = 1.0 - learning_rate_tensor_ * group.weight_decay;
  }
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor& m = group.first_moments[i];
    const Tensor& v = group.second_moments[i];
    const Tensor g = p.grad();
    m.lerp_(g, 1.0 - beta1);
    v.mul_(beta2).addcmul_(g, g, 1.0 - beta2);
    if (capturable_) {
      p.mul_(kept);
      p.addcdiv_(m, (v.sqrt() / (root_correction_tensor * negative_step_size)).add_(eps / negative_step_size));
    } else {
      p.mul_(1.0 - learning_rate_ * group.weight_decay);
      p.addcdiv_(m, (v.sqrt() / root_correction).add_(eps), -step_size);
    }
  }
}

void AdamW::step_foreach(const Group& group) {
  const auto [beta1, beta2, eps, decay, max_norm] = options_;
  const std::vector<Tensor> gradients = group.gradients();
  at::_foreach_lerp_(group.first_moments, gradients, 1.0 - beta1);
  at::_foreach_mul_(group.second_moments, beta2);
  at::_foreach_addcmul_(group.second_moments, gradients, gradients, 1.0 - beta2);
  const std::vector<Tensor> denominators = at::_foreach_sqrt(group.second_moments);
  if (capturable_) {
    const Tensor negative_step_size = learning_rate_tensor_ / (at::pow(beta1, step_tensor_) - 1.0);
    const Tensor root_correction = at::sqrt(1.0 - at::pow(beta2, step_tensor_));
    at::_foreach_mul_(denominators, 1.0 / (root_correction * negative_step_size));
    at::_foreach_add_(denominators, eps / negative_step_size);
    at::_foreach_mul_(group.parameters, 1.0 - learning_rate_tensor_ * group.weight_decay);
    at::_foreach_addcdiv_(group.parameters, group.first_moments, denominators);
    return;
  }
  const double count = static_cast<double>(step_count_);
  at::_foreach_div_(denominators, std::sqrt(1.0 - std::pow(beta2, count)));
  at::_foreach_add_(denominators, eps);
  at::_foreach_mul_(group.parameters, 1.0 - learning_rate_ * group.weight_decay);
  at::_foreach_addcdiv_(group.parameters, group.first_moments, denominators,
                        -learning_rate_ / (1.0 - std::pow(beta1, count)));
}

void AdamW::step_fused(Group& group, const Tensor& clip_coefficient, const std::optional<Tensor>& found_inf) {
  // The operation divides gradients by grad_scale.
  at::_fused_adamw_(group.parameters, group.gradients(), group.first_moments, group.second_moments,
                    /*max_exp_avg_sqs=*/{}, group.steps, learning_rate_tensor_, options_.beta1, options_.beta2,
                    group.weight_decay, options_.eps,
                    /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/clip_coefficient.reciprocal(), found_inf);
}

void AdamW::drop_gradients() {
  for (Group& group : groups_) {
    for (Tensor& parameter : group.parameters) parameter.mutable_grad() = Tensor();
  }
}

}  // namespace model
