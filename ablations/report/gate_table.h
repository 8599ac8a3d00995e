// A gate's verdict as text: for people, and for the GitHub job that it runs in.
#pragma once

#include "ablations/documents/gate.h"
#include "ablations/text/style.h"

#include <string>

namespace ablations {

// On a terminal, 80 columns.
std::string noise_table(const Noise& noise);

// For a terminal, 80 columns; and for a page.
std::string gate_table(const GateResult& result, const Look& look = {});
std::string gate_markdown(const GateResult& result);

// In a GitHub job (GITHUB_ACTIONS=true) annotations on standard error, and the Markdown at the end of the file that
// GITHUB_STEP_SUMMARY names. Elsewhere nothing. A summary that cannot be written is another annotation.
void tell_github(const GateResult& result);

}  // namespace ablations
