// What the records show of each optimization, to stand beside what others have claimed of it (claims.h).
#pragma once

#include "ablations/techniques/technique.h"
#include "results/study.h"
#include "results/trace.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plots {

// What a record shows of an optimization. A figure is none where the record does not have it.
struct Seen {
  template <class T>
  struct Pair {
    T below = 0, own = 0;
  };
  std::string device, shape;  // printable: "AMD EPYC, 2 threads, AVX2", "bf16, B=1 T=128"
  model::Device kind = model::Device::cpu;
  std::string report = {};                        // where it can be read, relative to docs/
  std::optional<double> ratio, lo, hi;            // the time of the rung below over its own, and the interval
  std::optional<double> below_ms, ms;             // of a step
  std::optional<Pair<double>> activations, peak;  // bytes; the first with autocast's copies of the weights
  std::optional<Pair<double>> batch;              // ms of a step's batch, where the record is about batches
  std::optional<Pair<double>> alone;              // ms of the operation by itself
  std::optional<Pair<int64_t>> kernels;           // that a step launches
  std::optional<double> compile_s;                // the longest compiling of a run
};

// In a ladder, its rung against the rung below, in a sweep at each size. Else what the optimization is worth.
std::vector<Seen> seen_in(const Study& study, const std::string& optimization);

struct RecordedStudy {
  Study study;
  std::filesystem::path folder;  // its records are below it
};

// What results/evidence holds.
struct Evidence {
  std::vector<RecordedStudy> studies;
  std::vector<TraceDocument> traces;  // of GPUs
  std::vector<files::Json> micro;     // documents of Google Benchmark's
};

// The optimization's micro benchmark against the one of what it replaces: an operation or a batch.
std::vector<Seen> seen_alone(const files::Json& micro, const Optimization& optimization);

// A ladder's rung with this optimization against its first.
std::optional<Seen> seen_of_ladder(const Study& study, const std::string& until);

// PyTorch compiled against PyTorch eager, where both ran beside the same rung.
std::vector<Seen> seen_compiled(const RecordedStudy& recorded);

// All of results/evidence, sorted by folder. Throws std::invalid_argument where there is no study.
Evidence recorded_evidence();

}  // namespace plots
