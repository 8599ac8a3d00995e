// The sentences of a report, made once: report.json holds them, and pages and Markdown place them.
#pragma once

#include "ablations/documents/baseline.h"
#include "ablations/documents/report.h"

#include <vector>

namespace ablations {

// `noise`: the floors that say something of the study.
StudyWords words_of(const ReportedStudy& entry, const std::vector<Noise>& noise);

// The report with its words, and those of its studies, comparison and gates, in place of those that it had.
Report with_words(Report report);

}  // namespace ablations
