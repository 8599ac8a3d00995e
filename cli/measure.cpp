// `ladder measure`: any training program's steps, compared in pairs of fresh processes.
#include "ablations/plan/command_rungs.h"
#include "ablations/plan/make_plan.h"
#include "ablations/run/command_files.h"
#include "ablations/run/command_metric.h"
#include "ablations/run/command_trial.h"
#include "ablations/run/study_folder.h"
#include "cli/command.h"
#include "cli/draw.h"
#include "cli/place.h"
#include "cli/take_looks.h"
#include "cli/worktrees.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/machine/machine.h"
#include "harness/process/process.h"
#include "harness/process/utc.h"
#include "plots/again.h"
#include "study/archive/study_files.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using files::printable;

namespace {

constexpr int64_t usual_repeats = 6;  // the fewest that can show a difference (docs/power.md)

struct MeasureFlags {
  std::vector<std::string> commands;
  TypedLine typed;
  std::string mode, out, losses = "guarded";
  std::optional<int64_t> repeats, budget_s, order_seed, tokens;
  int64_t steps = 30, warmup = 10, limit_s = 900;
  std::string steps_from, metric, better, until, within;
  bool dry_run = false, look = false, no_look = false, as_is = false, terminal = false, hook = false, resume = false,
       json = false, markdown = false, verbose = false, wait = false;
};

// The commands' rungs, each within the other command that --within gives: its {command} becomes one word of the shell.
std::vector<Rung> rungs_of(const MeasureFlags& flags, Mode mode) {
  std::vector<Rung> rungs = rungs_of_commands(flags.commands, mode);
  if (flags.within.empty()) return rungs;
  if (flags.within.find("{command}") == std::string::npos) {
    throw std::invalid_argument("--within must have {command} in it: 'ssh gpu-1 {command}'");
  }
  for (Rung& rung : rungs) {
    const std::string word = "'" + replaced(rung.command->text, "'", R"('"'"')") + "'";
    rung.command->text = replaced(flags.within, "{command}", word);
  }
  return rungs;
}

std::string shown(const Rung& rung) { return files::in_quotes(files::shortened(printable(rung.command->typed), 70)); }

// "measured/2026-11-27-1": the first that is free.
fs::path next_folder() {
  const std::string day = harness::utc_now().substr(0, 10);
  for (int i = 1;; ++i) {
    const fs::path folder = fs::path("measured") / fmt::format("{}-{}", day, i);
    if (!fs::exists(folder)) return folder;
  }
}

// All but the trials and what follows from them.
Plan plan_of(const MeasureFlags& flags) {
  Plan plan{
      .id = "",
      .created = harness::utc_now(),
      .ladder = {.name = "measure", .title = "", .file = {}},
      .workload = {},
      .warmup_steps = flags.warmup,
      .timed_steps = flags.steps,
      .repeats = flags.repeats.value_or(usual_repeats),
      .order_seed = flags.order_seed ? static_cast<uint64_t>(*flags.order_seed) : files::random_number() % 1000000000,
      .run_limit_s = static_cast<double>(flags.limit_s),
      .mode = flags.mode.empty() ? Mode::cumulative : mode_of(flags.mode, "--mode")};
  if (plan.mode == Mode::sweep) throw std::invalid_argument("--mode sweep: a command has no size that could be varied");
  plan.rungs = rungs_of(flags, plan.mode);
  for (Rung& rung : plan.rungs) rung.command->trial.terminal = flags.terminal;
  plan.ladder.title = number_of(std::ssize(plan.rungs), "command");
  plan.commands = CommandTerms{.as_is = flags.as_is,
                               .hook = flags.hook,
                               .steps_from = flags.steps_from,
                               .tokens_per_step = flags.tokens.value_or(0),
                               .guards_losses = flags.losses == "guarded"};
  if (!flags.metric.empty()) compare_by(metric_of(flags.metric, flags.better, flags.until), plan);
  plan.typed = flags.typed;
  if (!flags.order_seed)
    plan.typed->flags.insert(plan.typed->flags.end(), {"--order-seed", std::to_string(plan.order_seed)});
  plan.id = study_id(plan.ladder.name, plan.created);
  return plan;
}

double repeat_s(const Plan& plan) {
  double seconds = 0;
  for (const Rung& rung : plan.rungs) seconds += run_s(plan, rung.command->trial);
  return seconds;
}

// Their difference is what chance makes of one command.
void tell_equal(const Plan& plan) {
  for (size_t i = 1; i < plan.rungs.size(); ++i) {
    const auto is_same = [&](const Rung& rung) { return rung.command->text == plan.rungs[i].command->text; };
    const auto first = std::ranges::find_if(plan.rungs, is_same) - plan.rungs.begin();
    if (first == static_cast<std::ptrdiff_t>(i)) continue;
    fmt::print(stderr, "note: commands {} and {} are the same, {}: what differs is chance\n", first + 1, i + 1,
               shown(plan.rungs[i]));
  }
}

void tell_plan(const Plan& plan, const fs::path& out) {
  std::set<std::string> shapes;
  for (const Rung& rung : plan.rungs) {
    const Trial& trial = rung.command->trial;
    const std::string every = trial.every == 1 ? "" : fmt::format(", every {} {}s", trial.every, trial.unit());
    const std::string bursts = trial.pace().has_all() ? ", in bursts or by a clock" : "";
    const int64_t ranks = trial.format ? trial.format->copies : 1;
    const std::string last = ranks == 1 ? "" : fmt::format(", the last of {} ranks", ranks);
    shapes.insert(fmt::format("{}{}{}{}{}", files::in_quotes(trial.shape), every, last, bursts,
                              trial.terminal ? ", read from a terminal" : ""));
  }
  const std::vector<std::string>& gpus = plan.rungs.front().command->trial.gpus;
  const std::optional<Metric>& metric = plan.commands->metric;
  const int64_t twice = metric ? 0 : std::min(plan.repeats, runs_that_go_on);
  const double seconds = static_cast<double>(plan.repeats + twice) * repeat_s(plan);
  fmt::print(
      stderr, "{}; {}; {} of {}{}, into {}\n",
      metric ? "whole runs, compared by " + printable(metric->name) : fmt::format("steps: {}", fmt::join(shapes, "; ")),
      gpus.empty() ? "no GPU is used" : fmt::format("{} x {}", gpus.size(), gpus.front()),
      number_of(plan.repeats, "repeat"), number_of(std::ssize(plan.rungs), "command"),
      seconds > 0 ? ", about " + clock_time(seconds) : "", printable(out.string()));
  for (const Rung& rung : plan.rungs) {
    const std::vector<std::string>& wrote = rung.command->trial.wrote;
    if (wrote.empty()) continue;
    fmt::print(stderr,
               "note: {} is written by every run of {}: does the next run resume from it? {{run}} in a command is an "
               "empty folder of each run\n",
               printable(first_of(wrote, 3)), shown(rung));
  }
}

// The commit of the repository that a command runs in; empty: it runs in none.
std::string commit_here(const std::string& directory, const fs::path& out) {
  try {
    return git({"-C", directory.empty() ? "." : directory, "rev-parse", "HEAD"}, out / "logs" / "git.log");
  } catch (const std::exception&) {
    return "";
  }
}

// Tries each command and completes the plan. Returns false if it was interrupted.
bool try_commands(Plan& plan, const fs::path& out, const MeasureFlags& flags) {
  const auto files_before = files_of_commands(plan);
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    fmt::print(stderr, "trying {} ...\n", shown(plan.rungs[i]));
    const std::optional<Trial> trial = tried(plan, i, out);
    if (!trial) return false;
    plan.rungs[i].command->trial = *trial;
    plan.rungs[i].command->trial.commit = commit_here(plan.rungs[i].command->directory, out);
  }
  auto& files = plan.commands->files;  // that the commands do not write themselves
  std::ranges::set_intersection(files_before, files_of_commands(plan), std::inserter(files, files.end()));
  if (flags.budget_s) {
    const double repeats = std::floor(static_cast<double>(*flags.budget_s) / repeat_s(plan));
    plan.repeats = std::clamp<int64_t>(static_cast<int64_t>(repeats), 1, flags.repeats.value_or(1000));
    if (plan.repeats < usual_repeats) {
      fmt::print(stderr, "note: the time is enough for {}; {} are needed to show a difference\n",
                 number_of(plan.repeats, "repeat"), usual_repeats);
    }
  }
  plan.runs = interleave(plan.rungs, plan.repeats, plan.order_seed);
  return true;
}

