// What is drawn of a training: results/schemas/training_report.v1.json. A log may have a million steps; here are so few
// points that a page can show them.
#pragma once

#include "results/training.h"
#include "results/words.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace results {

struct Spread {
  double lo = 0, mean = 0, hi = 0;

  LADDER_FIELDS(Spread, lo, mean, hi)
};

// Steps that are one point of each chart.
struct TrainingStretch {
  int64_t first = 1, last = 1;
  std::optional<Spread> loss, norm;       // of the steps where it is finite; none: there is no such step
  double learning_rate = 0;               // of the last step
  double tokens_per_s = 0;                // all their tokens over all their time
  std::optional<double> validation_loss;  // the last one
  int64_t spikes = 0;                     // training/spikes.h

  LADDER_FIELDS(TrainingStretch, (first, from_1), (last, from_1), loss, norm, (learning_rate, from_0),
                (tokens_per_s, from_0), validation_loss, (spikes, from_0))
};

// What the model wrote after a step.
struct SampleAfter {
  int64_t step = 1;
  std::string text;

  LADDER_FIELDS(SampleAfter, (step, from_1), text)
};

struct TrainingReport {
  static constexpr auto kind = "training_report";
  static constexpr auto about = "What is drawn of a training: few points of its log, and its sentences";

  std::string source;  // the folder's name
  NamedDevice device;
  Training training;
  int64_t steps = 1;  // that were taken
  std::vector<TrainingStretch> stretches;
  std::vector<SampleAfter> samples;  // few of them
  Said said;

  LADDER_FIELDS(TrainingReport, source, device, training, (steps, {.least = 1, .most = 1000000}),
                (stretches, {.items = 1, .most_items = 1000}), (samples, {.most_items = 5}), said)
};

LADDER_COMPILED_ONCE(TrainingReport)

}  // namespace results
