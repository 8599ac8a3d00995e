// Makes the report (results/report.h) of one study, or of two beside each other. What draws it computes no number
// again.
#pragma once

#include "results/report.h"
#include "study/archive/study_files.h"

#include <filesystem>
#include <vector>

namespace plots {

// The document of one or two studies, and of what is kept with them. `with`: more of that, verdicts, histories, noise
// floors, traces, and what Google Benchmark wrote. Throws std::invalid_argument for one of these that is of another
// kind or cannot be read.
Report report_document(const std::vector<StudyFiles>& studies, const std::vector<std::filesystem::path>& with = {});

}  // namespace plots
