// The titles of charts: what each shows, in one sentence. plots/charts/NAME.py draws the chart of that name.
#pragma once

#include "ablations/documents/report.h"

#include <string>
#include <vector>

namespace ablations {

// Of the charts of one study.
Findings findings_of(const Study& study, const std::vector<ReportedRun>& runs, const std::vector<RungLosses>& losses);

// Of the charts that show more than one study, and of traces.
Findings findings_of(const Report& report);

// The last one whose parts were measured, which the chart of the roofline is of. None: nullptr.
const TraceDocument* trace_with_roofline(const Report& report);

// A part of a step by its phase and name: "backward head".
std::string part_words(const RooflineRow& part);

}  // namespace ablations
