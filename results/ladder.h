// A ladder's file (results/schemas/ladder.v1.json): an ordered list of optimizations and the workload they are measured
// on. ablations/gpt2/ladder_file.h reads it.
#pragma once

#include "results/common.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace results {

struct LadderWorkload : Shape {
  std::string model;

  LADDER_FIELDS(LadderWorkload, model, (B, {.name = "batch", .least = 1, .most = 65536}),
                (T, {.name = "context", .least = 1, .most = 1048576}),
                (accumulation, {.none = None::absent, .least = 1, .most = 65536}))
};

// How its rungs are measured where nobody says otherwise.
struct LadderPlan {
  int64_t repeats = 1, warmup_steps = 0, timed_steps = 1;

  LADDER_FIELDS(LadderPlan, (repeats, {.least = 1, .most = 1000}), (warmup_steps, {.least = 0, .most = 100000}),
                (timed_steps, {.least = 1, .most = 100000}))
};

struct Ladder {
  static constexpr auto kind = "ladder";
  static constexpr auto about = "An ordered list of optimizations and the workload they are measured on";

  std::string name, title;
  std::optional<std::string> comment;
  files::Json start;  // the recipe that it starts from: fields that are not plain
  std::string start_title = "baseline";
  std::vector<std::string> rungs;  // names of optimizations
  std::string reference;           // the one from which speedups count; empty: the start
  std::string shown;  // the last one whose time, and whose loss after a training, records show; empty: all of them
  LadderWorkload workload;
  LadderPlan plan;

  std::optional<std::string> file = {};  // not in it: its name, of one that does not come with the program

  LADDER_FIELDS(Ladder, (name, {.most = 64, .pattern = name_pattern}), (title, {.least = 1, .most = 120}),
                (comment, absent), start, (start_title, {.none = None::absent, .most = 60}),
                (rungs, {.least = 1, .most = 60, .most_items = 200}), (reference, absent), (shown, absent), workload,
                plan)
};

LADDER_COMPILED_ONCE(Ladder)

}  // namespace results
