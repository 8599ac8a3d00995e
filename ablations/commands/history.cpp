// `ladder history`: the times of all studies in a folder, and what changed.
#include "ablations/study/history.h"

#include "ablations/commands/commands.h"
#include "ablations/commands/draw.h"
#include "ablations/commands/place.h"
#include "ablations/report/history_table.h"
#include "files/files.h"
#include "files/printable.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>

namespace ablations {

namespace fs = std::filesystem;
using files::printable;
using harness::Json;

int history(const HistoryFlags& flags) {
  const fs::path out = files::named_folder(flags.out);
  if (!out.empty()) {
    check_draws_over_own(out, "history.json", "history",
                         {"history.json", "history.svg", "history.png", "history.vl.json"});
  }
  const Json history = history_of(flags.folder, flags.min_effect);
  harness::check_schema(history, "history", "the history");
  for (const Json& skipped : history.at("skipped"))
    fmt::print(stderr, "skipped: {}: {}\n", printable(skipped.at("file").get<std::string>()),
               printable(skipped.at("reason").get<std::string>()));
  std::string files;
  if (!out.empty()) {
    fs::create_directories(out);
    harness::write_json(out / "history.json", history, "history");
    files = fmt::format("Files:\n{}\n", printable((out / "history.json").string()));
    files += draw("history", out / "history.json", out).files;  // what cannot be drawn changes no exit status
  }
  if (flags.json) {
    fmt::print("{}\n", harness::ascii_text(history));
  } else {
    fmt::print("{}", history_table(history, standard_output()));
  }
  fmt::print("{}", files);
  // A rung that fails tonight has not been found to be as fast as ever: no answer.
  return !flags.fail_on_slowdown ? 0 : history.at("slower") != 0 ? 1 : history.at("missed") != 0 ? 3 : 0;
}

}  // namespace ablations
