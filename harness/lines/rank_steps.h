// The steps of a program of several ranks (processes that train together). A step ends with the line of its last rank.
// Its loss, and what else its line says, is the lowest rank's.
#pragma once

#include "harness/lines/step_reader.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace harness {

constexpr double most_behind = 1e6;

// The rank that the others could wait for.
struct SlowRank {
  int64_t rank = 0;
  double behind = 0;          // share of a step
  bool takes_longer = false;  // its time from step to step is longer; false: as long, but its lines come later
};

class RankSteps {
 public:
  explicit RankSteps(double lowest = 0, int64_t expected = 1) : lowest_(lowest), expected_(expected) {}
  void expect(int64_t ranks) { expected_ = ranks; }

  // Lines of one rank, in its order.
  void add(double rank, const std::vector<StepLine>& steps);
  // The lowest rank's steps that all ranks have made. A rank that says nothing for long is not waited for.
  std::vector<StepLine> take();
  std::vector<StepLine> end();  // and those that still wait

  [[nodiscard]] int64_t seen() const { return std::ssize(ranks_); }
  // Of these steps; none: they are even, as ranks are that wait for each other. least_lag_s: lines may come later by so
  // much without a reason in the program.
  [[nodiscard]] std::optional<SlowRank> slowest(int64_t first_step, int64_t last_step, double least_lag_s) const;

 private:
  struct Said {
    int64_t step = 0;
    double seconds = 0;
    std::optional<double> wait_ms;
  };
  struct Rank {
    std::vector<Said> said;  // steps go up; old ones are forgotten
    int64_t silent = 0;      // steps of the lowest since it said something
  };
  using Times = std::map<double, std::vector<double>>;  // of each rank: of the steps that all have made

  [[nodiscard]] bool waits(int64_t step) const;
  StepLine ended(StepLine step);
  [[nodiscard]] std::pair<std::vector<int64_t>, Times> common(int64_t first_step, int64_t last_step) const;

  double lowest_;
  int64_t expected_;
  std::map<double, Rank> ranks_;
  std::deque<StepLine> held_;
  double ended_s_ = 0;
};

// Reads the lines of all ranks, if they say who printed them; else as a StepReader.
class RankReader {
 public:
  explicit RankReader(const StepFormat& format);
  explicit RankReader(StepPattern pattern) { readers_.emplace(0, Reader{StepReader(std::move(pattern))}); }

  std::vector<StepLine> take(const LogLine& line);
  std::vector<StepLine> end();
  [[nodiscard]] const RankSteps& ranks() const { return steps_; }

 private:
  struct Reader {
    StepReader reader;
    int64_t headings = 0;  // that it has seen
  };
  std::optional<StepFormat> format_;  // with a rank
  Heading heading_;                   // of all ranks
  LogLine heading_line_;
  int64_t headings_ = 0;
  std::map<double, Reader> readers_;
  RankSteps steps_;
};

}  // namespace harness
