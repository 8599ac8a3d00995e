// A study of logs: each side is a rung, each of its logs a run that nobody watched. Their runs are no pairs.
#pragma once

#include "harness/lines/finished_log.h"
#include "results/plan.h"
#include "results/record.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ablations {

// The logs of one side.
struct LogSide {
  std::string typed, title;  // as on the command line: "new: this_pr/*.txt"
  std::vector<std::filesystem::path> files;
};

// The sides of these words, "title: pattern" or "pattern". A pattern is a shell's, a file, or a folder, which stands
// for the files in it. Throws std::invalid_argument where no file is.
std::vector<LogSide> sides_of(const std::vector<std::string>& typed);

// The text of a log in lines as programs print them: rows of JSON lines, of CSV (Lightning's, Keras') and of
// transformers' trainer_state.json become "step=10 loss=3.1". `read_events` gives the JSON lines of an event file of
// TensorBoard's. Throws std::invalid_argument for a file that cannot be read.
std::string log_text(const std::filesystem::path& file,
                     const std::function<std::string(const std::filesystem::path&)>& read_events);

// One run for each log, 1,000 at most. Throws std::invalid_argument for more.
void add_runs(Plan& plan, const std::vector<LogSide>& sides);

// The record of a log. It is a failed one where the log does not tell what the plan compares. `file`: its name.
Record record_of_log(const Plan& plan, const PlannedRun& run, const std::string& file, const harness::FinishedLog& log);

}  // namespace ablations
