// A study on a terminal while it runs. Plain text when piped.
#pragma once

#include "ablations/plan.h"
#include "ablations/style.h"

#include <chrono>
#include <string>
#include <string_view>

namespace ablations {

// On a terminal one line that is rewritten: bar, run, step, time left. Elsewhere a line for each run that has ended.
// Written to standard error.
class Progress {
 public:
  // runs: to be made, of so many planned ones.
  Progress(const Plan& plan, size_t planned, size_t runs);
  void begin(const PlannedRun& run);
  void step(std::string_view line);  // "7 11": 7 of 11 steps are done
  void end(const PlannedRun& run, const harness::Json& record);
  void one_more() { ++runs_; }  // to be made than the constructor was told
  void interrupted();
  void note(const std::string& line) const;  // on a line of its own

 private:
  void draw(int64_t step, int64_t steps) const;

  const Plan& plan_;
  size_t runs_, done_ = 0;
  bool terminal_;
  std::string current_;
  std::chrono::steady_clock::time_point start_;
};

constexpr size_t columns = 80;  // of every table

// The document with every string in it made printable (files/printable.h): what a table is made from. Its keys are the
// schema's.
harness::Json with_printable_texts(const harness::Json& document);

// At most `columns` wide, broken at spaces, and within a word that is longer than a line; continuation lines begin with
// `indent`.
std::string wrapped(const std::string& text, const std::string& indent = "");

// "warning: ..." in as many lines as it takes.
std::string warning_line(const Look& look, const std::string& warning);

// "1,493" "61.2" "0.84": three significant digits or more.
std::string number(double value);

}  // namespace ablations
