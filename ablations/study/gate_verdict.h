// From a gate's records to its verdict, and the ways in which it is told.
#pragma once

#include "ablations/plan/plan.h"
#include "ablations/text/style.h"

#include <filesystem>
#include <string>

namespace ablations {

// The verdict (results/schemas/gate.v1.json) on the first `pairs` pairs of a gate's plan. Where the plan says so,
// stores baselines and noise floors. Throws harness::Unfit for circumstances that differ without --force.
harness::Json gate_verdict(const Plan& plan, const std::filesystem::path& folder, int64_t pairs, bool topped_up);

// For a terminal, 80 columns; and for a page.
std::string gate_table(const harness::Json& verdict, const Look& look = {});
std::string gate_markdown(const harness::Json& verdict);

// In a GitHub job (GITHUB_ACTIONS=true) annotations on standard error, and the Markdown at the end of the file that
// GITHUB_STEP_SUMMARY names. Elsewhere nothing. Throws std::system_error where that file cannot be written.
void tell_github(const harness::Json& verdict);

}  // namespace ablations
