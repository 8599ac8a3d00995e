// A study of time to a loss of 5, with planted losses: a rung of each kind, three seeds.
#pragma once

#include "results/to_loss.h"

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace planted {

// Validation losses after every tenth step.
inline results::SeedTraining seed_training(size_t rung, uint64_t seed, double seconds_per_step,
                                           const std::vector<double>& losses) {
  results::SeedTraining made{.rung = rung, .seed = seed};
  for (const double loss : losses) {
    const int64_t step = 10 * (std::ssize(made.curve) + 1);
    made.curve.push_back(
        {.step = step, .tokens = 32 * step, .seconds = seconds_per_step * static_cast<double>(step), .loss = loss});
  }
  made.seconds = made.curve.empty() ? 0 : made.curve.back().seconds;
  return made;
}

inline results::RungToLoss trained_rung(const std::string& optimization, const std::string& title) {
  results::RungToLoss rung;
  rung.optimization = optimization;
  rung.title = title;
  return rung;
}

// The reference reaches 5 at step 15, after 15, 30 and 60 seconds. "bf16" needs half of that and ends 0.01, 0.02 and
// 0.03 nats higher; "flash" takes as long and ends 1 nat higher, without reaching it; "gpu" is skipped.
inline results::TimeToLoss to_loss() {
  results::TimeToLoss made;
  made.device = {results::DeviceKind::cpu, "AMD EPYC, 2 threads"};
  made.ladder = {.name = "tiny", .title = "A tiny ladder", .file = {}};
  made.training = {.created = "2026-11-26T10:00:00Z", .recipe_from = "ladder tiny", .parameters = 1000};
  results::TrainingSettings& settings = made.training.settings;
  settings.model = "tiny";
  settings.B = 2;
  settings.T = 16;
  settings.positions = 64;
  settings.steps = 30;
  settings.clip = 1.0;
  settings.data = {.source = "book.txt", .sha256 = "ab", .tokens = 5000};
  settings.validation_share = 0.1;
  settings.validation_every = 10;
  settings.validation_batches = 3;
  settings.learning_rate = {.peak = 1e-3, .floor = 1e-4, .warmup_steps = 4, .decay_steps = 30};
  made.training.files = {.data = "/text/book.txt", .vocabulary = "/text/gpt2.tiktoken"};
  made.training.save_every = 0;
  made.loss = 5;
  made.margin = 0.05;
  made.seeds = 3;
  made.rungs = {trained_rung("", "float32"), trained_rung("gpu", "GPU"), trained_rung("bf16", "bf16 autocast"),
                trained_rung("flash", "flash attention")};
  made.rungs[1].status = results::Rung::Status::not_applicable;
  made.rungs[1].reason = "no CUDA device";
  for (const uint64_t seed : {1U, 2U, 3U}) {
    const double pace = seed == 1 ? 1 : seed == 2 ? 2 : 4, off = 0.01 * static_cast<double>(seed);
    made.trainings.push_back(seed_training(0, seed, pace, {6, 4, 3}));
    made.trainings.push_back(seed_training(2, seed, pace / 2, {6, 4, 3 + off}));
    made.trainings.push_back(seed_training(3, seed, pace, {9, 8, 4 + off + 1.5}));
  }
  return made;
}

}  // namespace planted
