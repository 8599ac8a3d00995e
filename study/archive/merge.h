// Joins the parts of one plan that several machines measured. Nothing is computed here: the joined folder is what a
// single runner would have left, and is analysed the same way. The target may already hold a part, which counts as one
// more shard: so a merge can be completed after a lost shard was measured again.
#pragma once

#include "ablations/plan/plan.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

struct MergedStudy {
  std::filesystem::path folder;
  Plan plan;
  std::vector<PlannedRun> missing;  // runs that no shard has
};

// Joins the studies in `shards` in the folder `out`. group_by_device: to one study for each kind of device,
// out/DEVICE. Throws std::invalid_argument, before anything is written, that names what does not fit: plans that
// differ, records that do not fit the plan or were measured on different devices, with other software or another text,
// a run with two records; and while a runner is at work in one of the folders.
std::vector<MergedStudy> merge_studies(const std::filesystem::path& out,
                                       const std::vector<std::filesystem::path>& shards, bool group_by_device);

}  // namespace ablations
