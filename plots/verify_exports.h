// Checks that the tables beside a study agree with it: report.json, rungs.csv, steps.csv, benchmark.json. Also lists
// the files that are not checked, such as pages, pictures and logs.
#pragma once

#include "results/study.h"
#include "study/archive/seal.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

struct ExportVerification {
  std::vector<Finding> findings;
  // All other files of the folder, without those that study.json has hashes of.
  std::vector<std::string> not_covered;
};

// `study`: the folder's study.json, which verify_study() found right. A report of two studies is not covered. Of one
// study's report, what was put beside it is not (gates, histories, noise floors, traces, published numbers).
ExportVerification verify_exports(const std::filesystem::path& folder, const Study& study);

}  // namespace ablations
