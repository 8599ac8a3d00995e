// What is said of a gate: for a page, on a terminal, for a workflow's summary.
#pragma once

#include "results/comparison.h"
#include "text/style.h"

#include <string>

namespace plots {

// What the machine that noise was measured on can show.
std::string noise_words(const Noise& noise);

Said said_of(const GateResult& result);

std::string noise_table(const Noise& noise);
std::string gate_table(const GateResult& result, const Look& look = {});
std::string gate_markdown(const GateResult& result);

// In GitHub Actions: annotations on standard error, and the Markdown into the job's summary.
void tell_github(const GateResult& result);

}  // namespace plots
