#include "ablations/gpt2/options.h"

#include "ablations/techniques/step_table.h"
#include "ablations/techniques/techniques.h"
#include "files/resources.h"
#include "model/execution.h"
#include "model/ranks.h"

#include <fmt/format.h>

#include <stdexcept>

namespace ablations {

model::Config config_of(const RunOptions& options) {
  return model::with_positions(model::preset(options.model), options.positions);
}

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

std::optional<int64_t> ranks_under(const model::Recipe& recipe) {
  const int64_t ranks = model::ranks_of_environment().size;
  if (recipe.data_parallel == model::Parallel::ddp) return ranks;
  if (ranks == 1) return std::nullopt;
  throw std::invalid_argument(fmt::format(
      "recipe: data_parallel must be ddp where WORLD_SIZE is {}: else each process would do the same work", ranks));
}

int busy_threads(model::Device device, int threads) { return device == model::Device::cuda ? 1 : threads; }

model::TokenStream tokens_of(const RunOptions& options) {
  const int64_t vocabulary = config_of(options).vocabulary;
  const model::Keep keep = model::kept_for(options.recipe.batches);
  if (options.tokens.empty()) {
    return model::tokens_of(options.data, options.vocabulary, files::cache_folder() / "tokens", vocabulary, keep,
                            options.marks);
  }
  model::TokenStream stream = model::load_tokens(options.tokens, vocabulary, keep);
  if (batches_obstacle(model::Batches::tokenized, options.data).empty()) {
    stream.text = options.data;
    stream.vocabulary = options.vocabulary;
  }
  return stream;
}

Workload workload_of(const RunOptions& options, const std::string& sha256, int64_t tokens) {
  const model::Config config = config_of(options);
  const int64_t per_step = options.B * options.T * options.accumulation * options.ranks.value_or(1);
  return {.model = config.name,
          .parameters = config.parameters(),
          .B = options.B,
          .T = options.T,
          .accumulation = options.accumulation,
          .ranks = options.ranks,
          .positions = config.n_positions,
          .tokens_per_step = per_step,
          .flops_per_step = config.flops_per_token(options.T) * static_cast<double>(per_step),
          .seed = options.seed,
          .random_windows = options.random_windows,
          .data = {.source = options.data.filename().string(), .sha256 = sha256, .tokens = tokens}};
}

Work least_work_of(const RunOptions& options) {
  Work work;
  for (const Cost& cost : step_costs(config_of(options), options.recipe, options.B, options.T, options.accumulation)) {
    work.flops += cost.flops;
    work.bytes += cost.bytes;
  }
  return work;
}

}  // namespace ablations
