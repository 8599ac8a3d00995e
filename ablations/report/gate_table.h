// A gate's verdict (ablations/study/gate_verdict.h) as it is told: to a person, and to the GitHub job it runs in.
#pragma once

#include "ablations/text/style.h"
#include "harness/json_file.h"

#include <string>

namespace ablations {

// A noise floor (ablations/study/baseline.h) on a terminal, 80 columns.
std::string noise_table(const harness::Json& noise);

// For a terminal, 80 columns; and for a page.
std::string gate_table(const harness::Json& verdict, const Look& look = {});
std::string gate_markdown(const harness::Json& verdict);

// In a GitHub job (GITHUB_ACTIONS=true) annotations on standard error, and the Markdown at the end of the file that
// GITHUB_STEP_SUMMARY names. Elsewhere nothing. Throws std::system_error where that file cannot be written.
void tell_github(const harness::Json& verdict);

}  // namespace ablations
