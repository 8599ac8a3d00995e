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

    static void fields(auto&& field) {
      field("source", &Data::source, None::defaulted);
      field("sha256", &Data::sha256, None::defaulted);
      field("tokens", &Data::tokens, None::defaulted);
    }
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

  static void fields(auto&& field) {
    field("model", &Workload::model);
    field("parameters", &Workload::parameters);
    field("batch", &Workload::B);
    field("context", &Workload::T);
    field("accumulation", &Workload::accumulation);
    field("positions", &Workload::positions, None::absent);
    field("ranks", &Workload::ranks, None::absent);
    field("tokens_per_step", &Workload::tokens_per_step);
    field("flops_per_step", &Workload::flops_per_step);
    field("seed", &Workload::seed);
    field("data", &Workload::data);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const Workload&);
extern template Workload value_from(const files::Json&, const std::string&);

}  // namespace ablations