Plan resumed_plan(const MeasureFlags& flags, const fs::path& out) {
  Plan plan = open_study(out);
  if (!plan.commands) throw std::invalid_argument(fmt::format("{}: is no study of commands", out.string()));
  if (plan.commands->from_logs) throw std::invalid_argument(fmt::format("{}: is a study of logs", out.string()));
  const std::vector<Rung> named = rungs_of(flags, plan.mode);
  const auto same = [](const Rung& one, const Rung& other) {
    return one.command->text == other.command->text && one.title == other.title &&
           one.command->directory == other.command->directory;
  };
  check_has_no_links(out);
  if (!std::ranges::equal(named, plan.rungs, same)) {
    throw std::invalid_argument(
        fmt::format("{}: was begun with other commands; a folder cannot decide what is run, so name the same commands "
                    "in the same order",
                    out.string()));
  }
  return plan;
}

// Prints the commands, and the runs that are left.
int dry_run(const Plan& plan, const fs::path& out) {
  for (const Rung& rung : plan.rungs) fmt::print("{}: {}\n", rung.name, printable(rung.command->text));
  std::vector<PlannedRun> runs = interleave(plan.rungs, plan.repeats, plan.order_seed);
  std::erase_if(runs, [&](const PlannedRun& run) { return good_record(out, plan, run).has_value(); });
  double seconds = 0;  // 0: only a trial tells
  for (const PlannedRun& run : runs) seconds += run_s(plan, plan.rungs[run.rung].command->trial);
  fmt::print("{} of {} each would be made{}, into {}\n", number_of(std::ssize(runs), "run"),
             number_of(plan.warmup_steps + plan.timed_steps, "step"),
             plan.runs.empty() ? "" : ", in about " + clock_time(seconds), printable(out.string()));
  return 0;
}

