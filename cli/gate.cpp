// `ladder gate`: its flags, and with `-- COMMAND` two commits of any program, each in a git worktree of its own. Runs
// are interleaved, in fresh processes, as those of a gate of two ladder programs (cli/gpt2/gate.cpp).
#include "ablations/plan/make_plan.h"
#include "ablations/run/command_files.h"
#include "ablations/run/command_trial.h"
#include "ablations/run/study_folder.h"
#include "cli/experiment.h"
#include "cli/gate_run.h"
#include "cli/worktrees.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/resources.h"
#include "harness/machine/machine.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"
#include "harness/process/utc.h"
#include "harness/stats/verdict.h"
#include "study/gate/baseline_file.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using files::printable;

namespace {

// Of a run of the command here, as far as a noise floor asks.
Record expected_record(const Plan& plan) {
  Record record;
  const TypedCommand& command = *plan.rungs.back().command;
  record.environment = environment_of_commands();
  record.command = CommandRun{.text = command.text, .steps = {}, .seconds = {}, .shape = ""};
  if (!command.trial.gpus.empty()) record.monitor.emplace();
  return record;
}

// Throws harness::Unfit where no noise is stored. The command's GPUs are not known before its trial.
void check_has_noise(const GateFlags& flags, const Plan& plan) {
  Record with_gpu = expected_record(plan);
  with_gpu.monitor.emplace();
  const fs::path file = noise_file(plan.gate->baselines, expected_record(plan));
  if (fs::exists(file) || fs::exists(noise_file(plan.gate->baselines, with_gpu))) return;
  throw harness::Unfit(
      fmt::format("--catch {:g}: needs this command's noise on this device ({}); ladder gate --calibrate --save -- "
                  "COMMAND measures it",
                  100 * *flags.catches, file.string()));
}

// Sets the least effect, half of what is to be caught, and the fewest pairs that catch it in 95 % of gates. A slowdown
// of that size must lie above the least effect and the noise floor together. Throws harness::Unfit where no noise is
// stored, or the time is not enough.
void choose_pairs(Plan& plan, const GateFlags& flags) {
  check_has_noise(flags, plan);
  const fs::path file = noise_file(plan.gate->baselines, expected_record(plan));
  const auto noise = read_document<Noise>(file);
  if (const std::string why = why_no_noise(noise, expected_record(plan)); !why.empty()) {
    throw harness::Unfit(
        fmt::format("--catch: the noise floor in {} does not count: {}; ladder gate --calibrate --save -- COMMAND "
                    "replaces it",
                    file.string(), why));
  }
  const TypedCommand& command = *plan.rungs.back().command;
  const double caught = *flags.catches;
  const double wanted = (1 + caught) / (1 + caught / 2) - 1;
  const double pair_s = 2 * run_s(plan, command.trial);
  const int64_t most = flags.budget_s ? static_cast<int64_t>(static_cast<double>(*flags.budget_s) / pair_s) : 1000;
  double shown = INFINITY;  // the smallest floor of those pairs that there is time for
  for (const int64_t pairs : {6, 8, 12, 16, 24, 32, 48, 64, 96, 128}) {
    if (pairs > most) break;
    shown = std::min(shown, harness::noise_floor(noise.differences, pairs));
    if (shown > wanted) continue;
    plan.gate->min_effect = caught / 2;
    plan.repeats = pairs;
    plan.gate->top_up = 0;
    fmt::print(stderr,
               "--catch {:g}: {} and a least effect of {:g} % find it in 95 % of gates (noise {:.2g} %), about {}\n",
               100 * caught, number_of(pairs, "pair"), 50 * caught, 100 * noise.sd,
               clock_time(static_cast<double>(pairs) * pair_s));
    return;
  }
  const std::string in_time = flags.budget_s ? " in " + clock_time(static_cast<double>(*flags.budget_s)) : "";
  throw harness::Unfit(fmt::format("{:g} % cannot be caught{} on this machine (noise {:.2g} %){}", 100 * caught,
                                   in_time, 100 * noise.sd,
                                   shown < 1 ? fmt::format("; {:.2g} % can", 100 * 2 * shown / (1 - shown)) : ""));
}

Plan plan_of(const GateFlags& flags, const std::vector<CommitSide>& sides) {
  const int64_t pairs = pairs_of(flags);
  Plan plan{.id = "",
            .created = harness::utc_now(),
            .ladder = {.name = "measure", .title = "1 command", .file = {}},
            .workload = {},
            .warmup_steps = flags.workload.warmup.value_or(10),
            .timed_steps = flags.workload.steps.value_or(30),
            .repeats = pairs,
            .order_seed = files::random_number() % 1000000000,
            .run_limit_s = static_cast<double>(flags.limit_s),
            .rungs = arms_of(command_text(flags.command), sides)};
  plan.commands = CommandTerms{.steps_from = flags.steps_from, .tokens_per_step = flags.tokens.value_or(0)};
  if (flags.expect.empty()) {
    plan.gate = terms_of(flags, pairs);
    plan.repeats += plan.gate->top_up;
  } else {
    make_experiment(flags, sides, plan);
  }
  plan.typed = flags.typed;
  plan.id = "gate-" + study_id(plan.ladder.name, plan.created);
  return plan;
}

// Throws harness::Unfit where both sides read the repository's code from one place.
void check_code_differs(const Worktrees& worktrees, bool force) {
  const std::vector<fs::path> both = worktrees.code_of_both();
  if (both.empty()) return;
  const std::string why = fmt::format(
      "base and head read the same code, {}{}: each needs its own, by --prepare 'pip install -e .' (each side has an "
      "environment of its own) or by a path that does not lead to your folder",
      both.front().string(), both.size() == 1 ? "" : fmt::format(" and {} more", both.size() - 1));
  if (!force) throw harness::Unfit(why + "; --force compares them anyway");
  fmt::print(stderr, "note: {}\n", printable(why));
}

void check_flags(const GateFlags& flags) {
  if (!flags.calibrate && flags.base.empty()) {
    throw std::invalid_argument("a command needs --base COMMIT to compare with, or --calibrate");
  }
  if (flags.resume) throw std::invalid_argument("--resume: a gate of commits cannot be resumed; begin a new one");
  if (!flags.rungs.empty() || !flags.ladder.empty()) {
    throw std::invalid_argument("--ladder and --rung are for gates of ladder programs; this one has a command");
  }
  if (flags.budget_s && flags.expect.empty() && !flags.catches) {
    throw std::invalid_argument("--for-s needs --catch or --expect");
  }
  if (!flags.expect.empty()) check_experiment(flags);
  if (flags.calibrate && !flags.prepare.empty()) {
    throw std::invalid_argument("--prepare: --calibrate runs the command as it is here; prepare it before");
  }
}

int gate_of_commits(const GateFlags& flags) {
  check_flags(flags);
  const std::string id = "gate-" + study_id("measure", harness::utc_now());
  const fs::path out = fs::absolute(flags.out.empty() ? fs::path("gates") / id : files::named_folder(flags.out));
  if (fs::exists(out / "plan.json")) {
    throw std::invalid_argument(
        fmt::format("{}: holds a gate already, and a gate of commits cannot be resumed; name another folder with --out",
                    out.string()));
  }
  check_may_begin(out);
  harness::catch_interrupts();
  harness::catch_lost_readers();  // or a reader that has gone would leave the worktrees
  const auto devices = occupy_for_commands("ladder gate", out, flags.wait);
  BegunFolder begun(out, {"runs", "worktrees"});
  std::optional<Worktrees> worktrees;
  std::vector<CommitSide> here;
  if (flags.calibrate) {
    const std::string both = "calibration";
    here = {{.name = "base", .commit = both, .place = "", .directory = fs::current_path()},
            {.name = "head", .commit = both, .place = "", .directory = fs::current_path()}};
  } else {
    if (flags.catches)
      check_has_noise(flags, plan_of(flags, {{.name = "head", .commit = "", .place = "", .directory = ""}}));
    const std::string head = flags.head.empty() ? "HEAD" : flags.head;
    worktrees.emplace(std::vector<NamedCommit>{{"base", "--base", flags.base}, {"head", "--head", head}}, out);
    if (!git({"status", "--porcelain", "--untracked-files=no"}, out / "logs" / "git.log").empty()) {
      fmt::print(stderr, "note: changes that are not committed are not measured\n");
    }
    for (CommitSide& side : worktrees->sides()) worktrees->make(side, flags.prepare);
  }
  std::vector<CommitSide>& sides = worktrees ? worktrees->sides() : here;
  Plan plan = plan_of(flags, sides);
  for (const std::string& line : harness::disturbances()) fmt::print(stderr, "note: {}\n", line);
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    std::optional<Trial> trial;
    try {
      if (!harness::interrupted()) {
        fmt::print(stderr, "trying {} ...\n", sides[i].name);
        trial = tried(plan, i, out, worktrees ? &sides[i].code : nullptr);
      }
    } catch (const std::invalid_argument& error) {
      const std::string why = fmt::format("{}: {}{}", sides[i].name, error.what(),
                                          worktrees ? worktrees->lacks(sides[i], trial_log(plan, i, out)) : "");
      if (i == 0) throw harness::Unfit(why);
      throw std::runtime_error(why);
    }
    if (!trial) {
      fmt::print(stderr, "interrupted before anything was measured\n");
      return 130;
    }
    plan.rungs[i].command->trial = *trial;
    if (flags.expect.empty()) continue;
    plan.rungs[i].command->trial.commit = sides[i].commit;  // as `ladder measure` has it
    plan.rungs[i].program.clear();
  }
  if (worktrees) check_code_differs(*worktrees, flags.force);
  if (flags.catches) choose_pairs(plan, flags);
  plan.runs = abba(plan.rungs, plan.repeats, flags.blocked);
  if (flags.expect.empty()) write_document(out / "plan.json", plan);
  begun.has_plan();
  fmt::print(stderr, "base: {}\nhead: {}\n", sides[0].commit, sides[1].commit);
  std::vector<std::set<fs::path>> code;
  for (const CommitSide& side : sides) code.push_back(side.code);
  if (!flags.expect.empty()) return run_experiment(plan, out, flags, code);
  const int status = run_gate(
      plan, out, [&](const Plan& part) { return commands(part, out, code); }, {}, "begin a new gate to judge",
      printed_as(flags.json, flags.markdown, false));
  const bool tells_nothing =
      flags.bisects && status == 1 && read_document<GateResult>(out / "gate.json").verdict == GateOutcome::failed;
  return tells_nothing ? 3 : status;
}

