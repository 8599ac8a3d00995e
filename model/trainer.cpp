#include "model/trainer.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

namespace model {

using at::Tensor;

namespace {

const TrainerOptions& checked(const TrainerOptions& options, const Config& config, const Recipe& recipe) {
  const auto require = [](bool good, const std::string& message) {
    if (!good) throw std::invalid_argument(message);
  };
  constexpr int64_t most = 1 << 16;
  require(options.B >= 1 && options.B <= most,
          fmt::format("batch B must be between 1 and {}, got {}", most, options.B));
  require(options.T >= 1 && options.T <= config.n_positions,
          fmt::format("context T must be between 1 and {}, the positions of {}, got {}", config.n_positions,
                      config.name, options.T));
  require(options.accumulation >= 1 && options.accumulation <= most,
          fmt::format("accumulation must be between 1 and {}, got {}", most, options.accumulation));
  require(options.max_steps >= 1, fmt::format("steps must be at least 1, got {}", options.max_steps));
  require(options.first_step >= 0 && options.first_step <= options.max_steps,
          fmt::format("the first step must be between 0 and {}, got {}", options.max_steps, options.first_step));
  require(recipe.execution == Execution::eager || recipe.device == Device::cuda,
          "recipe: execution graph needs device cuda");
  if (recipe.weights == Weights::master) {
    const std::string obstacle = master_weights_obstacle(recipe);
    require(obstacle.empty(), "recipe: " + obstacle);
  }
  require(options.ranks.size == 1 || recipe.data_parallel == Parallel::ddp,
          fmt::format("recipe: {} ranks need data_parallel ddp (WORLD_SIZE is {})", options.ranks.size,
                      options.ranks.size));
  return options;
}

// What ranks must have in common.
std::vector<std::string> work_of(const Config& config, const Recipe& recipe, const TrainerOptions& options) {
  std::vector<std::string> work{
      "model " + config.name,
      fmt::format("B {}", options.B),
      fmt::format("T {}", options.T),
      fmt::format("accumulation {}", options.accumulation),
      fmt::format("steps {} to {}", options.first_step, options.max_steps),
      fmt::format("seed {}", options.seed),
      fmt::format("{} windows", options.windows == Windows::random ? "random" : "consecutive"),
      "recipe " + recipe_diff({}, recipe).dump()};
  work.insert(work.end(), options.work.begin(), options.work.end());
  return work;
}

at::Device device_of(const Recipe& recipe) {
  return recipe.device == Device::cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
}

std::optional<c10::cuda::CUDAStreamGuard> stream_of(const Recipe& recipe) {
  if (recipe.device != Device::cuda) return std::nullopt;
  return std::optional<c10::cuda::CUDAStreamGuard>(std::in_place, c10::cuda::getStreamFromPool());
}

GPT2 model_of(const Config& config, const Recipe& recipe, uint64_t seed, at::Device device) {
  GPT2 gpt2(config, recipe.vocabulary_rows, seed, device);
  if (recipe.weights == Weights::master && recipe.autocast == Autocast::bf16)
    gpt2.split_weights(/*biases=*/recipe.device == Device::cuda);
  return gpt2;
}

}  // namespace

Trainer::Trainer(const Config& config, const Recipe& recipe, const TrainerOptions& options, const TokenStream& tokens,
                 const StepParts& parts)
    : recipe_(recipe),
      options_(checked(options, config, recipe)),
      device_(device_of(recipe)),
      stream_(stream_of(recipe)),
      matmul_precision_(recipe.matmul_precision),
      sdpa_(recipe.attention),
      determinism_(recipe.deterministic),
      model_(model_of(config, recipe, options.seed, device_)),
      gradients_(recipe.weights == Weights::master ? std::make_unique<Gradients>(model_.parameters(), parts.finish)
                                                   : nullptr),
      ops_(parts.ops(recipe, gradients_.get())),
      optimizer_(model_.parameters(), recipe.optimizer,
                 {.weight_decay = options.weight_decay, .max_norm = options.max_norm, .first_step = options.first_step},
                 recipe.weights == Weights::master ? parts.update : nullptr),
      inputs_(tokens, options.B, options.T, options.accumulation, options.max_steps - options.first_step, options.seed,
              device_, recipe.batches, options.first_step, share(), options.windows),
      executor_(make_executor(
          recipe.execution, [this] { optimizer_.drop_gradients(); }, [this] { on_phase("replay"); })),
      step_(options.first_step) {
  const auto on_device = at::TensorOptions().device(device_);
  values_ = at::zeros({options.max_steps, 3}, on_device);
  if (recipe.execution == Execution::graph) {
    std::vector<float> schedule;
    for (int64_t i = 0; i < options.max_steps; ++i) schedule.push_back(static_cast<float>(options.schedule.at(i)));
    learning_rates_ =
        at::from_blob(schedule.data(), {options.max_steps}, at::kFloat).to(device_, at::kFloat, false, true);
    step_index_ = at::full({1}, options.first_step, on_device.dtype(at::kLong));
    if (recipe.deterministic) step_numbers_ = at::arange(options.max_steps, on_device.dtype(at::kLong));
  }
  if (recipe.autocast == Autocast::fp16) {
    scaler_ = GradientScaler{.scale = at::full({1}, 65536.0, on_device.dtype(at::kFloat)),
                             .growth_tracker = at::zeros({1}, on_device.dtype(at::kInt)),
                             .found_inf = at::zeros({1}, on_device.dtype(at::kFloat)),
                             .skipped = at::zeros({1}, on_device.dtype(at::kFloat))};
  }
  if (recipe.data_parallel == Parallel::ddp) {
    parallel_ = std::make_unique<DataParallel>(options.ranks, model_.parameters(), gradients_.get(),
                                               work_of(config, recipe, options));
    wish_ = at::zeros({}, on_device);
    wishes_ = at::zeros({}, on_device);
    if (device_.is_cuda()) {
      for (Answer& answer : answers_) answer.host = at::zeros({}, at::TensorOptions().pinned_memory(true));
    }
  }
}

Tensor Trainer::loss_of(const Tensor& inputs, const Tensor& targets) const {
  const AutocastScope autocast(device_.type(), recipe_.autocast);
  return model_.loss(ops_, inputs, targets);
}

double Trainer::evaluate(const TokenStream& tokens, int64_t batches) const {
  const at::NoGradGuard no_grad;
  BatchLoader loader(tokens, options_.B, options_.T, /*seed=*/0, Batches::gather, share());
  Tensor sum = at::zeros({}, at::TensorOptions().device(device_).dtype(at::kDouble));
  for (int64_t i = 0; i < batches; ++i) {
    const auto [inputs, targets] = loader.next();
    sum += loss_of(inputs.to(device_), targets.to(device_));
  }
  if (parallel_) sum = parallel_->mean(sum);
  wait_for_reductions();
  return sum.item<double>() / static_cast<double>(batches);
}

std::vector<uint16_t> Trainer::sample(std::span<const uint16_t> prompt, const SampleOptions& options) const {
  const AutocastScope autocast(device_.type(), recipe_.autocast);
  return generate(model_, ops_, prompt, options);
}

Tensor Trainer::forward_logits(const Tensor& tokens) const {
  const AutocastScope autocast(device_.type(), recipe_.autocast);
  return model_.logits(ops_, tokens.to(device_));
}

void Trainer::run_step() {
  if (recipe_.execution == Execution::graph) optimizer_.set_learning_rate(learning_rates_.index_select(0, step_index_));
  if (scaler_) scaler_->found_inf.zero_();
  const bool reduces = parallel_ && !alone_;
  // c10d's Reducer divides gradients by the number of ranks; static ones are made that much smaller.
  const int64_t parts = options_.accumulation * (reduces && gradients_ ? options_.ranks.size : 1);
  const double part = 1.0 / static_cast<double>(parts);
  if (gradients_) gradients_->begin_step(part);
  Tensor step_loss;
  for (size_t i = 0; i < static_cast<size_t>(options_.accumulation); ++i) {
    on_phase("forward");
    const Tensor pair = inputs_.batch()[static_cast<int64_t>(i)];
    Tensor loss = loss_of(pair[0], pair[1]);
    if (parts > 1) loss = loss * part;
    step_loss = i == 0 ? loss.detach() : step_loss + loss.detach();
    on_phase("backward");
    if (scaler_) loss = loss * scaler_->scale.squeeze();
    const bool is_last = static_cast<int64_t>(i) + 1 == options_.accumulation;
    if (reduces && is_last) {
      const Tensor values = parallel_->backward(loss, at::stack({step_loss, wish_}));
      step_loss = values[0];
      wishes_.copy_(values[1]);
    } else {
      gradients_ ? gradients_->backward(loss) : loss.backward();
    }
  }
  on_phase("clip");
  const at::NoGradGuard no_grad;
  std::optional<Tensor> found_inf;
  if (scaler_) {
    found_inf = scaler_->found_inf;
    optimizer_.unscale(scaler_->scale.to(at::kDouble).reciprocal().to(at::kFloat), *found_inf);
  }
  const Clip clip = optimizer_.clip();
  on_phase("update");
  optimizer_.step(clip.coefficient, found_inf);
  if (scaler_) {
    scaler_->skipped.add_(scaler_->found_inf);
    at::_amp_update_scale_(scaler_->scale, scaler_->growth_tracker, scaler_->found_inf, 2.0, 0.5,
                           options_.scale_growth_interval);
  }
  keep(step_loss, clip);
}

void Trainer::keep(const Tensor& loss, const Clip& clip) {
  const std::array<Tensor, 3> values{loss, clip.norm, clip.coefficient};
  if (recipe_.execution == Execution::eager) {
    Tensor place = values_.select(0, step_);
    at::stack_out(place, values);
    return;
  }
  // In a captured step the values' place comes from the device.
  const Tensor row = at::stack(values).unsqueeze(0);
  if (recipe_.deterministic) {
    // index_copy_ would sort its indices and check them first.
    values_.copy_(at::where(at::eq(step_numbers_, step_index_).unsqueeze(1), row, values_));
  } else {
    values_.index_copy_(0, step_index_, row);
  }
  step_index_.add_(1);
}

void Trainer::agree() {
  std::vector<Tensor> tensors;
  for (const Parameter& parameter : model_.parameters()) {
    tensors.push_back(parameter.tensor);
    if (parameter.remainder.defined()) tensors.push_back(parameter.remainder);
  }
  for (const auto& [name, tensor] : state()) tensors.push_back(tensor);
  parallel_->copy_from_first(tensors);
  agreed_ = true;
}

void Trainer::step() { take_step(/*alone=*/false); }

void Trainer::step_alone() { take_step(/*alone=*/true); }

void Trainer::take_step(bool alone) {
  if (step_ >= options_.max_steps) throw std::out_of_range("Trainer::step: more steps than max_steps");
  if (parallel_ && !agreed_) agree();
  if (alone != alone_) executor_->recapture();  // a graph reduces always or never
  alone_ = alone;
  on_phase("data");
  inputs_.advance();
  if (recipe_.execution == Execution::eager) optimizer_.set_learning_rate(options_.schedule.at(step_));
  ops_.before_step();
  executor_->run([this] { run_step(); });
  ++step_;
  on_phase("");
}

void Trainer::synchronize() const {
  wait_for_reductions();
  if (device_.is_cuda()) c10::cuda::device_synchronize();
}

bool Trainer::on_any_rank(bool value) {
  if (!parallel_) return value;
  if (value) wish_.fill_(1);
  if (!device_.is_cuda()) return wishes_.item<float>() > 0;
  Answer& newer = answers_[answer_];
  newer.host.copy_(wishes_, /*non_blocking=*/true);
  newer.copied.record();
  answer_ = 1 - answer_;
  parallel_->wait_for(answers_[answer_].copied);
  return answers_[answer_].host.item<float>() > 0;
}

// Without it the host would wait for a lost rank for ever.
void Trainer::wait_for_reductions() const {
  if (!parallel_ || !device_.is_cuda()) return;
  c10::cuda::CUDAEvent reached;
  reached.record();
  parallel_->wait_for(reached);
}

std::vector<StepValues> Trainer::values(int64_t from) const {
  wait_for_reductions();
  const Tensor host = values_.narrow(0, from, step_ - from).to(at::kCPU, at::kDouble);
  const auto rows = host.accessor<double, 2>();
  std::vector<StepValues> values;
  for (int64_t i = 0; i < rows.size(0); ++i) values.push_back({rows[i][0], rows[i][1], rows[i][2]});
  return values;
}

std::vector<double> Trainer::losses() const {
  std::vector<double> losses;
  for (const StepValues& step : values(options_.first_step)) losses.push_back(step.loss);
  return losses;
}

double Trainer::loss_scale() const { return scaler_ ? scaler_->scale.item<float>() : 1.0; }

int64_t Trainer::weight_bytes() const {
  int64_t bytes = 0;
  for (const Parameter& parameter : model_.parameters()) {
    bytes += static_cast<int64_t>(parameter.tensor.nbytes());
    if (parameter.remainder.defined()) bytes += static_cast<int64_t>(parameter.remainder.nbytes());
  }
  return bytes;
}

int64_t Trainer::skipped_steps() const { return scaler_ ? static_cast<int64_t>(scaler_->skipped.item<float>()) : 0; }

// What a trainer keeps from step to step, in and out.

using at::Tensor;

std::map<std::string, Tensor> Trainer::state() const {
  std::map<std::string, Tensor> tensors = optimizer_.state();
  const int64_t words = model_.config().vocabulary, padding = model_.vocabulary_rows() - words;
  for (const Parameter& parameter : model_.parameters()) {
    if (padding == 0 || parameter.name != "wte.weight") continue;
    const auto rows = [&](const Tensor& of) { return of.detach().narrow(0, words, padding); };
    tensors["padding." + parameter.name] = rows(parameter.tensor);
    if (parameter.remainder.defined()) tensors["padding_remainder." + parameter.name] = rows(parameter.remainder);
  }
  if (scaler_) {
    tensors["scaler.scale"] = scaler_->scale;
    tensors["scaler.growth_tracker"] = scaler_->growth_tracker;
    tensors["scaler.skipped"] = scaler_->skipped;
  }
  return tensors;
}

void Trainer::load_state(const std::map<std::string, Tensor>& tensors, const std::string& where) {
  const std::map<std::string, Tensor> own = state();
  const auto refuse = [&](const std::string& name, const std::string& why) {
    throw std::invalid_argument(fmt::format("{}: tensor \"{}\" {}", where, name, why));
  };
  for (const auto& [name, tensor] : own) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) refuse(name, "is missing");
    const Tensor& given = found->second;
    if (given.sizes() != tensor.sizes() || given.scalar_type() != tensor.scalar_type()) {
      refuse(name, fmt::format("must be {} of shape ({}), got {} of shape ({})", at::toString(tensor.scalar_type()),
                               fmt::join(tensor.sizes(), ", "), at::toString(given.scalar_type()),
                               fmt::join(given.sizes(), ", ")));
    }
  }
  for (const auto& [name, given] : tensors) {
    if (!own.contains(name)) refuse(name, "is not a part of this training's state");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) tensor.copy_(tensors.at(name));
}

}  // namespace model
