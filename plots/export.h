// A report's numbers for other programs. Two tables are CSV (RFC 4180, UTF-8). The runs are in Google Benchmark's JSON
// form, for its compare.py and for CI plug-ins. No cell of CSV is a formula to a spreadsheet: "label" lacks the
// ladder's "+ ". A text that begins with =, +, - or @, as a hostile title may, gets a space before it.
#pragma once

#include "files/json_file.h"
#include "results/report.h"

#include <string>
#include <vector>

namespace plots {

// One line for each rung of each study; empty where there is no number. Times in ms, rates in tokens/s, sizes in bytes.
std::string rungs_csv(const Report& report);

// One line for each step of each run, warm-up too.
std::string steps_csv(const Report& report);

// A benchmark for each rung, an iteration for each of its runs. The time is the run's median step. So is cpu_time,
// because processor time is not measured. A rung whose number does not count is left out and named in the context: to
// compare.py it would be a time of 0. With two studies the names begin with the study's.
files::Json benchmark_json(const Report& report);

// The files for other programs that stand beside each report.json.
struct Export {
  const char *file, *what;  // in the help: "for Google Benchmark's compare.py"
  std::string (*text)(const Report& report);
};
extern const std::vector<Export> exports;

}  // namespace plots
