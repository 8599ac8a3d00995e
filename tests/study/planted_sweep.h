// A sweep of learning rates with planted losses: one rate of each kind.
#pragma once

#include "results/to_loss.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace planted {

constexpr int64_t sweep_steps = 40;

// The same for every rate, as its batches are: between -0.2 and 0.2 nats.
inline double batch_noise(int64_t step) { return 0.2 * std::sin(static_cast<double>(step * step)); }

// loss(t): of step t, from 0 on.
inline results::SweptRate rate(double learning_rate, const std::function<double(int64_t)>& loss) {
  results::SweptRate made{
      .learning_rate = {.peak = learning_rate, .floor = learning_rate / 10, .warmup_steps = 4, .decay_steps = 40}};
  for (int64_t t = 0; t < sweep_steps; ++t) made.losses.emplace_back(loss(t));
  return made;
}

inline double falling(int64_t t, double to, double steps) {
  return to + (10.8 - to) * std::exp(-static_cast<double>(t) / steps);
}

inline results::SweptRate not_finite(results::SweptRate rate, size_t after, const char* what) {
  rate.losses.resize(after);
  rate.losses.back() = std::nullopt;
  rate.not_finite = what;
  return rate;
}

// Eight rates: one that falls slowly, one that is still falling, two good ones, of which the second is the best, one
// that falls behind, one that oscillates, one that rises, and one that is not finite.
inline results::LearningRateSweep sweep() {
  results::LearningRateSweep made;
  made.device = {results::DeviceKind::cpu, "AMD EPYC, 2 threads"};
  made.training = {.created = "2026-11-26T10:00:00Z", .recipe_from = "--recipe", .parameters = 1000};
  results::TrainingSettings& settings = made.training.settings;
  settings.model = "tiny";
  settings.B = 2;
  settings.T = 16;
  settings.positions = 64;
  settings.steps = sweep_steps;
  settings.clip = 1.0;
  settings.data = {.source = "book.txt", .sha256 = "ab", .tokens = 5000};
  settings.learning_rate = {.peak = 1e-6, .floor = 1e-7, .warmup_steps = 4, .decay_steps = 40};
  made.training.files = {.data = "/text/book.txt", .vocabulary = "/text/gpt2.tiktoken"};
  made.planned = 8;
  made.rates = {rate(1e-6, [](int64_t t) { return 10.8 - 0.001 * static_cast<double>(t); }),
                rate(1e-5, [](int64_t t) { return 10.8 - 0.05 * static_cast<double>(t); }),
                rate(1e-4, [](int64_t t) { return falling(t, 6.05, 6) + batch_noise(t); }),
                rate(1e-3, [](int64_t t) { return falling(t, 6, 6) + batch_noise(t); }),
                rate(1e-2, [](int64_t t) { return falling(t, 7.5, 4) + batch_noise(t); }),
                rate(1e-1, [](int64_t t) { return falling(t, 6.5, 4) + (t % 2 == 0 ? 1.0 : -1.0); }),
                rate(1, [](int64_t t) { return 10.8 + 0.2 * static_cast<double>(t); }),
                not_finite(rate(10, [](int64_t t) { return 10.8 + static_cast<double>(t); }), 3, "the loss of step 3")};
  return made;
}

}  // namespace planted
