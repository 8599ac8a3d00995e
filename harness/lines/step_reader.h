// Finds the steps in what any training program prints. No format is named: a trial's lines decide which number is what
// (step_format.h), and every run of the program is read by that.
// A line ends at \n or \r. Of a longer one the first 4 KiB count. Colours and control characters are removed.
// LineSplitter of a validation are refused. A step number that is printed again is one step. A number that goes back
// counts only if an epoch has begun since, or a bar was full, or it begins again where it began: then numbering goes on
// from there. Otherwise it is ignored.
#pragma once

#include "harness/lines/step_format.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

struct pcre2_real_code_8;  // pcre2_code of <pcre2.h>

namespace harness {

struct StepLine {
  double seconds = 0;    // as LogLine's; of several ranks the last one's
  double lowest_s = 0;   // of the lowest rank's line, which has the loss
  int64_t step = 0;      // as the program counts; where its lines have no number: their count from 0
  bool numbered = true;  // the line itself has the step number
  // Of a client: between which times of the reader's clock it was written, and the time that the newest line said then.
  double read_from_s = 0, read_s = 0, newest_s = 0;
  std::optional<double> loss;          // NaN or infinity where the program printed that
  std::optional<double> tokens_per_s;  // "tok/s", "tokens/sec", ..., also where they are of one device
  std::optional<double> own_ms;        // what the program says that a step took
  std::optional<double> wait_ms;       // of a client: for which it waited for input; of several ranks the longest
  uint64_t read = 0;                   // which read brought it
  bool comma = false;                  // its loss has one comma before three digits: 3,100 may be 3100 or 3.1
  bool after_others = false;           // other lines came between it and the step line before
};

// Bytes of a program's two streams become lines.
class LineSplitter {
 public:
  // Bytes of one stream (0: stdout, 1: stderr) as one read brought them, at `seconds` of a monotonic clock.
  std::vector<LogLine> take(int stream, std::string_view bytes, double seconds);
  std::vector<LogLine> end();  // what still waits for its end

 private:
  void end_line(LogLine& line, std::vector<LogLine>& out);
  std::array<LogLine, 2> streams_;
  uint64_t reads_ = 0;
};

// A regular expression of the user's (PCRE2), whose named groups are numbers.
class LinePattern {
 public:
  // Throws std::invalid_argument for a bad one.
  explicit LinePattern(const std::string& pattern);
  [[nodiscard]] bool names(const char* group) const;
  // One for each group; none: the line does not match, the pattern has no such group, or the group is no number.
  [[nodiscard]] std::vector<std::optional<Figure>> find(std::string_view line,
                                                        const std::vector<const char*>& groups) const;
  [[nodiscard]] const std::string& shown() const { return shown_; }  // for a message

 private:
  std::string shown_;
  std::shared_ptr<const pcre2_real_code_8> code_;
};

// One with groups (?P<step>...), (?P<loss>...) or both, and perhaps (?P<tokens_per_s>...).
class StepPattern {
 public:
  // Throws std::invalid_argument for a bad one.
  explicit StepPattern(const std::string& pattern);
  struct Found {
    std::optional<Figure> step, loss;
    std::optional<double> tokens_per_s;
  };
  [[nodiscard]] Found find(std::string_view line) const;  // nothing, if a group that it names is no number

 private:
  LinePattern pattern_;
  bool names_step_, names_loss_;
};

class StepReader {
 public:
  explicit StepReader(StepFormat format) : format_(std::move(format)) {}
  explicit StepReader(StepPattern pattern) : pattern_(std::move(pattern)) {}

  // Returns the step lines that are complete. A step with the loss of the step before waits for the next line: a bar is
  // often redrawn with a new number before it has the new loss, and the first line with the new loss counts. So does a
  // step whose loss is apart, or that other processes will print, too: the last of them ends it.
  std::vector<StepLine> take(const LogLine& line);
  std::vector<StepLine> end();  // what still waits

 private:
  struct Found;  // what a line says
  [[nodiscard]] Found found(const std::string& text);
  [[nodiscard]] Found matched(const std::string& text) const;
  void take_losses(const Found& found);
  [[nodiscard]] bool goes_on(const Found& found);
  void give_held(size_t keep, std::vector<StepLine>& out);

  StepFormat format_;
  std::optional<StepPattern> pattern_;
  Heading heading_;
  std::optional<int64_t> epoch_, epoch_of_last_;
  // The program's number in the first line of an epoch and in the last line, that one's total and what it grew by; what
  // earlier epochs add to it.
  int64_t first_ = -1, last_ = -1, total_ = 0, growth_ = 1, base_ = 0;
  int64_t lines_of_epoch_ = 0, lines_ = 0;
  bool others_ = false;  // came since the last step line
  std::optional<double> last_loss_;
  std::deque<StepLine> held_;
};

// The lines of a trial, and what they say so far.
class TrialLines {
 public:
  // An empty pattern: what the lines say decides. Throws as StepPattern.
  explicit TrialLines(const std::string& pattern = "");
  void take(int stream, std::string_view bytes, double seconds);
  void end();  // the program has ended

  struct Learned {
    std::optional<StepFormat> format;  // none: a pattern was given
    std::vector<StepLine> steps;
  };
  // What it learned from the lines; none if no step was seen.
  [[nodiscard]] std::optional<Learned> learned() const;
  [[nodiscard]] size_t lines() const { return lines_.size() + dropped_; }
  // The most frequent shapes of all lines with their counts and a line of each, most frequent first. Of over 1000
  // shapes rare ones are forgotten.
  struct Shape {
    std::string shape, line;
    int64_t count = 0;
  };
  [[nodiscard]] std::vector<Shape> frequent_shapes(size_t most = 10) const;
  // How many lines were taken for a validation's.
  [[nodiscard]] int64_t refused() const;

 private:
  void keep(std::vector<LogLine> lines);
  void count_shape(const std::string& line);

  std::optional<StepPattern> pattern_;
  LineSplitter streams_;
  std::vector<LogLine> lines_;
  size_t bytes_ = 0, dropped_ = 0;
  bool has_ended_ = false;
  std::unordered_map<std::string, std::pair<std::string, int64_t>> shapes_;
};

}  // namespace harness
