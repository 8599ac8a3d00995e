// A matrix product of cuBLASLt's in any of the ways that it offers: types, scales, accumulation, epilogues. Its
// proposals are timed, and one of them is run back to back until the GPU's clock has settled at the power limit.
#pragma once

#include "ablations/techniques/products/matmul.h"
#include "harness/machine/nvml.h"

#include <ATen/ATen.h>
#include <cublasLt.h>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ablations::micro {

// Row by row. left (n, k), or transposed (k, n); right (m, k), or transposed (k, m); d (n, m).
struct Matrices {
  at::Tensor left, right, d;
  at::Tensor left_scale, right_scale;  // float32, for fp8: what its numbers are multiplied by; one, or one for each row
};

// d <- left right^T, or d + that.
struct Multiplication {
  std::vector<Matrices> sets;  // used in turn, so that L2 does not hold what a call reads
  bool left_transposed = false, right_transposed = false;
  bool adds = false, fast_accumulation = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  at::Tensor bias, auxiliary;  // undefined where the epilogue has none
};

struct Proposal {
  cublasLtMatmulAlgo_t algorithm;
  int place;  // among the proposals
  double microseconds;
};

struct Proposals {
  std::string fault;         // of the question, where it failed: "cublasLtMatmulAlgoGetHeuristic: ..."
  int given = 0, tried = 0;  // proposals that cuBLASLt gave, and those that were timed
  // The first, the fastest three, and the fastest three of the first eight, without those that do not run.
  std::vector<Proposal> best;

  [[nodiscard]] std::optional<Proposal> fastest_of(int first) const;
};

struct Sustained {
  double microseconds = 0;  // of one call
  int64_t calls = 0;
  std::optional<double> sm_clock_mhz, watts;  // a median; a mean
  std::string watts_from;                     // "energy counter", or "power samples" if it did not move twice
  std::vector<std::pair<std::string, double>> throttled;  // harness::throttle_shares
  std::map<std::string, double> kernels;                  // of one call: how many, by name; also "memset" and "copy"
};

// On the current stream, which must not be the default one. Faults of CUDA throw.
class TimedMatmul {
 public:
  explicit TimedMatmul(Multiplication product);

  // Times at most `most` proposals that need no more workspace than that, and begins none after `seconds`.
  [[nodiscard]] Proposals proposals(int most, int64_t workspace_bytes, double seconds);
  // Into the first set's d.
  void run_once(const Proposal& proposal);
  // A graph of many calls, launched again and again. The first quarter of the time does not count.
  [[nodiscard]] Sustained run(const Proposal& proposal, double seconds, const harness::NvmlDevice& device);

 private:
  [[nodiscard]] cublasStatus_t launch(const Proposal& proposal, size_t call);
  [[nodiscard]] std::optional<double> microseconds(const Proposal& proposal, int calls);

  std::vector<Matrices> sets_;
  at::Tensor workspace_;
  std::deque<model::blas::Product> products_;  // of each set; they stay where they are
  std::vector<model::blas::Matmul> matmuls_;
};

// Of an algorithm: "id", "tile", "stages", ..., by cuBLASLt's numbers.
std::map<std::string, int> configuration(const cublasLtMatmulAlgo_t& algorithm);

}  // namespace ablations::micro
