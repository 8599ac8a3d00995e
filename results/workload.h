// What a run works on: "workload" of records, studies, traces and counters.
#pragma once

#include "results/common.h"

#include <cstdint>
#include <optional>
#include <string>

namespace ablations {

struct Workload {
  struct Data {
    std::string source;  // the file's name, not its place
    std::string sha256;  // of the tokens; empty before the first run
    int64_t tokens = 0;

    LADDER_FIELDS(Data, (source, defaulted), (sha256, defaulted), (tokens, defaulted))
  };

  std::string model;
  int64_t parameters = 0;
  int64_t B = 1, T = 1, accumulation = 1;  // B: of each rank
  std::optional<int64_t> ranks;            // that share a step; none: one process
  std::optional<int64_t> positions;        // of the model; an older record does not say
  int64_t tokens_per_step = 0;             // of all ranks, as flops_per_step
  double flops_per_step = 0;
  uint64_t seed = 1;
  Data data;
  files::Json others = files::Json::object();

  LADDER_FIELDS(Workload, model, parameters, (B, {.name = "batch"}), (T, {.name = "context"}), accumulation,
                (positions, absent), (ranks, absent), tokens_per_step, flops_per_step, seed, data)
};

LADDER_COMPILED_ONCE(Workload)

}  // namespace ablations
