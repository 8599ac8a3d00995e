// Shows the progress of a study while it runs. Plain text when piped.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/record.h"

#include <chrono>
#include <map>
#include <string>
#include <string_view>

namespace ablations {

// Writes to standard error. On a terminal it rewrites one line: bar, run, step, time left. Elsewhere it writes a line
// for each run that has ended.
class Progress {
 public:
  // `runs` of the `planned` runs are to be made. expected_s: their estimated time until a run has ended; 0: not known.
  Progress(const Plan& plan, size_t planned, size_t runs, double expected_s);
  void begin(const PlannedRun& run, bool again);  // again: it is none of those runs
  void step(std::string_view line);               // "7 11": 7 of 11 steps are done
  void end(const Record& record);
  void interrupted();
  void note(const std::string& line) const;  // on a line of its own

  [[nodiscard]] std::string name_of(const PlannedRun& run) const;  // "bf16 autocast, repeat 1"

 private:
  void draw(int64_t step, int64_t steps) const;
  void tell_so_far();

  const Plan& plan_;
  const size_t runs_;
  size_t begun_ = 0;
  double expected_s_;
  bool terminal_, again_ = false;
  std::string current_;                                // "3/8 bf16 autocast, repeat 1"
  PlannedRun run_;                                     // the current one
  std::map<int64_t, std::map<size_t, double>> costs_;  // of commands, less is better, by repeat and rung
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ablations
