#include "model/trainer.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <stdexcept>

namespace model {

using at::Tensor;

namespace {

const TrainerOptions& checked(const TrainerOptions& options, const Config& config, const Recipe& recipe) {
  const auto require = [](bool good, const std::string& message) {
    if (!good) throw std::invalid_argument(message);
  };
  constexpr int64_t most = 1 << 16;
  require(options.B >= 1 && options.B <= most, fmt::format("batch B={} is not allowed; 1 to {} is", options.B, most));
  require(
      options.T >= 1 && options.T <= config.n_positions,
      fmt::format("context T={} is not allowed; {} has 1 to {} positions", options.T, config.name, config.n_positions));
  require(options.accumulation >= 1 && options.accumulation <= most,
          fmt::format("accumulation={} is not allowed; 1 to {} is", options.accumulation, most));
  require(options.max_steps >= 1, fmt::format("steps={} is not allowed; at least 1 is", options.max_steps));
  require(recipe.execution == Execution::eager || recipe.device == Device::cuda,
          "recipe: execution graph needs device cuda");
  return options;
}

at::Device device_of(const Recipe& recipe) {
  return recipe.device == Device::cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
}

std::optional<c10::cuda::CUDAStreamGuard> stream_of(const Recipe& recipe) {
  if (recipe.device != Device::cuda) return std::nullopt;
  return std::optional<c10::cuda::CUDAStreamGuard>(std::in_place, c10::cuda::getStreamFromPool());
}

}  // namespace

Trainer::Trainer(const Config& config, const Recipe& recipe, const TrainerOptions& options, const TokenStream& tokens)
    : recipe_(recipe),
      options_(checked(options, config, recipe)),
      device_(device_of(recipe)),
      stream_(stream_of(recipe)),
      matmul_precision_(recipe.matmul_precision),
      sdpa_(recipe.attention),
      model_(config, recipe.vocabulary_rows, options.seed, device_),
      ops_(ops_for(recipe)),
      optimizer_(model_.parameters(), recipe.optimizer, recipe.execution == Execution::graph),
      loader_(tokens, options.B, options.T, options.seed),
      executor_(make_executor(recipe.execution, [this] { optimizer_.drop_gradients(); })) {
  const auto on_device = at::TensorOptions().device(device_);
  for (int64_t i = 0; i < options.accumulation; ++i) {
    inputs_.push_back(at::zeros({options.B, options.T}, on_device.dtype(at::kLong)));
    targets_.push_back(at::zeros({options.B, options.T}, on_device.dtype(at::kLong)));
  }
  loss_ = at::zeros({}, on_device);
  losses_ = at::zeros({options.max_steps}, on_device);
  if (recipe.autocast == Autocast::fp16) {
    scaler_ = GradientScaler{.scale = at::full({1}, 65536.0, on_device.dtype(at::kFloat)),
                             .growth_tracker = at::zeros({1}, on_device.dtype(at::kInt)),
                             .found_inf = at::zeros({1}, on_device.dtype(at::kFloat)),
                             .skipped = at::zeros({1}, on_device.dtype(at::kFloat))};
  }
}

void Trainer::load_batches() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    auto [inputs, targets] = loader_.next();
    if (device_.is_cuda()) {
      inputs = inputs.pin_memory();
      targets = targets.pin_memory();
    }
    inputs_[i].copy_(inputs, /*non_blocking=*/true);
    targets_[i].copy_(targets, /*non_blocking=*/true);
  }
}

Tensor Trainer::micro_loss(size_t micro_step) {
  const AutocastScope autocast(device_.type(), recipe_.autocast);
  return model_.loss(ops_, inputs_[micro_step], targets_[micro_step]);
}

Tensor Trainer::forward_logits(const Tensor& tokens) const {
  const AutocastScope autocast(device_.type(), recipe_.autocast);
  return model_.logits(ops_, tokens.to(device_));
}

void Trainer::run_step() {
  loss_.zero_();
  if (scaler_) scaler_->found_inf.zero_();
  const double share = 1.0 / static_cast<double>(options_.accumulation);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    on_phase("forward");
    Tensor loss = micro_loss(i) * share;
    loss_.add_(loss.detach());
    on_phase("backward");
    if (scaler_) loss = loss * scaler_->scale.squeeze();
    loss.backward();
  }
  on_phase("clip");
  std::optional<Tensor> found_inf;
  Tensor coefficient;
  {
    const at::NoGradGuard no_grad;
    if (scaler_) {
      found_inf = scaler_->found_inf;
      optimizer_.unscale(scaler_->scale.to(at::kDouble).reciprocal().to(at::kFloat), *found_inf);
    }
    coefficient = optimizer_.clip_coefficient();
  }
  on_phase("update");
  optimizer_.step(coefficient, found_inf);
  if (scaler_) {
    scaler_->skipped.add_(scaler_->found_inf);
    at::_amp_update_scale_(scaler_->scale, scaler_->growth_tracker, scaler_->found_inf, 2.0, 0.5, 2000);
  }
}

void Trainer::step() {
  if (step_ >= options_.max_steps) throw std::out_of_range("Trainer::step: more steps than max_steps");
  on_phase("data");
  load_batches();
  optimizer_.set_learning_rate(options_.schedule.at(step_));
  // A captured graph keeps its gradients: each replay overwrites them.
  if (recipe_.execution == Execution::eager) optimizer_.drop_gradients();
  executor_->run([this] { run_step(); });
  losses_.select(0, step_).copy_(loss_);
  ++step_;
  on_phase("");
}

void Trainer::synchronize() const {
  if (device_.is_cuda()) c10::cuda::device_synchronize();
}

std::vector<double> Trainer::losses() const {
  const Tensor host = losses_.narrow(0, 0, step_).to(at::kCPU, at::kDouble);
  return {host.data_ptr<double>(), host.data_ptr<double>() + host.numel()};
}

int64_t Trainer::skipped_steps() const { return scaler_ ? static_cast<int64_t>(scaler_->skipped.item<float>()) : 0; }

}  // namespace model
