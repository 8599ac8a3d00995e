// `ladder train` and `ladder tokenize`: the trainer without measuring.
#include "ablations/commands/commands.h"
#include "ablations/commands/defaults.h"
#include "ablations/commands/place.h"
#include "ablations/commands/request.h"
#include "ablations/text/text.h"
#include "files/json_file.h"
#include "files/printable.h"
#include "files/resources.h"
#include "harness/measure/process.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/data.h"
#include "model/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace ablations {

using files::Json;

namespace {

// Weights that are not finite are not saved.
void save_finite(model::Trainer& trainer, const std::string& file) {
  for (const model::Parameter& parameter : trainer.model().parameters()) {
    if (at::isfinite(parameter.tensor).all().item<bool>()) continue;
    throw std::runtime_error(
        fmt::format("--save {}: not written, because the weights {} are not finite", file, parameter.name));
  }
  model::save_weights(trainer.model(), file);
  fmt::print(stderr, "weights: {}\n", files::printable(file));
}

void print_losses(const model::Trainer& trainer) {
  Json losses = Json::array();
  for (const double loss : trainer.losses()) losses.push_back(files::finite_or_null(loss));
  fmt::print("{}\n", Json{{"losses", losses}}.dump());
}

}  // namespace

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
    check_not_read("--save", flags.save, inputs_of(run_flags));
    check_not_read("--save", flags.save, {{"--weights", flags.weights}});
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
  harness::catch_interrupts();  // a step that has begun is finished, and what was learned is saved
  int64_t done = 0;
  double loss = 0;
  while (done < steps && !harness::interrupted() && std::isfinite(loss)) {
    const auto start = std::chrono::steady_clock::now();
    trainer.step();
    ++done;
    loss = trainer.last_loss();
    if (flags.json) continue;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("step {:>5}  loss {:.4f}  {} ms  {} tokens/s\n", done, loss, number(seconds * 1e3),
               number(static_cast<double>(trainer.tokens_per_step()) / seconds));
    std::fflush(stdout);
  }
  if (flags.json) print_losses(trainer);
  if (!std::isfinite(loss)) {
    throw std::runtime_error(fmt::format("the loss of step {} is not finite: training stops{}", done,
                                         flags.save.empty() ? "" : ", and " + flags.save + " is not written"));
  }
  if (done < steps) {
    fmt::print(stderr, "interrupted after step {} of {}{}\n", done, steps,
               flags.save.empty() ? "; nothing is saved, because --save names no file" : "");
  }
  if (!flags.save.empty()) save_finite(trainer, flags.save);
  return done < steps ? 130 : 0;
}

int tokenize(const TokenizeFlags& flags) {
  check_can_write("--out", flags.out);
  const std::filesystem::path vocabulary =
      flags.vocabulary.empty() ? default_vocabulary() : std::filesystem::path(flags.vocabulary);
  check_not_read("--out", flags.out, {{"--data", flags.data}, {"--vocab", vocabulary}});
  const auto stream = model::tokens_of_text(flags.data, vocabulary, files::cache_folder() / "tokens");
  model::write_tokens(flags.out, stream.tokens);
  const auto text = static_cast<double>(std::filesystem::file_size(flags.data));
  const auto tokens = static_cast<double>(stream.tokens.size() * sizeof(uint16_t));
  fmt::print("{}: {} tokens, {} bytes of {} bytes of text{}\n", files::printable(flags.out), stream.tokens.size(),
             number(tokens), number(text), text > 0 ? fmt::format(" ({:.2f} of its size)", tokens / text) : "");
  return 0;
}

}  // namespace ablations
