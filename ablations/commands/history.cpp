// `ladder history`: the times of all studies in a folder, and what changed.
#include "ablations/study/history.h"

#include "ablations/commands/commands.h"
#include "ablations/commands/draw.h"
#include "ablations/report/history_table.h"
#include "files/printable.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

namespace ablations {

namespace fs = std::filesystem;
using files::printable;
using harness::Json;

int history(const HistoryFlags& flags) {
  const Json history = history_of(flags.folder, flags.min_effect);
  harness::check_schema(history, "history", "the history");
  for (const Json& skipped : history.at("skipped"))
    fmt::print(stderr, "skipped: {}: {}\n", printable(skipped.at("file").get<std::string>()),
               printable(skipped.at("reason").get<std::string>()));
  if (flags.json) {
    fmt::print("{}\n", harness::ascii_text(history));
  } else {
    fmt::print("{}", history_table(history, standard_output()));
  }
  // A rung that fails tonight has not been found to be as fast as ever: no answer.
  const int status = !flags.fail_on_slowdown ? 0 : history.at("slower") != 0 ? 1 : history.at("missed") != 0 ? 3 : 0;
  if (flags.out.empty()) return status;
  const fs::path out = flags.out;
  fs::create_directories(out);
  harness::write_json(out / "history.json", history, "history");
  fmt::print("Files:\n{}\n", printable((out / "history.json").string()));
  std::fflush(stdout);
  (void)draw("history", out / "history.json", out);  // a picture that cannot be drawn changes no exit status
  return status;
}

}  // namespace ablations
