// From a gate's records to its verdict.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/comparison.h"

#include <filesystem>
#include <variant>
#include <vector>

namespace study {

// A file that later gates judge by.
struct KeptFile {
  std::filesystem::path path;
  std::variant<Baseline, Noise> document;
};

struct Judgement {
  GateResult result;
  std::vector<KeptFile> files;  // that it says are saved
};

// The folder that baselines and noise floors are saved into: --baselines if the gate saves, else the gate's own.
std::filesystem::path folder_of_baselines(const Plan& plan, const std::filesystem::path& folder);

// The verdict on the first `pairs` pairs of a gate's plan. Writes nothing. Throws harness::Unfit for circumstances that
// differ without --force.
Judgement gate_verdict(const Plan& plan, const std::filesystem::path& folder, int64_t pairs, bool topped_up);

// After so many pairs a gate may look whether its verdict is clear already: each quarter of the declared ones, from 12
// on.
std::vector<int64_t> early_looks(const Plan& plan);

// Whether these pairs' verdict is clear already, or one of their runs failed.
bool is_decided_early(const Plan& plan, const std::filesystem::path& folder);

}  // namespace study
