// A report's numbers for other programs: two tables as CSV (RFC 4180, UTF-8), and the runs in Google Benchmark's JSON
// form, for its compare.py and for CI plug-ins. No cell of CSV is a formula to a spreadsheet: "label" has no "+ " of
// the ladder, and a text that begins with =, +, - or @, as a hostile title may, gets a space before it.
#pragma once

#include "files/json_file.h"
#include "results/report.h"

#include <string>

namespace ablations {

// One line for each rung of each study; empty where there is no number. Times in ms, rates in tokens/s, sizes in bytes.
std::string rungs_csv(const Report& report);

// One line for each step of each run, warm-up too.
std::string steps_csv(const Report& report);

// A benchmark for each rung, an iteration for each of its runs: the time is the run's median step, cpu_time the same,
// because processor time is not measured. A rung whose number does not count is left out and named in the context: that
// it failed is no time of 0, as compare.py would have it. With two studies the names begin with the study's.
files::Json benchmark_json(const Report& report);

}  // namespace ablations
