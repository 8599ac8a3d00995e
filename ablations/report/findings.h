// The titles of charts: what each shows, in one sentence. plots/charts/NAME.py draws the chart of that name.
#pragma once

#include "ablations/documents/report.h"

#include <vector>

namespace ablations {

// Of the charts of one study.
Findings findings_of(const Study& study, const std::vector<ReportedRun>& runs, const std::vector<RungLosses>& losses);

// Of the charts that show more than one study, and of traces.
Findings findings_of(const Report& report);

}  // namespace ablations
