// Finds the steps in what any training program prints. No format is named: a line is read as numbers with the words
// before them, and the words say which number is the step, the loss, the tokens per second, the time.
// A line ends at \n or \r. Of a longer one the first 4 KiB count. Colours and control characters are removed.
// Lines of a validation are refused. A step number that is printed again is one step. A number that goes back counts
// only if an epoch has begun since: then numbering goes on from the epoch before. Otherwise it is ignored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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
  double seconds = 0;          // the caller's clock at the read that brought the line's last byte before its end
  int64_t step = 0;            // as the program counts; where its lines have no number: their count from 0
  bool numbered = true;        // the line itself has the step number
  std::optional<double> loss;  // NaN or infinity where the program printed that
  std::optional<double> tokens_per_s;  // "tok/s", "tokens/sec", ..., also where they are of one device
  std::optional<double> own_ms;        // what the program says that a step took
  // This line begins a better kind of lines (a loss where there was none, ...): forget the steps before it. So does
  // the first line.
  bool restarts = false;
};

class StepReader {
 public:
  // `steps_from`: a regular expression (PCRE2) with groups (?P<step>...), (?P<loss>...) or both, and perhaps
  // (?P<tokens_per_s>...), in place of what is recognized. Throws std::invalid_argument for a bad one.
  explicit StepReader(const std::string& steps_from = "");

  // Bytes of one stream (0: stdout, 1: stderr) as one read brought them, at `seconds` of a monotonic clock. Returns the
  // step lines that are complete. A step with the loss of the step before waits for the next line: a bar is often
  // redrawn with a new number before it has the new loss, and the first line with the new loss counts.
  std::vector<StepLine> take(int stream, std::string_view bytes, double seconds);
  // What still waits, when the program has ended.
  std::vector<StepLine> end();

  // Of the step lines: "iter N: loss N, time Nms", or "each line a step: loss N". Empty: none was seen.
  [[nodiscard]] const std::string& shape() const { return shape_; }
  // The most frequent shapes of all lines with their counts, most frequent first. Of over 1000 shapes rare ones are
  // forgotten.
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> frequent_shapes(size_t most = 10) const;
  // How many lines were taken for a validation's.
  [[nodiscard]] int64_t refused() const { return refused_; }
  // A loss has one comma before three digits: 3,100 may be 3100 or 3.1.
  [[nodiscard]] bool has_commas() const { return has_commas_; }
  // Most step lines came several in one read: the program buffers its output.
  [[nodiscard]] bool bursts() const { return 2 * grouped_ > returned_; }

 private:
  struct Stream {
    std::string line;
    double seconds = 0;
    uint64_t read = 0;
  };
  struct Found;  // what a line says

  static Found recognized(std::string_view line);
  [[nodiscard]] Found matched(std::string_view line) const;
  void end_line(Stream& stream, std::vector<StepLine>& out);
  [[nodiscard]] bool is_of_kind(const Found& found, std::string_view line);
  void add(const Found& found, StepLine line, uint64_t read, std::vector<StepLine>& out);
  void give(StepLine line, uint64_t read, std::vector<StepLine>& out);
  void give_held(std::vector<StepLine>& out);
  void count_shape(std::string_view line);

  std::shared_ptr<const pcre2_real_code_8> pattern_;
  std::array<Stream, 2> streams_;
  uint64_t reads_ = 0;
  std::unordered_map<std::string, int64_t> shapes_;

  // One program prints one kind of step lines; a bar beside a log is another one.
  struct Kind {
    std::string name;  // the words before its step and its loss
    int quality = 0;   // 1: numbered, 2: with a loss, 3: both
    int64_t lines = 0;
  } kind_, other_;
  std::string shape_;
  std::optional<int64_t> epoch_, epoch_of_last_;
  int64_t last_ = -1, total_ = 0, base_ = 0;  // of the number in the last step line; what earlier epochs add to it
  std::optional<double> last_loss_;
  std::optional<StepLine> held_;
  uint64_t held_read_ = 0, last_read_ = 0;
  int64_t returned_ = 0, grouped_ = 0, refused_ = 0;
  bool last_is_grouped_ = false, has_commas_ = false;
};

}  // namespace harness
