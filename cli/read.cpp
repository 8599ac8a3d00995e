// `ladder read`: sets of logs that exist, compared as `ladder measure` compares commands.
#include "ablations/plan/make_plan.h"
#include "ablations/run/command_metric.h"
#include "ablations/run/read_logs.h"
#include "ablations/run/study_folder.h"
#include "cli/command.h"
#include "cli/draw.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/resources.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"
#include "harness/process/utc.h"
#include "study/archive/study_files.h"
#include "text/text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using files::printable;

namespace {

struct ReadFlags {
  std::vector<std::string> sides;
  TypedLine typed;
  std::string metric, better, steps_from, clock, losses = "guarded", out;
  std::optional<int64_t> tokens;
  int64_t warmup = 10;
  bool json = false, markdown = false, verbose = false;
};

// A folder of its own, which is gone in the end.
class PassingFolder {
 public:
  PassingFolder() {
    std::string pattern = (fs::temp_directory_path() / "ladder-read-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "cannot make a folder like " + pattern);
    }
    path_ = pattern;
  }
  PassingFolder(const PassingFolder&) = delete;  // removes the folder
  PassingFolder& operator=(const PassingFolder&) = delete;
  ~PassingFolder() {
    std::error_code lost;
    fs::remove_all(path_, lost);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// By tensorboard's own reader.
std::string events_of(const fs::path& file) {
  constexpr double limit_s = 600;
  constexpr int is_missing = 3;
  const PassingFolder folder;
  const fs::path log = folder.path() / "events.jsonl";
  std::vector<std::string> argv = python();
  argv.insert(argv.end(), {(files::resource_root() / "client" / "read_events.py").string(), file.string()});
  const auto child = harness::run_child({.argv = argv, .log = log, .limit_s = limit_s});
  if (child.end == harness::ChildResult::End::exited && child.code == is_missing) {
    throw harness::Unfit(last_line(log) + " (LADDER_PYTHON names another Python)");
  }
  if (child.succeeded()) return files::read_file(log, size_t{256} << 20);
  throw std::invalid_argument(
      fmt::format("{}: {} {}: {}", file.string(), argv.front(), child.describe(limit_s), last_line(log)));
}

Plan plan_of(const ReadFlags& flags, const std::vector<LogSide>& sides) {
  size_t logs = 0;
  for (const LogSide& side : sides) logs += side.files.size();
  Plan plan{.id = "",
            .created = harness::utc_now(),
            .ladder = {.name = "read", .title = number_of(static_cast<int64_t>(logs), "log"), .file = {}},
            .workload = {},
            .warmup_steps = flags.warmup};
  plan.commands = CommandTerms{.steps_from = flags.steps_from,
                               .tokens_per_step = flags.tokens.value_or(0),
                               .guards_losses = flags.losses == "guarded",
                               .from_logs = true,
                               .files = {}};
  if (!flags.metric.empty()) {
    plan.commands->metric = metric_of(flags.metric, flags.better, "");
    plan.warmup_steps = 0;
    plan.commands->guards_losses = plan.commands->guards_losses && flags.metric == "seconds";
  }
  plan.typed = flags.typed;
  plan.id = study_id(plan.ladder.name, plan.created);
  add_runs(plan, sides);
  return plan;
}

harness::FinishedLog log_of(const fs::path& file, const ReadFlags& flags) {
  std::optional<harness::StepPattern> steps;
  std::optional<harness::LinePattern> clock;
  if (!flags.steps_from.empty()) steps.emplace(flags.steps_from);
  if (!flags.clock.empty()) {
    clock.emplace(flags.clock);
    if (!clock->names("seconds") && !clock->names("ms"))
      throw std::invalid_argument("--clock must have a group (?P<seconds>...) or (?P<ms>...), got " + clock->shown());
  }
  return harness::finished_log(log_text(file, events_of), steps, clock);
}

int read(const ReadFlags& flags) {
  const std::vector<LogSide> sides = sides_of(flags.sides);
  const Plan plan = plan_of(flags, sides);
  std::optional<PassingFolder> passing;
  if (flags.out.empty()) passing.emplace();
  const fs::path out = passing ? passing->path() : files::named_folder(flags.out);
  create_study(plan, out);
  files::make_folder_in(out, "records");
  auto run = plan.runs.begin();
  bool any = false;
  std::string failure;
  for (const LogSide& side : sides) {
    for (const fs::path& file : side.files) {
      Record record = record_of_log(plan, *run, file.filename().string(), log_of(file, flags));
      record.plan = plan_identity(plan);
      if (!record.is_ok()) fmt::print(stderr, "note: {}\n", printable(record.failure->message));
      if (failure.empty() && record.failure) failure = record.failure->message;
      any = any || record.is_ok();
      write_document(record_file(out, run->id), record);
      ++run;
    }
  }
  if (!any) throw std::invalid_argument("no log tells what is compared; the first: " + failure);
  const StudyFiles study = computed_study(plan, out);
  const Printed as = printed_as(flags.json, flags.markdown, flags.verbose);
  if (passing || flags.json) {
    if (!passing) write_document(out / "study.json", study.study);
    return show_study(study.study, as);
  }
  write_document(out / "study.json", study.study);
  const Drawn drawn = try_draw_report(study, out);
  const int status = show_study(study.study, as);
  if (as != Printed::markdown) fmt::print("{}", drawn.said);
  return status;
}

}  // namespace

void add_read(CommandLine& line) {
  Command& command = line.add(
      {.name = "read",
       .about =
           "Reads logs of runs that have ended, and compares them: each word is one side, a pattern of the shell's in "
           "quotes, a file, or a folder. \"title: pattern\" names it. Logs are what a program printed, JSON lines, CSV "
           "of Lightning or Keras, trainer_state.json of transformers, or event files of TensorBoard.\n"
           "Steps and losses are found as `ladder measure` finds them. Times are those of each log's own clock: a time "
           "that goes up, the stamps of its lines, or what it says of each step. Nobody watched these runs and they "
           "were not interleaved, so what differs may be the machine. The page says what the logs tell of it.\n"
           "Without --out only the table is printed. Exit status: 1 if a side has no number or its losses are others, "
           "3 if nothing follows from so few logs.",
       .examples = {{"ladder read 'baseline/*.txt' 'this_pr/*.txt'", "The time of a step, by the logs' own clock."},
                    {"ladder read --metric seconds 'baseline/*.txt' 'this_pr/*.txt'", "The time of the whole runs."},
                    {"ladder read --metric 'val_loss:(?P<value>\\S+)' --better lower old new",
                     "The last validation loss."},
                    {"ladder read 'old: runs/a*/metrics.csv' 'new: runs/b*/metrics.csv' --out read",
                     "With names, a page and JSON."}},
       .common = {"--metric", "--better", "--warmup", "--steps-from", "--clock", "--losses", "--out", "--json"}});
  auto& flags = command.runs<ReadFlags>(read);
  command.heading("Arguments");
  command.add_option("side", flags.sides, "logs of one side: a pattern in quotes, a file, or a folder")
      ->required()
      ->type_name("LOGS");
  command.heading("What to compare");
  add_text(command, "--metric", flags.metric,
           "in place of the time of a step: seconds, \"seconds to loss 3.28\", or where a line has a number: "
           "'val_loss:(?P<value>\\S+)'",
           "METRIC");
  add_choice(command, "--better", flags.better, {"lower", "higher"}, ": which numbers of --metric are good", "WHICH");
  add_choice(command, "--losses", flags.losses, {"guarded", "free"},
             "; free: sides may learn differently (default: guarded)", "WHAT");
  add_number(command, "--warmup", flags.warmup, "first steps that do not count (default 10)", 0, 100000);
  add_number(command, "--tokens", flags.tokens, "tokens of a step, of every side", 1, 1000000000000);
  command.heading("How to read a log");
  add_text(command, "--steps-from", flags.steps_from,
           "where a line has its step and loss: 'it (?P<step>\\d+) .*loss (?P<loss>\\S+)'", "REGEX");
  add_text(command, "--clock", flags.clock,
           "where a line has the time since the start: 't=(?P<seconds>\\S+)', 'at (?P<ms>\\d+)'", "REGEX");
  command.heading(results_heading);
  add_output(command, "--out", flags.out, "folder for the study, its page and its charts (default: none)", "FOLDER");
  command.add_flag("--json", flags.json, "print the study as JSON");
  command.add_flag("--markdown", flags.markdown, "print the table for a pull request");
  command.add_flag("--verbose,-v", flags.verbose, "print how the numbers were computed, too");
  command.get_option("--better")->needs(command.get_option("--metric"));
  command.exclude("--metric", {"--warmup", "--tokens"});
  command.exclude("--json", {"--markdown"});
  command.callback([&command, &flags] { flags.typed = command.typed({}); });
}

}  // namespace cli
