// The report document (results/schemas/report.v1.json): everything that the pages, charts and exports of one study, or
// of two side by side, are made from. What draws it computes none of its numbers again.
#pragma once

#include "ablations/archive/study_files.h"
#include "files/json_file.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

// The document of one or two studies, and of what is kept with them. `with`: more of that, verdicts, histories, noise
// floors, traces, and what Google Benchmark wrote. Throws std::invalid_argument for one of these that is of another
// kind or cannot be read.
files::Json report_document(const std::vector<StudyFiles>& studies, const std::vector<std::filesystem::path>& with = {},
                            bool published = false);

// The study of an entry of a report's.
Study study_of(const files::Json& entry);

// A report.json made before, and every document in it checked.
files::Json read_report(const std::filesystem::path& file);

// Throws std::invalid_argument for a report, or a document in it, that does not follow its schema or contradicts
// itself; `where` begins the message.
void check_report(const files::Json& report, const std::string& where);

}  // namespace ablations
