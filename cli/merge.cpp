// `ladder merge`: the shards of one plan become one study.
#include "study/archive/merge.h"

#include "cli/command.h"
#include "cli/draw.h"
#include "files/files.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

namespace cli {

namespace fs = std::filesystem;
using files::printable;

namespace {

struct MergeFlags {
  std::string out;
  std::vector<std::string> shards;  // folders
  bool group_by_device = false;
};

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

}  // namespace

void add_merge(CommandLine& line) {
  Command& command = line.add(
      {.name = "merge",
       .about =
           "Each machine measures a part of the repeats with `ladder ablate --shard i/n` and the same other "
           "flags. This command joins the parts into one study in --out, says which runs are missing, and draws the "
           "study. It refuses parts with different plans, programs, texts or kinds of device.",
       .examples = {
           {"ladder merge shard-1 shard-2 --out whole", "Joins two shards into one study in the folder whole."},
           {"ladder merge --group-by-device shard-* --out whole", "One study for each kind of device."}}});
  auto& flags = command.runs<MergeFlags>(merge);
  command.heading("Arguments");
  command.add_option("shards", flags.shards, "folders of ladder ablate --shard")->type_name("FOLDER")->required();
  command.heading("What to join");
  command.add_flag("--group-by-device", flags.group_by_device,
                   "make one study for each kind of device, in a folder of --out (default: refuse different devices)");
  command.heading("Where the results go");
  add_output(command, "--out", flags.out, "folder of the study; may already hold a part", "FOLDER")->required();
}

}  // namespace cli
