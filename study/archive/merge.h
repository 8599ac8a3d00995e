// Joins the parts of one plan that several machines measured. The joined folder is the same as a single runner's, and
// is analysed in the same way. The target may already hold a part. It counts as one more shard, so a lost shard can be
// measured and merged later.
#pragma once

#include "ablations/plan/make_plan.h"

#include <filesystem>
#include <string>
#include <vector>

namespace study {

struct MergedStudy {
  std::filesystem::path folder;
  Plan plan;
  std::vector<PlannedRun> missing;  // runs that no shard has
};

// Joins the studies in `shards` in the folder `out`. group_by_device makes one study for each kind of device, in
// out/DEVICE. Throws std::invalid_argument before anything is written if something does not fit. Plans, devices,
// software and texts must agree, and a run may have one record. Throws, too, while a runner works in one of the
// folders.
std::vector<MergedStudy> merge_studies(const std::filesystem::path& out,
                                       const std::vector<std::filesystem::path>& shards, bool group_by_device);

}  // namespace study
