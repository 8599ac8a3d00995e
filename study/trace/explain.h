// Explains what changed between two traced recipes, as numbers and as a sentence. These are kernels (on a CPU:
// operations) that went, came, shrank and grew, launches, busy and idle time, memory.
#pragma once

#include "files/json_file.h"
#include "results/enums.h"
#include "results/trace.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace study {

enum class Change { went, came, shrank, grew, unclear };
enum class Unit { ms, percent, bytes, count };

}  // namespace study

template <>
struct results::Names<study::Change> {
  static constexpr std::array list{"went", "came", "shrank", "grew", "unclear"};
};
template <>
struct results::Names<study::Unit> {
  static constexpr std::array list{"ms", "%", "bytes", ""};
};

namespace study {

struct Explanation {
  struct Total {
    std::string what;
    double before = 0, after = 0;
    Unit unit = Unit::count;
  };
  struct Phase {
    std::string phase;
    double before_ms = 0, after_ms = 0;
    bool clear = false;  // no step of the one took as long as a step of the other
  };
  // All instances of a template that a reader calls by one name (kernel_name.h).
  struct Name {
    std::string name;
    Change change = Change::unclear;
    double before_ms = 0, after_ms = 0;
    int64_t before_count = 0, after_count = 0;
  };

  std::string before, after;  // titles
  std::vector<Total> totals;
  std::vector<Phase> phases;
  std::vector<Name> names;  // what changed most first
  std::string words;        // by kinds of operations: "Matrix products −212 ms; ..."
  std::string changed;      // the names behind it; may be empty
};

// Throws std::invalid_argument if the two cannot be compared: other devices, models or sizes. A time is reported as
// changed only if the two sets of step times do not overlap. `step_changed` false: a study of the two found no clear
// change. Then the words report no changed time, because a trace is only one process.
Explanation explain(const TraceDocument& before, const TraceDocument& after, bool step_changed = true);

files::Json to_json(const Explanation& explanation);

// The same for a terminal.
std::string explanation_table(const Explanation& explanation);

// One trace for a terminal: totals, phases, parts, the names that took longest.
std::string trace_table(const TraceDocument& trace);

}  // namespace study
