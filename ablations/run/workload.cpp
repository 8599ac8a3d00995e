#include "ablations/run/workload.h"

#include "files/resources.h"
#include "harness/measure/environment.h"
#include "model/costs.h"
#include "model/host_memory.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <stdexcept>

namespace ablations {

namespace {

void check_range(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) {
    throw std::invalid_argument(fmt::format("{} must be between {} and {}, got {}", name, least, most, value));
  }
}

const RunOptions& checked_and_prepared(const RunOptions& options) {
  check_range("--steps", options.timed_steps, 1, 100000);
  check_range("--warmup", options.warmup_steps, 0, 100000);
  check_warmup(options.recipe, options.warmup_steps);
  check_range("--threads", options.threads, 0, 4096);
  prepare_process(options);
  return options;
}

model::Config config_of(const RunOptions& options) {
  return model::with_positions(model::preset(options.model), options.positions);
}

}  // namespace

void check_warmup(const model::Recipe& recipe, int64_t warmup_steps) {
  if (recipe.device == model::Device::cpu && recipe.host_memory == model::HostMemory::keep && warmup_steps == 0) {
    throw std::invalid_argument(
        "--warmup must be at least 1 with host_memory keep, got 0: the first step of a process gets its memory from "
        "the system, which later steps do not");
  }
  if (recipe.execution == model::Execution::eager || warmup_steps >= model::runs_before_replay) return;
  throw std::invalid_argument(
      fmt::format("--warmup must be at least {0} with execution graph, got {1}: the graph is captured at step {0} and "
                  "replayed from then on",
                  model::runs_before_replay, warmup_steps));
}

int busy_threads(model::Device device, int threads) { return device == model::Device::cuda ? 1 : threads; }

void prepare_process(const RunOptions& options) {
  model::apply_host_memory(options.recipe.host_memory);
  at::set_num_threads(
      static_cast<int>(options.threads > 0 ? options.threads : harness::this_machine().cpu.logical_cores));
}

model::TokenStream tokens_of(const RunOptions& options) {
  const int64_t vocabulary = config_of(options).vocabulary;
  return options.tokens.empty()
             ? model::tokens_of(options.data, options.vocabulary, files::cache_folder() / "tokens", vocabulary)
             : model::load_tokens(options.tokens, vocabulary);
}

Workload workload_of(const RunOptions& options, const std::string& sha256, int64_t tokens) {
  const model::Config config = config_of(options);
  const int64_t per_step = options.B * options.T * options.accumulation;
  return {.model = config.name,
          .parameters = config.parameters(),
          .B = options.B,
          .T = options.T,
          .accumulation = options.accumulation,
          .positions = config.n_positions,
          .tokens_per_step = per_step,
          .flops_per_step = config.flops_per_token(options.T) * static_cast<double>(per_step),
          .seed = options.seed,
          .data = {.source = options.data.filename().string(), .sha256 = sha256, .tokens = tokens}};
}

LeastWork least_work_of(const RunOptions& options) {
  LeastWork work;
  for (const model::Cost& cost :
       model::step_costs(config_of(options), options.recipe, options.B, options.T, options.accumulation)) {
    work.flops += cost.flops;
    work.bytes += cost.bytes;
  }
  return work;
}

Gpt2Workload::Gpt2Workload(const RunOptions& options, int64_t steps)
    : options_(checked_and_prepared(options)),
      config_(config_of(options)),
      tokens_(tokens_of(options)),
      trainer_(config_, options.recipe,
               {.B = options.B,
                .T = options.T,
                .accumulation = options.accumulation,
                .max_steps = steps,
                .seed = options.seed},
               tokens_) {
  label(harness::nvtx_tool_attached());
}

void Gpt2Workload::label(bool follow_autograd) {
  labels_.reset();
  labels_ = std::make_unique<harness::Labels>(follow_autograd);
  trainer_.on_phase = [this](std::string_view phase) { labels_->begin_phase(phase); };
  trainer_.ops().on_part = [this](int64_t layer, std::string_view part) { labels_->begin_part(layer, part); };
}

}  // namespace ablations
