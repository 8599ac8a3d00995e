// From records to a study: every derived number that a table, a chart or a report shows is computed here.
#pragma once

#include "ablations/plan/plan.h"
#include "results/study.h"

#include <filesystem>
#include <optional>
#include <string>

namespace ablations {

// Of an earlier study of the same folder, for one that has no record yet.
struct Earlier {
  std::string created;
  Environment environment;
};

// Reads the records that are there and computes the study. Missing runs are counted, not invented. The environment is
// the records'; where there is none yet, that of `earlier`, and without one this process's; so, too, when a shard was
// made. Throws std::invalid_argument for a record that cannot be read.
Study analyse(const Plan& plan, const std::filesystem::path& folder, const std::optional<Earlier>& earlier = {});

// Of runs that have not been made yet: without the tokens' hash and number.
Workload planned_workload(const Plan& plan);

}  // namespace ablations