int measure(const MeasureFlags& flags) {
  if (const std::string quoted = with_quotes(flags.commands); !quoted.empty()) {
    throw std::invalid_argument(fmt::format("{} is a command by itself; {}", flags.commands.front(), quoted));
  }
  fs::path out = flags.out.empty() ? next_folder() : files::named_folder(flags.out);
  harness::catch_interrupts();
  Plan plan = flags.resume ? resumed_plan(flags, out) : plan_of(flags);
  if (!flags.resume) check_may_begin(out);
  if (flags.dry_run) return dry_run(plan, out);
  const auto held = occupy_for_commands("ladder measure", out, flags.wait);
  if (flags.out.empty()) out = next_folder();  // another one may have begun there meanwhile
  BegunFolder begun(out, {"logs", "runs"}, flags.resume);
  if (!flags.resume) {
    for (const std::string& line : harness::disturbances()) fmt::print(stderr, "note: {}\n", line);
    tell_equal(plan);
    if (!try_commands(plan, out, flags)) {
      fmt::print(stderr, "interrupted before anything was measured\n");
      return 130;
    }
    write_document(out / "plan.json", plan);
    begun.has_plan();
    tell_plan(plan, out);
  }
  if (!flags.no_look && plan.rungs.size() > 1) take_looks(plan, out, flags.look);
  std::vector<double> expected_s;
  for (const Rung& rung : plan.rungs) expected_s.push_back(run_s(plan, rung.command->trial));
  const Outcome outcome = carry_out(plan, out, commands(plan, out), 0, expected_s);
  const StudyFiles study = computed_study(plan, out);
  write_document(out / "study.json", study.study);
  if (outcome.interrupted) {
    fmt::print(stderr, "completed runs are saved; resume with: {}\n", resume_command(*plan.typed, out.string()));
    return 130;
  }
  const Printed as = printed_as(flags.json, flags.markdown, flags.verbose);
  if (as == Printed::json) return show_study(study.study, as);
  const Drawn drawn = try_draw_report(study, out);
  const int status = show_study(study.study, as);
  if (as != Printed::markdown) fmt::print("{}", drawn.said);
  return outcome.some_failed ? 1 : status;
}

}  // namespace

std::string with_quotes(const std::vector<std::string>& words) {
  if (words.size() < 2 || words[0].starts_with('-') || words[0].find(' ') != std::string::npos) return "";
  const auto is_no_command = [](const std::string& word) {
    std::error_code unknown;
    return word.starts_with('-') || (fs::is_regular_file(word, unknown) &&
                                     (word.find('/') == std::string::npos || ::access(word.c_str(), X_OK) != 0));
  };
  if (std::none_of(words.begin() + 1, words.end(), is_no_command)) return "";
  return fmt::format("did you mean ladder measure '{}'?", fmt::join(words, " "));
}

