// Shows the progress of a study while it runs. Plain text when piped.
#pragma once

#include "ablations/documents/record.h"
#include "ablations/plan/plan.h"

#include <chrono>
#include <string>
#include <string_view>

namespace ablations {

// On a terminal one line that is rewritten: bar, run, step, time left. Elsewhere a line for each run that has ended.
// Written to standard error.
class Progress {
 public:
  // runs: to be made, of so many planned ones. expected_s: how long they will take, as was estimated; 0: not known. It
  // counts until a run has ended.
  Progress(const Plan& plan, size_t planned, size_t runs, double expected_s);
  void begin(const PlannedRun& run);
  void step(std::string_view line);  // "7 11": 7 of 11 steps are done
  void end(const PlannedRun& run, const Record& record);
  void one_more() { ++runs_; }  // to be made than the constructor was told
  void interrupted();
  void note(const std::string& line) const;  // on a line of its own

 private:
  void draw(int64_t step, int64_t steps) const;

  const Plan& plan_;
  size_t runs_, done_ = 0;
  double expected_s_;
  bool terminal_;
  std::string current_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ablations
