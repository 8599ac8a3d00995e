// What is drawn of a training: results/schemas/training_report.v1.json. A log may have a million steps; here are so few
// points that a page can show them.
#pragma once

#include "results/training.h"
#include "results/words.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

struct Spread {
  double lo = 0, mean = 0, hi = 0;

  static void fields(auto&& field) {
    field("lo", &Spread::lo);
    field("mean", &Spread::mean);
    field("hi", &Spread::hi);
  }
};

// Steps that are one point of each chart.
struct TrainingStretch {
  int64_t first = 1, last = 1;
  std::optional<Spread> loss, norm;       // of the steps where it is finite; none: there is no such step
  double learning_rate = 0;               // of the last step
  double tokens_per_s = 0;                // all their tokens over all their time
  std::optional<double> validation_loss;  // the last one
  int64_t spikes = 0;                     // training/spikes.h

  static void fields(auto&& field) {
    field("first", &TrainingStretch::first);
    field("last", &TrainingStretch::last);
    field("loss", &TrainingStretch::loss);
    field("norm", &TrainingStretch::norm);
    field("learning_rate", &TrainingStretch::learning_rate);
    field("tokens_per_s", &TrainingStretch::tokens_per_s);
    field("validation_loss", &TrainingStretch::validation_loss);
    field("spikes", &TrainingStretch::spikes);
  }
};

// What the model wrote after a step.
struct SampleAfter {
  int64_t step = 1;
  std::string text;

  static void fields(auto&& field) {
    field("step", &SampleAfter::step);
    field("text", &SampleAfter::text);
  }
};

struct TrainingReport {
  static constexpr auto kind = "training_report";

  std::string source;  // the folder's name
  NamedDevice device;
  Training training;
  int64_t steps = 1;  // that were taken
  std::vector<TrainingStretch> stretches;
  std::vector<SampleAfter> samples;  // few of them
  Said said;                         // empty in older documents

  static void fields(auto&& field) {
    field("source", &TrainingReport::source);
    field("device", &TrainingReport::device);
    field("training", &TrainingReport::training);
    field("steps", &TrainingReport::steps);
    field("stretches", &TrainingReport::stretches);
    field("samples", &TrainingReport::samples);
    field("said", &TrainingReport::said, None::defaulted);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const TrainingReport&);
extern template TrainingReport value_from(const files::Json&, const std::string&);

}  // namespace ablations