void add_measure(CommandLine& line) {
  Command& command = line.add(
      {.name = "measure",
       .about =
           "Runs each command several times in turn, in fresh processes, and reads the steps from the lines that it "
           "prints. A line with a loss is honest on a GPU, too: to print the loss, the device must have computed it. "
           "Each run is ended after its warm-up and its timed steps. In a command {run} becomes an empty folder of "
           "that "
           "run, {repeat} its number, and {seed} a number that nobody knows before; the runs of a pair share both. "
           "Leaves a folder with the records, a "
           "table, a page and charts.\n"
           "\"+ --flag\" adds to the command before it, at its end or in place of {flags}, \"+ NAME=value\" sets a "
           "variable, "
           "\"title: command\" names it. "
           "Commands go through sh as they are typed. Exit status: 1 if a command failed or its losses are others.",
       .examples = {{"ladder measure 'python train.py' 'python train.py --compile'",
                     "Is --compile faster, and how much?"},
                    {"ladder measure 'python train.py' 'bf16: + --dtype bf16' '+ TF32=1'",
                     "A ladder: each adds to the one before."},
                    {"ladder measure --mode leave-one-out 'python t.py' '+ --compile' '+ --fused'",
                     "What is lost without each."},
                    {"ladder measure --metric seconds 'python prepare.py' '+ --workers 4'",
                     "Compares whole runs; a number that they print would do, too."},
                    {"ladder measure 'python train.py --out {run}' '+ --fused'",
                     "Every run writes into a folder of its own."}},
       .common = {"--repeats", "--steps", "--warmup", "--mode", "--steps-from", "--look", "--out", "--resume"}});
  auto& flags = command.runs<MeasureFlags>(measure);
  command.heading("Arguments");
  command.add_option("command", flags.commands, "what is run, each in quotes")->required()->type_name("COMMAND");
  command.heading("How to measure");
  add_number(command, "--repeats,-n", flags.repeats, "runs of each command (default 6, the fewest that can tell)", 1,
             1000);
  add_number(command, "--steps", flags.steps, "timed steps of a run (default 30), over 8 lines at least", 1, 100000);
  add_number(command, "--warmup", flags.warmup, "steps before them (default 10)", 0, 100000);
  add_number(command, "--for-s", flags.budget_s, "as many repeats as fit into so many seconds", 1, 1000000);
  add_choice(command, "--mode", flags.mode, {"cumulative", "leave-one-out", "one-at-a-time", "factorial"},
             ": how the pieces with + are combined (default: cumulative)", "MODE");
  add_number(command, "--limit-s", flags.limit_s, "seconds after which a run is stopped (default 900)", 1, 1000000);
  add_number(command, "--order-seed", flags.order_seed, "seed of the runs' order (default: random)", 0, 1000000000);
  command.add_flag("--dry-run", flags.dry_run, "print the commands and how many runs; run nothing");
  command.add_flag("--wait", flags.wait, "wait until no other ladder measures here");
  command.heading("What to compare");
  add_text(command, "--metric", flags.metric,
           "in place of the time of a step: seconds of a whole run, \"seconds to loss X\", or the last number that a "
           "line has: 'val_loss:(?P<value>\\S+)'",
           "METRIC");
  add_choice(command, "--better", flags.better, {"lower", "higher"}, ": which numbers of --metric are good", "WHICH");
  add_text(command, "--until", flags.until, "end each command after so long (300s), with --metric", "SECONDS");
  command.heading("How to read a program");
  add_text(command, "--within", flags.within,
           "run each in a container or elsewhere: 'docker run --rm IMAGE sh -c {command}', 'ssh HOST {command}'",
           "COMMAND");
  add_text(command, "--steps-from", flags.steps_from,
           "where a line has its step and loss: 'it (?P<step>\\d+) .*loss (?P<loss>\\S+)'", "REGEX");
  add_number(command, "--tokens", flags.tokens, "tokens of a step, of every command", 1, 1000000000000);
  add_choice(command, "--losses", flags.losses, {"guarded", "free"},
             "; free: commands may learn differently (default: guarded)", "WHAT");
  command.add_flag("--look", flags.look,
                   "run each once more and see what it does in PyTorch (default: those that load it)");
  command.add_flag("--no-look", flags.no_look, "do not look at any");
  command.add_flag("--hook", flags.hook, "time the steps of PyTorch's optimizer, where a program prints too little");
  command.add_flag("--terminal", flags.terminal, "let the program print to a terminal");
  command.add_flag(
      "--as-is", flags.as_is,
      "do not set PYTHONUNBUFFERED=1, WANDB_MODE=offline, WANDB_DIR and MLFLOW_TRACKING_URI for the program");
  command.heading(results_heading);
  add_output(command, "--out", flags.out, "folder of the study (default: measured/<day>-<number>)", "FOLDER");
  command.add_flag("--resume", flags.resume, "make the runs that the study in --out lacks; name the commands again");
  command.add_flag("--json", flags.json, "print the study as JSON");
  command.add_flag("--markdown", flags.markdown, "print the table for a pull request");
  command.add_flag("--verbose,-v", flags.verbose, "print how the numbers were computed, too");
  for (const char* flag : {"--better", "--until"}) command.get_option(flag)->needs(command.get_option("--metric"));
  command.exclude("--metric", {"--steps", "--warmup", "--for-s", "--hook", "--tokens"});
  command.exclude("--json", {"--markdown"});
  command.callback([&command, &flags] {
    flags.typed = command.typed({"--dry-run", "--wait"});
    check_resume(
        command,
        {"command", "--within", "--json", "--markdown", "--verbose", "--wait", "--look", "--no-look", "--dry-run"},
        "study");
  });
}

}  // namespace cli
