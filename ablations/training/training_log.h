// A training's log. In log.jsonl each step is a JSON object (results/training.h). In metrics.csv its figures are a
// table (RFC 4180; an empty cell: no value). Both grow while the training runs.
#pragma once

#include "files/files.h"
#include "results/training.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

// Its files.
inline constexpr const char *log_file = "log.jsonl", *table_file = "metrics.csv";

class TrainingLog {
 public:
  // In a training's folder. `before`: the steps that were taken already; both files begin with these and no others.
  // Throws std::system_error, as add() and sync() do, where a file cannot be written.
  TrainingLog(const std::filesystem::path& folder, const std::vector<TrainingStep>& before);

  void add(const TrainingStep& step);
  // Returns when all of it is on the disk.
  void sync();

 private:
  files::GrowingFile lines_, table_;
};

// The steps of the log in a training's folder, up to step `last`; none where there is no log. A last line without its
// end is left out: its writer was killed. Throws std::invalid_argument that names file and line.
std::vector<TrainingStep> logged_steps(const std::filesystem::path& folder, int64_t last = INT64_MAX);

// A step as a terminal shows it: "step    12/500  loss 9.8231  lr 6.00e-04  norm 2.31  ...".
std::string step_line(const TrainingStep& step, int64_t steps, double seconds_left);

}  // namespace ablations
