// The trainer as a user would use it, without measuring: `ladder train` and `ladder tokenize`.
#include "ablations/commands/commands.h"
#include "ablations/commands/defaults.h"
#include "ablations/commands/request.h"
#include "ablations/text/text.h"
#include "files/printable.h"
#include "harness/json_file.h"
#include "harness/resources.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/data.h"
#include "model/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace ablations {

using harness::Json;

int train(const TrainFlags& flags) {
  RunFlags run_flags;
  run_flags.workload = flags.workload;
  run_flags.recipe = flags.recipe;
  WorkloadFlags& workload = run_flags.workload;
  if (workload.model.empty()) workload.model = "gpt2-124m";
  const model::Config config = model::with_positions(model::preset(workload.model), workload.positions);
  if (workload.T == 0) workload.T = std::min<int64_t>(256, config.n_positions);
  if (workload.steps == 0) workload.steps = 50;
  const int64_t steps = workload.steps;
  const RunOptions options = run_options(run_flags);
  if (!flags.save.empty()) {
    check_can_write("--save", flags.save);
    check_not_read("--save", flags.save, run_flags);
  }
  prepare_process(options);
  const model::TokenStream tokens = tokens_of(options);
  model::Trainer trainer(
      config, options.recipe,
      {.B = options.B,
       .T = options.T,
       .accumulation = options.accumulation,
       .max_steps = steps,
       .seed = options.seed,
       .schedule = {.warmup_steps = std::min<int64_t>(10, steps), .decay_steps = std::max<int64_t>(steps, 11)}},
      tokens);
  if (!flags.weights.empty()) model::load_weights(trainer.model(), flags.weights);
  for (int64_t step = 0; step < steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    trainer.step();
    if (flags.json) continue;
    trainer.synchronize();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("step {:>5}  loss {:.4f}  {} ms  {} tokens/s\n", step + 1, trainer.losses().back(),
               number(seconds * 1e3), number(static_cast<double>(trainer.tokens_per_step()) / seconds));
    std::fflush(stdout);
  }
  if (flags.json) {
    Json losses = Json::array();
    for (const double loss : trainer.losses()) losses.push_back(harness::finite_or_null(loss));
    fmt::print("{}\n", Json{{"losses", losses}}.dump());
  }
  if (!flags.save.empty()) {
    model::save_weights(trainer.model(), flags.save);
    fmt::print(stderr, "weights: {}\n", files::printable(flags.save));
  }
  return 0;
}

int tokenize(const TokenizeFlags& flags) {
  check_can_write("--out", flags.out);
  const std::filesystem::path vocabulary =
      flags.vocabulary.empty() ? default_vocabulary() : std::filesystem::path(flags.vocabulary);
  check_not_same("--out", flags.out, "--data", flags.data);
  check_not_same("--out", flags.out, "--vocab", vocabulary);
  const auto stream = model::tokens_of_text(flags.data, vocabulary, harness::cache_folder() / "tokens");
  model::write_tokens(flags.out, stream.tokens);
  fmt::print("{}: {} tokens\n", files::printable(flags.out), stream.tokens.size());
  return 0;
}

}  // namespace ablations
