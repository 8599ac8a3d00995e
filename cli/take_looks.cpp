#include "cli/take_looks.h"

#include "ablations/run/command_trial.h"
#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/process/process.h"
#include "study/looks.h"
#include "study/same_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace cli {

namespace fs = std::filesystem;
using files::printable;

void take_looks(const Plan& plan, const fs::path& folder, const std::function<bool(const Rung&)>& wanted,
                const TakeLook& take) {
  if (std::ranges::none_of(plan.rungs, wanted)) return;
  files::make_folder_in(folder, "looks");
  const auto look = [&](size_t rung, const fs::path& file, const std::string& with, const std::string& rounding) {
    if (fs::exists(file) || harness::interrupted()) return;
    const std::string name = files::in_quotes(files::shortened(printable(plan.rungs[rung].title), 70));
    fmt::print(stderr, "looking at {}{} ...\n", name, with);
    const std::string why = take(rung, file, rounding);
    if (!why.empty()) fmt::print(stderr, "note: {}: {}\n", name, printable(why));
  };
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    if (wanted(plan.rungs[i])) look(i, look_file(folder, plan.rungs[i]), "", "");
  }
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    for (const NeededLook& needed : needed_looks(plan, i, folder)) {
      look(needed.rung, rounding_file(folder, plan.rungs[needed.rung], needed.type, needed.again),
           fmt::format(" with {} rounding", needed.type.name), fmt::format("{}+{}", needed.type.bits, needed.again));
    }
  }
}

void take_looks(const Plan& plan, const fs::path& folder, bool all) {
  take_looks(
      plan, folder, [all](const Rung& rung) { return all || rung.command->trial.versions.contains("torch"); },
      [&](size_t rung, const fs::path& file, const std::string& rounding) {
        return look_at(plan, rung, folder, file, rounding);
      });
}

}  // namespace cli
