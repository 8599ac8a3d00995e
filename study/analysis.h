// From records to a study: every derived number that a table, a chart or a report shows is computed here.
#pragma once

#include "ablations/plan/make_plan.h"
#include "results/study.h"

#include <filesystem>
#include <optional>
#include <string>

namespace study {

// What an earlier study of the same folder says, for a folder without records.
struct Earlier {
  std::string created;
  Environment environment;
};

// Reads the records that are there and computes the study. Missing runs are counted, not invented. The environment
// comes from the records. Without records it comes from `earlier`, and without that from this process. The same holds
// for the time when a shard was made. Throws std::invalid_argument for a record that cannot be read.
Study analyse(const Plan& plan, const std::filesystem::path& folder, const std::optional<Earlier>& earlier = {});

// The work of runs that are not made yet, without what only they know: parameters, FLOPs, and the hash of the tokens.
Workload planned_workload(const Plan& plan);

}  // namespace study
