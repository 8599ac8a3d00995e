// Which commit changed a program's time: results/schemas/bisection.v1.json.
#pragma once

#include "harness/stats/bisection.h"
#include "results/common.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace results {

template <>
struct Names<harness::Bisected> {
  static constexpr std::array list{"SAME", "ONE", "TWO", "STEPS", "OPEN"};
};

// BAD / GOOD, or a commit's time over its predecessor's.
struct TimeRatio : Bounds {
  double ratio = 1;

  LADDER_MORE_FIELDS(Bounds, TimeRatio, ratio)
};

// A change. Several commits: those but the last cannot be measured, so any of them may have made it.
struct BisectedChange : TimeRatio {
  std::vector<std::string> commits;

  LADDER_MORE_FIELDS(TimeRatio, BisectedChange, (commits, some))
};

struct BisectedCommit {
  std::string commit;      // or a version
  double probability = 0;  // that it alone changed the time
  int64_t runs = 0;
  std::string skipped;  // why it cannot be measured; empty: it can, or nobody tried

  LADDER_FIELDS(BisectedCommit, commit, (probability, {.least = 0, .most = 1}), (runs, from_0), (skipped, absent))
};

struct Bisection {
  static constexpr auto kind = "bisection";
  static constexpr auto about = "Which commit changed a program's time";

  std::string created;
  harness::Bisected verdict = harness::Bisected::open;
  std::string said;                     // the verdict in one sentence
  int64_t exit_status = 3;              // 0: one commit, or two; 3: no answer
  int64_t runs = 0;                     // that counted
  std::optional<TimeRatio> whole;       // BAD / GOOD
  std::vector<BisectedChange> changes;  // of ONE and TWO, in order
  double none = 0, two = 0, steps = 0;  // probabilities: no change, two, little ones at every commit
  std::vector<BisectedCommit> commits;  // from GOOD to BAD

  LADDER_FIELDS(Bisection, created, verdict, said, exit_status, (runs, from_0), whole, changes,
                (none, {.least = 0, .most = 1}), (two, {.least = 0, .most = 1}), (steps, {.least = 0, .most = 1}),
                (commits, {.items = 2}))
};

}  // namespace results
