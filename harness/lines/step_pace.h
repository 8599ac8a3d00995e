// How the times of a program's lines become the time of its steps.
//
// A line comes when its step ends, if nothing is between the program and the reader. Else lines come in bursts (a
// collector of logs, a loop that prints its losses every 50 steps), or when a clock draws them (a bar that a thread
// draws every 100 ms). Then only the time between bursts, or over many draws, is the steps'.
#pragma once

#include "harness/lines/step_reader.h"

#include <cstdint>
#include <string>
#include <vector>

namespace harness {

struct Pace {
  double burst_s = 0;  // lines that are no further apart are of one burst; 0: those of one read are
  double block_s = 0;  // bursts are joined until they are at least so far apart: a clock's line is up to a step late

  // What a program does between its steps cannot be told from them then.
  [[nodiscard]] bool has_all() const { return burst_s > 0 || block_s > 0; }
};

struct PaceFound {
  Pace pace;
  std::string doubt;        // why the time of a step cannot be told from these lines; empty: it can
  bool needs_more = false;  // more lines may tell
};

// From the lines of a trial, at least three.
PaceFound pace_of(const std::vector<StepLine>& steps);

// A run is timed over so many times of lines at least.
constexpr int64_t least_intervals = 8;

// The lines of a run, from its first until its steps of warm-up and its timed steps are made. Lines of one burst, or
// block, get the time of the last of them; the window begins and ends with one.
class StepWindow {
 public:
  // counts_lines: the steps are lines, because their numbers count something else.
  StepWindow(int64_t warmup, int64_t timed, Pace pace, bool counts_lines)
      : warmup_(warmup), timed_(timed), pace_(pace), counts_lines_(counts_lines) {}

  // Whether lines came to be complete.
  bool take(const StepLine& line);
  bool end();  // those that came are complete

  [[nodiscard]] bool has_begun() const { return first_timed_ > 0 || (has_lines_ && warmup_ == 0); }
  [[nodiscard]] bool is_full() const { return is_full_; }
  [[nodiscard]] const std::vector<StepLine>& lines() const { return lines_; }
  [[nodiscard]] size_t first_timed() const { return first_timed_; }  // the line that the timed window begins with
  [[nodiscard]] int64_t made() const;                                // steps
  [[nodiscard]] std::vector<double> step_ms() const;                 // of step_ms_of()
  [[nodiscard]] std::vector<double> timed_ms() const;

 private:
  [[nodiscard]] int64_t steps_from(size_t line) const;
  int64_t warmup_, timed_;
  Pace pace_;
  bool counts_lines_, has_lines_ = false, is_full_ = false;
  std::vector<StepLine> lines_, open_;
  size_t first_timed_ = 0;
  int64_t times_ = 0;  // of lines in the timed window
};

// Milliseconds of a step, for each line but the first, from lines' steps, which go up, and the times at which they were
// read, in seconds. Lines of one time share the time since the one before.
std::vector<double> step_ms_of(const std::vector<int64_t>& steps, const std::vector<double>& seconds);

// In a record: of lines of the first time, before which there is no other. They are of the warm-up.
constexpr double least_step_ms = 1e-6;

}  // namespace harness
