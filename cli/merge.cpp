// `ladder merge`: the shards of one plan become one study.
#include "study/archive/merge.h"

#include "cli/commands.h"
#include "cli/draw.h"
#include "files/files.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

namespace ablations {

namespace fs = std::filesystem;
using files::printable;

int merge(const MergeFlags& flags) {
  const std::vector<MergedStudy> studies =
      merge_studies(files::named_folder(flags.out), {flags.shards.begin(), flags.shards.end()}, flags.group_by_device);
  int status = 0;
  for (const auto& [folder, plan, missing] : studies) {
    const StudyFiles study = computed_study(plan, folder);
    write_document(folder / "study.json", study.study);
    const Drawn drawn = try_draw_report(study, folder);
    status = std::max(status, show_study(study.study, false));
    fmt::print("{}", drawn.said);
    std::fflush(stdout);
    if (drawn.exit_status != 0) {
      fmt::print(stderr, "the study is saved; draw it with: ladder report {}\n", printable(folder.string()));
    }
    if (missing.empty()) continue;
    std::set<int64_t> repeats;
    for (const PlannedRun& run : missing) repeats.insert(run.repeat + 1);
    fmt::print(stderr,
               "{}: {} of {} runs are missing, in repeats {}; merge their shard, too, or make them here: "
               "ladder ablate --resume --out {}\n",
               printable(folder.string()), missing.size(), plan.runs.size(), fmt::join(repeats, ", "),
               printable(folder.string()));
  }
  return status;
}

}  // namespace ablations
