// A study that nobody measured, for tests of what is said of one.
#pragma once

#include "results/study.h"

#include <optional>
#include <string>
#include <vector>

namespace made_up {

using namespace study;

inline Ratio ratio(double center, std::optional<double> lo, std::optional<double> hi, int64_t pairs = 5) {
  return {{lo, hi}, center, pairs};
}

inline StudyRung rung(size_t index, const std::string& title, double ms) {
  StudyRung made;
  made.index = index;
  made.title = title;
  made.label = (index == 0 ? "" : "+ ") + title;
  if (index > 0) made.optimization = title;
  made.recipe = {{"device", "cpu"}, {"execution", "eager"}};
  made.ms_per_step = RungTimes{};
  made.ms_per_step->median = ms;
  made.tokens_per_s = Median{};
  return made;
}

inline void lose_number(StudyRung& rung, RungStatus status, const std::string& reason) {
  rung.status = status;
  rung.reason = reason;
  rung.ms_per_step.reset();
  rung.tokens_per_s.reset();
}

// float32, bf16, flash: of a CPU, five repeats of each, 2.5 times as fast at the end.
inline Study study() {
  Study made;
  made.ladder = {.name = "gpt2", .title = "A ladder", .file = {}};
  made.device = {DeviceKind::cpu, "A processor"};
  made.workload.model = "gpt2-124m";
  made.workload.B = 4;
  made.workload.T = 256;
  made.workload.data.source = "shakespeare.txt";
  made.plan = {.repeats = 5, .warmup_steps = 5, .timed_steps = 20, .order_seed = 42, .runs_planned = 15, .runs_ok = 15};
  made.statistics = {.center = "the median", .interval = "a bootstrap", .confidence = 0.95, .attribution = {}};
  made.rungs = {rung(0, "float32", 100), rung(1, "bf16", 50), rung(2, "flash", 40)};
  made.headline = Headline{.first = 0, .last = 2, .speedup = ratio(2.5, 2.4, 2.6), .fastest = {}, .planned = {}};
  made.environment.torch = "2.11.0";
  return made;
}

}  // namespace made_up
