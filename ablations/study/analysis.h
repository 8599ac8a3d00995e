// From records to a study: every derived number that a table, a chart or a report shows is computed here.
#pragma once

#include "ablations/plan/plan.h"
#include "harness/json_file.h"

#include <filesystem>

namespace ablations {

// Reads the records that are there and computes the study (results/schemas/study.v1.json). Missing runs are counted,
// not invented. The environment is the records'; where there is none yet, that of `earlier`, a study of the same
// folder, and where that is null, this process's; so, too, when a shard was made. Throws std::invalid_argument for a
// record that cannot be read.
harness::Json analyse(const Plan& plan, const std::filesystem::path& folder, const harness::Json& earlier = {});

// The "workload" of runs that have not been made yet: without the tokens' hash and number.
harness::Json planned_workload(const Plan& plan);

}  // namespace ablations