// A commit that cannot be prepared or does not run is none that is slower: no answer.
int gate_for_bisection(const GateFlags& flags) {
  if (flags.command.empty()) throw std::invalid_argument("--bisect needs a command: --base COMMIT -- COMMAND");
  try {
    return gate_of_commits(flags);
  } catch (const std::logic_error&) {
    throw;
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    throw harness::Unfit(error.what());
  }
}

// The same with one line of JSON, also where nothing could be measured.
int experiment_of_commits(const GateFlags& flags) {
  try {
    return gate_of_commits(flags);
  } catch (const harness::Unfit& error) {
    tell_no_run(flags, harness::Decision::undecided, error.what());
    throw;
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error& error) {  // head's
    tell_no_run(flags, harness::Decision::discard, error.what());
    throw;
  }
}

}  // namespace

void add_gate(CommandLine& line) {
  Command& command = line.add(
      {.name = "gate",
       .about =
           "Runs two programs in turn, or one program against a stored baseline of this device, each run in a fresh "
           "process. Ends with one verdict. Exit status: 0 the same or faster; 1 slower, different losses, or head "
           "failed; 3 inconclusive, or base failed.\n"
           "With `-- COMMAND` it compares two commits of any program, each in a git worktree of its own, by the steps "
           "that "
           "the command prints.\n"
           "Leaves a folder with the records, gate.json, summary.md, a page, gate.html, and its charts; "
           "with --save also a baseline. docs/power.md says how small a slowdown it finds and how often it is wrong.",
       .examples = {{"ladder gate --base old/bundle --head new/bundle", "Two bundles side by side."},
                    {"ladder gate --calibrate --save",
                     "How small a difference this machine can show: its noise floor."},
                    {"ladder gate --base origin/main --catch 2 -- python train.py",
                     "Any program's two commits: find a slowdown of 2 % in 95 % of gates."},
                    {"ladder gate --save",
                     "The first time, makes a baseline of this device; later, compares with it."}},
       .common = {"--base", "--head", "--save", "--calibrate", "--ladder", "--rung", "--pairs", "--min-effect", "--out",
                  "--resume", "--json"}});
  auto& flags = command.runs<GateFlags>([&line](const GateFlags& given) {
    GateFlags completed = given;
    const bool is_of_command = !given.command.empty();
    if (given.baselines.empty()) {  // a command's noise belongs to the user, not to the repository that is measured
      completed.baselines = is_of_command ? (files::cache_folder() / "baselines").string() : usual_baselines;
    }
    if (!given.expect.empty() && !is_of_command) {
      throw std::invalid_argument("--expect needs a command: -- python train.py");
    }
    if (!given.expect.empty()) return experiment_of_commits(completed);
    if (given.bisects) return gate_for_bisection(completed);
    if (is_of_command) return gate_of_commits(completed);
    return line.gpt2.gate_of_programs ? line.gpt2.gate_of_programs(completed) : line.other();
  });
  command.heading("What to compare");
  add_text(command, "--base", flags.base,
           "the program as it was: a bundle's folder, or a program; with a command a commit", "PATH");
  add_text(command, "--head", flags.head, "the program as it is now (default: this one; with a command HEAD)", "PATH");
  add_output(command, "--baselines", flags.baselines,
             "folder with baselines by device and recipe: compared with if there is no --base, and where --save "
             "stores (default: results/baselines; of a command: in the cache folder)",
             "FOLDER");
  command.add_flag("--calibrate", flags.calibrate,
                   "--head against itself: how small a difference this machine can show");
  command.add_flag("--save", flags.save,
                   "store the runs if there is no baseline or they are faster; with --calibrate the noise floor");
  add_text(command, "--ladder", flags.ladder, "where the recipes come from (default: same as ablate)", "NAME|FILE");
  add_names(command, "--rung", flags.rungs, "rungs to measure (default: the last that records show)");
  command.heading("Any program's command");
  command.add_option("command", flags.command, "after --: what trains, as on a shell's command line")
      ->type_name("-- COMMAND");
  add_text(command, "--prepare", flags.prepare,
           "what each commit needs once before, for sh, in a Python environment of its own: 'pip install -q -e .'",
           "COMMAND");
  command
      .add_option("--catch", flags.catches,
                  "the slowdown that 95 % of gates are to find: sets --min-effect and --pairs from the noise that "
                  "--calibrate --save has stored")
      ->transform(percentage())
      ->type_name("PERCENT");
  add_number(command, "--for-s,--budget-s", flags.budget_s,
             "with --catch or --expect: the seconds that the runs may take", 1, 1000000);
  add_text(command, "--steps-from", flags.steps_from, "as ladder measure's", "REGEX");
  add_number(command, "--tokens", flags.tokens, "tokens of a step", 1, 1000000000000);
  command.heading("Keep or discard");
  add_text(command, "--expect", flags.expect,
           "faster:1%, or better of a --metric: make pairs until it is clear whether head is that much better. Exit "
           "status: 0 keep, 1 discard, 3 undecided. --pairs is then the most (default 16)",
           "WHAT");
  add_output(command, "--ledger", flags.ledger,
             "file of the experiments that share one error of 5 %; it is made, or goes on", "FILE");
  command.add_flag("--no-look", flags.no_look, "do not compare the first steps in PyTorch");
  add_text(command, "--metric", flags.metric, "as ladder measure's", "METRIC");
  add_choice(command, "--better", flags.better, {"lower", "higher"}, ": which numbers of --metric are good", "WHICH");
  add_text(command, "--until", flags.until, "end each command after so long (300s), with --metric", "SECONDS");
  command.heading("How to compare");
  add_min_effect_flag(command, flags.min_effect, "slowdown");
  add_number(command, "--pairs", flags.pairs,
             "pairs of runs, fresh processes (default 8; 16 to calibrate); 6 can reach a verdict", 6, 1000);
  add_number(command, "--top-up", flags.top_up, "more pairs, once, if those are inconclusive (default: as many again)",
             0, 1000);
  command.add_flag("--blocked", flags.blocked,
                   "make all runs of base before those of head, if one disturbs the other; drift is then not seen");
  add_number(command, "--limit-s", flags.limit_s, "seconds after which a run is stopped (default 900)", 1, 1000000);
  command.add_flag("--bisect", flags.bisects,
                   "for git bisect run: exit status 125, which skips a commit, if there is no answer or head does not "
                   "run; 129, which ends it, for wrong usage");
  command.add_flag("--force", flags.force, "compare even if the circumstances differ, and say so");
  add_wait_flag(command, flags.wait);
  add_workload_flags(command, flags.workload, "the ladder's", "the ladder's");
  command.heading("Where the results go");
  add_output(command, "--out", flags.out, "folder of the gate (default: gates/<ladder>-<time>)", "FOLDER");
  command.add_flag("--resume", flags.resume,
                   "make the runs that the gate in --out lacks; --base and --head must name the same programs again");
  command.add_flag("--json", flags.json, "print the verdict as JSON");
  command.add_flag("--markdown", flags.markdown, "print the verdict and its table for a pull request");
  command.exclude("--json", {"--markdown"});
  command.exclude("--base", {"--calibrate", "--save"});  // what is saved must be faster than what is stored
  for (const char* flag : {"--ledger", "--metric", "--no-look"})
    command.get_option(flag)->needs(command.get_option("--expect"));
  for (const char* flag : {"--better", "--until"}) command.get_option(flag)->needs(command.get_option("--metric"));
  command.exclude("--metric", {"--steps", "--warmup", "--tokens"});
  command.exclude("--expect", {"--catch", "--calibrate", "--save", "--min-effect", "--top-up", "--blocked", "--resume",
                               "--ladder", "--rung", "--baselines", "--bisect"});
  command.exclude("--catch", {"--min-effect", "--pairs", "--top-up", "--calibrate", "--resume"});
  command.exclude("--calibrate", {"--min-effect", "--top-up", "--blocked", "--force"});
  command.callback([&command, &flags] {
    flags.typed = command.typed({"--wait"});
    check_resume(command, {"--base", "--head", "--baselines", "--json", "--markdown", "--wait"}, "gate");
  });
}

}  // namespace cli
