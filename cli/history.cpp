// `ladder history`: the times of all studies in a folder, and what changed.
#include "study/archive/history.h"

#include "cli/commands.h"
#include "cli/draw.h"
#include "cli/place.h"
#include "files/files.h"
#include "files/printable.h"
#include "plots/history_table.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace ablations {

namespace fs = std::filesystem;
using files::printable;

int history(const HistoryFlags& flags) {
  const fs::path out = files::named_folder(flags.out);
  if (!out.empty()) {
    check_draws_over_own(out, "history.json", "history",
                         {"history.json", "history.svg", "history.png", "history.vl.json"});
  }
  const History history = history_of(flags.folder, flags.min_effect);
  for (const auto& [file, reason] : history.skipped)
    fmt::print(stderr, "skipped: {}: {}\n", printable(file), printable(reason));
  std::string said;
  if (!out.empty()) {
    try {
      fs::create_directories(out);
      write_document(out / "history.json", history);
      said = draw("history", out / "history.json", out).said;  // what cannot be drawn changes no exit status
    } catch (const std::system_error& error) {
      if (!flags.fail_on_slowdown) throw;  // else the verdict still counts
      fmt::print(stderr, "ladder: the history was not written: {}\n", printable(error.what()));
    }
  }
  if (flags.json) {
    fmt::print("{}\n", files::ascii_text(json_of(history)));
  } else if (history.studies == 1) {
    fmt::print("1 study: a history begins with two; six show a drift, ten a jump\n");
  } else {
    fmt::print("{}", history_table(history, standard_output()));
  }
  fmt::print("{}", said);
  // A rung that fails tonight has no time that could be judged: exit status 3.
  return !flags.fail_on_slowdown ? 0 : history.slower != 0 ? 1 : history.missed != 0 ? 3 : 0;
}

}  // namespace ablations
