// Which of the numbers that a program prints is its step, and which its loss: decided once, from the lines of a trial.
//
// Of the numbers with the same words before them, one that grows by a constant from line to line counts steps. Its
// words may say so, too ("step", "iter", the k of a bar's "k/n"). Of several such the one that comes on more lines
// counts, if its loss is there or is printed apart. A clock, a size and a validation's numbers do not count.
#pragma once

#include "harness/lines/line.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace harness {

struct StepFormat {
  std::optional<Column> step;  // none: each line with the loss is a step
  std::optional<Column> loss;
  bool loss_is_apart = false;  // on other lines, after the step's
  bool is_of_epoch = false;    // the step begins again in each epoch
  std::string unit = "step";   // what the number counts: "step", "sample", "line", "%", "0.1 %", "0.01 %"
  std::optional<Column> rank;  // of the process that printed the line (rank_steps.h)
  double of_rank = 0;          // the lowest, whose losses count
  int64_t per_line = 1;        // steps from one line with a loss to the next, as a bar on the other stream counted
  int64_t copies = 1;          // so many processes print each step; if they do not say who, the lowest loss counts
  std::string shape;           // of a line: "iter STEP: loss LOSS, time Nms"
};

// Its lines name the step, have its loss, and are those of all ranks: more lines would not change that.
bool is_named(const StepFormat& format);

// A line of output, as it was read.
struct LogLine {
  std::string text;    // cleaned
  double seconds = 0;  // the caller's clock at the read that brought the line's last byte before its end
  uint64_t read = 0;   // which read that was
  int stream = 0;      // 0: stdout, 1: stderr
};

// The format of these lines; none if no number counts and fewer than two lines have a loss.
std::optional<StepFormat> format_of(const std::vector<LogLine>& lines);

}  // namespace harness
