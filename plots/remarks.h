// What is said of a study: one headline, the figures behind it, and remarks, each with what to do about it.
#pragma once

#include "results/comparison.h"
#include "results/report.h"

#include <vector>

namespace plots {

// What is said of a study. A report gives its runs and the noise floors of its rungs; the terminal has neither.
StudySaid said_of(const Study& study, const std::vector<ReportedRun>& runs = {}, const std::vector<Noise>& noise = {});

// What is said of two studies beside each other.
Said said_of(const Report& report);

// The report with what is said of its studies, of both together, and of its gates.
Report with_said(Report report);

}  // namespace plots
