// What stands below charts: of rungs that are void or have no number, of disturbed runs, of losses that
// are not finite. plots/charts/NAME.py adds what it does not draw.
#pragma once

#include "ablations/documents/report.h"

#include <vector>

namespace ablations {

ChartNotes chart_notes_of(const Study& study, const std::vector<ReportedRun>& runs,
                          const std::vector<RungLosses>& losses);

// Of the charts of traces.
ChartNotes chart_notes_of(const Report& report);

}  // namespace ablations
