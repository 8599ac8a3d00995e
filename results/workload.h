// What a run works on: "workload" of records, studies, traces and counters.
#pragma once

#include "results/common.h"

#include <cstdint>
#include <optional>
#include <string>

namespace results {

struct Workload {
  struct Data {
    std::string source;  // the file's name, not its place
    std::string sha256;  // of the tokens; empty before the first run
    int64_t tokens = 0;

    LADDER_FIELDS(Data, source, sha256, (tokens, from_0))
  };

  std::string model;
  int64_t parameters = 0;
  int64_t B = 1, T = 1, accumulation = 1;  // B: of each rank
  std::optional<int64_t> ranks;            // that share a step; none: one process
  int64_t positions = 1;                   // of the model
  int64_t tokens_per_step = 0;             // of all ranks, as flops_per_step
  double flops_per_step = 0;
  uint64_t seed = 1;
  Data data;

  LADDER_FIELDS(Workload, model, (parameters, from_0), (B, {.name = "batch", .least = 1}),
                (T, {.name = "context", .least = 1}), (accumulation, from_1), (positions, from_1),
                (ranks, {.none = None::absent, .least = 1, .most = 65536}), (tokens_per_step, from_1),
                (flops_per_step, {.least = 0, .most = 1e30}), seed, data)
};

LADDER_COMPILED_ONCE(Workload)

}  // namespace results
