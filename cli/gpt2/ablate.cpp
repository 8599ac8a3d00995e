// `ladder ablate`: begins or resumes a study.
#include "ablations/gpt2/child.h"
#include "ablations/gpt2/ladder_file.h"
#include "ablations/gpt2/memory.h"
#include "ablations/plan/make_plan.h"
#include "ablations/plan/shard.h"
#include "ablations/profile/estimate.h"
#include "ablations/run/study_folder.h"
#include "cli/draw.h"
#include "cli/gpt2/commands.h"
#include "cli/gpt2/peer_python.h"
#include "cli/gpt2/request.h"
#include "cli/gpt2/timed_here.h"
#include "cli/gpt2/training_request.h"
#include "cli/place.h"
#include "cli/take_looks.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/machine/machine.h"
#include "harness/process/locks.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"
#include "plots/again.h"
#include "study/archive/seal.h"
#include "text/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using files::printable;

namespace {

struct AblateFlags : StudyFlags {
  std::string out;
  std::vector<std::string> peer_pythons;
  std::optional<int64_t> budget_s;
  bool resume = false, json = false, verbose = false;
  bool force = false;                  // start although a run is expected to fail
  bool dry_run = false;                // only print what would be run
  bool explain = false;                // trace every rung, too, and say what changed
  bool look = false, no_look = false;  // at the first steps of rungs: on a GPU, too; at none
};

struct OpenedStudy {
  Plan plan;
  fs::path folder;
  bool is_new;         // its folder does not exist yet
  bool grows = false;  // from a quick look to the whole ladder
};

OpenedStudy resumed_study(const AblateFlags& flags) {
  const fs::path out = files::named_folder(flags.out);
  Plan plan = open_study(out);
  if (plan.commands) {
    throw std::invalid_argument(fmt::format("{}: is a study of commands; resume it with: {}", flags.out,
                                            resume_command(plan.typed.value_or(TypedLine()), flags.out)));
  }
  if (plan.gate) {
    throw std::invalid_argument(
        fmt::format("{}: is a gate, not a study; resume it with: ladder gate --resume --out {}", flags.out, flags.out));
  }
  if (flags.quick && !plan.quick) {
    throw std::invalid_argument(fmt::format(
        "--quick: the study in {} is of the whole ladder; --resume without --quick completes it", flags.out));
  }
  const bool grows = plan.quick && !flags.quick;
  if (grows) plan = whole_plan(plan);
  check_reads_elsewhere(out, inputs_of(plan));
  (void)check_workload(plan);
  check_not_edited(plan, out);
  return {std::move(plan), out, /*is_new=*/false, grows};
}

// Throws harness::Unfit if a run is expected to fail.
void check_estimate(const Plan& plan, const Estimate& estimate) {
  const harness::Machine& machine = harness::this_machine();
  const std::string why = reason_against_running_here(plan, estimate);
  if (why.empty()) return;
  const std::vector<std::string> names = ladder_names();
  const bool has_own = !machine.gpu && std::ranges::find(names, plan.ladder.name + "-cpu") != names.end();
  const Ladder fitting = load_ladder(has_own ? plan.ladder.name + "-cpu" : chosen_ladder(""));
  const bool fits_better =
      has_own || (plan.ladder.name != fitting.name && plan.workload.model == fitting.workload.model &&
                  plan.workload.B * plan.workload.T > fitting.workload.B * fitting.workload.T);
  const std::string instead =
      fits_better ? fmt::format("this machine's ladder is {0}: ladder ablate --ladder {0}", fitting.name)
                  : "fewer --steps, a smaller --batch, --context or --model take less";
  throw harness::Unfit(fmt::format(
      "ladder {}{}; {}; --force starts anyway", plan.ladder.name,
      has_own ? " needs a GPU: " + machine.no_gpu_reason
              : fmt::format(" ({} in all, estimated): {}", estimate_text(estimate, runs_to_make(plan)), why),
      instead));
}

fs::path folder_for(const AblateFlags& flags, const Plan& plan) {
  return flags.out.empty() ? default_studies() / plan.id : files::named_folder(flags.out);
}

// Prints the plan, or what is left of one. Throws as a study does that begins or goes on.
int dry_run(const AblateFlags& flags) {
  if (flags.resume) {
    const OpenedStudy opened = resumed_study(flags);
    std::vector<PlannedRun> runs = runs_to_make(opened.plan);
    std::erase_if(runs,
                  [&](const PlannedRun& run) { return good_record(opened.folder, opened.plan, run).has_value(); });
    const Estimate estimate = estimate_of(opened.plan, speeds_for(opened.plan));
    fmt::print("{} left: {}\n", number_of(std::ssize(runs), "run"), estimate_text(estimate, runs));
    return 0;
  }
  const Prospect prospect = prospect_of(flags);
  (void)check_workload(prospect.plan);
  fmt::print("{}", rungs_text(prospect));
  const fs::path out = folder_for(flags, prospect.plan);
  check_may_begin(out);
  std::fflush(stdout);
  if (!flags.force) check_estimate(prospect.plan, prospect.estimate);
  fmt::print("It would make {} and write them into {}\n", number_of(std::ssize(prospect.plan.runs), "run"),
             printable(out.string()));
  return 0;
}

OpenedStudy new_study(const AblateFlags& flags) {
  // Refuses an impossible study before anything is timed. The timed plan has the listed plan's rungs or fewer.
  const Plan listed = make_plan(flags, OwnAre::as_listed);
  const std::string tokens = check_workload(listed);
  if (flags.quick && !flags.out.empty()) check_may_begin(files::named_folder(flags.out));
  if (flags.quick && !flags.force) wait_for_quiet();
  if (!flags.force) check_estimate(listed, estimate_of(listed, speeds_for(listed)));
  Plan plan = make_plan(flags);
  plan.workload.tokens = tokens;
  const fs::path out = folder_for(flags, plan);
  if (flags.ladder.empty()) {
    fmt::print(
        stderr, "ladder {}: {}\n", plan.ladder.name,
        harness::this_machine().gpu
            ? fmt::format("there is a CUDA device, {}{}", harness::this_machine().gpu->name,
                          plan.ladder.name == "gpt2" ? "" : ", without bfloat16")
            : harness::this_machine().no_gpu_reason + ", so this measures what the CPU can do; CPU figures only");
  }
  // Slurm starts a shard again after a pre-emption. Its plan is the same, so it is resumed.
  const bool resumes = plan.shard && fs::exists(out / "plan.json") && json_of(open_study(out)) == json_of(plan);
  if (resumes) {
    check_reads_elsewhere(out, inputs_of(plan));
    check_not_edited(plan, out);
  } else {
    check_may_begin(out);
  }
  return {std::move(plan), out, !resumes};
}

// Prints a table and draws a page, or prints JSON. Returns exit status 1 if a rung failed, was not proven or is void.
int show(const Plan& plan, const StudyFiles& study, const fs::path& folder, const AblateFlags& flags) {
  const Drawn drawn = plan.shard || flags.json ? Drawn{} : try_draw_report(study, folder);
  int status = show_study(study.study, printed_as(flags.json, false, flags.verbose));
  if (plan.shard && status == 3) status = 0;  // a part need not be usable by itself
  if (flags.json) return status;
  if (plan.shard) {
    fmt::print("This is shard {} of {}; when all are done, join them with: ladder merge SHARD... --out FOLDER\n",
               plan.shard->index, plan.shard->count);
    return status;
  }
  fmt::print("{}", drawn.said);
  if (plan.quick) fmt::print("The other rungs: ladder ablate --resume --out {}\n", plots::for_shell(folder.string()));
  std::fflush(stdout);
  if (drawn.exit_status != 0) {
    fmt::print(stderr, "the study is saved; draw it, here or wherever its folder is copied, with: ladder report {}\n",
               printable(folder.string()));
  }
  return status;
}

// The first steps of every rung of ours that has a reference, and of the references.
void look_at_rungs(const Plan& plan, const fs::path& out, const Programs& programs, bool on_gpu) {
  const harness::FolderLock lock(out);
  check_has_no_links(out);
  check_records_are_of(plan, out, Unnamed::refused);
  check_goes_on_here(plan, out, environment_here());
  harness::catch_interrupts();
  std::set<const Rung*> wanted;
  const auto can_be = [on_gpu](const Rung& rung) {
    return rung.status == Rung::Status::planned && rung.peer.empty() &&
           (on_gpu || device_of(rung.recipe) == DeviceKind::cpu) &&
           recipe_of(rung).data_parallel == model::Parallel::none;
  };
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const auto reference = reference_of(plan, i);
    if (!reference || reference == i || !can_be(plan.rungs[i]) || !can_be(plan.rungs[*reference])) continue;
    wanted.insert({&plan.rungs[*reference], &plan.rungs[i]});
  }
  take_looks(
      plan, out, [&](const Rung& rung) { return wanted.contains(&rung); },
      [&](size_t rung, const fs::path& file, const std::string& rounding) {
        return look_at_rung(plan, out, rung, programs, file, rounding);
      });
}

int measure_ladder(const AblateFlags& given) {
  AblateFlags flags = given;
  const std::vector<PeerPython> pythons = peer_pythons(flags.peer_pythons);
  for (const PeerPython& python : pythons) flags.design.peer_torches.push_back(python.torch);
  if (flags.resume) check_are_of(open_study(files::named_folder(flags.out)), pythons, flags.out);
  if (flags.dry_run) return dry_run(flags);
  const auto [plan, out, is_new, grows] = flags.resume ? resumed_study(flags) : new_study(flags);
  if (flags.explain && plan.mode != Mode::cumulative) {
    throw std::invalid_argument(
        "--explain: needs --mode cumulative, because it compares each rung with the one before it; "
        "ladder profile --diff explains any two rungs");
  }
  const std::vector<PlannedRun> runs = runs_to_make(plan);
  Occupied devices = occupy(devices_of(plan, runs), "ladder ablate", out, flags.wait);
  const Estimate estimate = estimate_of(plan, speeds_for(plan));
  if (is_new) {
    create_study(plan, out);
    for (const std::string& line : harness::disturbances()) fmt::print(stderr, "note: {}\n", line);
    fmt::print(stderr, "{} of {} into {} (order seed {}): {} if nothing else runs\n",
               number_of(std::ssize(runs), "run"), number_of(plan.warmup_steps + plan.timed_steps, "step"),
               printable(out.string()), plan.order_seed, estimate_text(estimate, runs));
  }
  if (grows) {
    check_goes_on_here(plan, out, environment_here());
    const harness::FolderLock lock(out);
    check_records_are_of(plan, out, Unnamed::refused);
    write_document(out / "plan.json", plan);
    fmt::print(stderr, "the quick look continues as the whole ladder: {} in all if nothing else runs\n",
               estimate_text(estimate, runs));
  }
  if (plan.shard && runs.empty()) {
    fmt::print(flags.json ? stderr : stdout, "shard {}/{} has nothing to do: the plan has {} repeat{}\n",
               plan.shard->index, plan.shard->count, plan.repeats, plan.repeats == 1 ? "" : "s");
    if (flags.json) (void)show_study(computed_study(plan, out).study, Printed::json);
    return 0;
  }
  // A build may replace the file while the study runs, so the path is no use.
  Programs programs{.ladder = fmt::format("/proc/{}/exe", ::getpid()), .python = python()};
  for (const PeerPython& python : pythons) programs.peers[python.torch] = python.program;
  std::string resume_command = fmt::format("ladder ablate --resume{}{} --out {}", plan.quick ? " --quick" : "",
                                           flags.explain ? " --explain" : "", printable(out.string()));
  if (flags.look) resume_command += " --look";
  if (flags.no_look) resume_command += " --no-look";
  for (const std::string& name : flags.peer_pythons) resume_command += " --peer-python " + plots::for_shell(name);
  const auto interrupted = [&] {
    fmt::print(stderr, "completed runs are saved; resume with: {}\n", resume_command);
    return 130;
  };
  if (!flags.no_look && !flags.budget_s && !plan.shard && !plan.quick) look_at_rungs(plan, out, programs, flags.look);
  if (harness::interrupted()) return interrupted();
  const auto begun = std::chrono::steady_clock::now();
  const Outcome outcome = carry_out(plan, out, children(plan, out, programs),
                                    static_cast<double>(flags.budget_s.value_or(0)), estimate.run_s);
  if (outcome.interrupted) {
    // A run that was made again must not look like an edited record.
    if (fs::exists(out / "study.json")) write_document(out / "study.json", computed_study(plan, out).study);
    return interrupted();
  }
  const bool explains = flags.explain || (harness::this_machine().gpu && !flags.budget_s && !plan.shard && !plan.quick);
  const auto until =
      flags.budget_s ? begun + std::chrono::seconds(*flags.budget_s) : std::chrono::steady_clock::time_point::max();
  const bool traced = !explains || plan.mode != Mode::cumulative || trace_rungs(plan, out, programs, until);
  devices.clear();
  const StudyFiles study = computed_study(plan, out);
  write_document(out / "study.json", study.study);
  if (!traced) return interrupted();
  const int status = show(plan, study, out, flags);
  if (outcome.not_made + outcome.not_made_again > 0) {
    std::vector<std::string> left;
    const auto add = [&](size_t count, const char* which, const char* again) {
      if (count == 0) return;
      left.push_back(fmt::format("{} {}run{} not made{}", count, which, count == 1 ? " was" : "s were", again));
    };
    add(outcome.not_made, "", "");
    add(outcome.not_made_again, "disturbed ", " again");
    std::fflush(stdout);
    fmt::print(stderr, "{}: the budget of {} s is spent; resume with: {}\n", fmt::join(left, ", "),
               flags.budget_s.value_or(0), resume_command);
  }
  return outcome.some_failed ? 1 : status;
}

const Words ablate_words{
    .name = "ablate",
    .about =
        "Switches on the optimizations of a ladder one after another, and measures each rung in fresh processes in "
        "interleaved order. A rung has no number if its optimization was not seen to be on, or if its first steps or "
        "its losses are another training's. Without flags it measures the ladder that fits this machine.\n"
        "Leaves a folder with the plan, a record of each run, study.json with every derived number, and the "
        "report with its charts. The exit status is 1 if a rung failed. --resume continues a study that was "
        "interrupted.",
    .examples = {{"ladder ablate --ladder tiny", "All of it in seconds, on a two-layer model."},
                 {"ladder ablate --quick --out study", "A first look: the first and the last rung."},
                 {"ladder ablate --resume --out study", "Makes the runs that are missing."},
                 {"ladder ablate --dry-run", "What would be run, how long it would take, and where it would write."},
                 {"ladder ablate --repeats 8 --out study", "More runs of each rung, for narrower intervals."},
                 {"ladder ablate --mode leave-one-out", "What is lost without each optimization?"},
                 {"ladder ablate --sweep batch=1,2,4 --rung bf16,flash",
                  "Speed and memory of two rungs over batch sizes."},
                 {"ladder ablate --ladder data-pipeline-cpu --repeat-to 500MB --cold-cache",
                  "What the input costs, from a file that is not in the page cache."},
                 {"ladder ablate --with-peer pytorch --peer-modes eager,compile",
                  "The same work in plain PyTorch, its runs between ours."},
                 {"ladder ablate --with-peer pytorch --peer-python ~/new/bin/python",
                  "The same in a PyTorch of your own."}},
    .common = {"--ladder", "--quick", "--repeats", "--dry-run", "--mode", "--with-peer", "--batch", "--context",
               "--data", "--out", "--resume", "--json"}};

void add_flags_of_rungs(Command& command, AblateFlags& flags) {
  command.heading("What to measure");
  add_choice(command, "--ladder", flags.ladder, ladder_names(),
             ", or a file (default: gpt2 with a GPU, gpt2-cpu without)", "NAME|FILE");
  add_choice(command, "--mode", flags.design.mode, mode_names(), " (default: cumulative)", "MODE");
  add_names(command, "--factors", flags.design.factors,
            "optimizations of --mode factorial (default: all, if at most 4)");
  add_text(command, "--sweep", flags.design.sweep,
           "batch=16,32,64, context=512,1024 or accumulation=1,2,4: speed and memory over sizes", "WHAT=N,N");
  add_names(command, "--rung", flags.design.rungs,
            "rungs to measure with --sweep (default: the last); the first is what the others are compared with");
  add_text(command, "--with-peer", flags.design.peer, "pytorch: the same work in plain PyTorch, its runs between ours",
           "PEER");
  add_names(command, "--peer-modes", flags.design.peer_modes,
            "eager,compile,max-autotune,cuda-graphs,fp8 (default: all that the device has, but fp8)");
  add_texts(
      command, "--peer-python", flags.peer_pythons,
      "with --with-peer: a Python with PyTorch of any version, by path or name; give it again for a second version "
      "beside the first (default: the Python of this program)",
      "PYTHON");
  add_names(command, "--peer-rung", flags.design.peer_rungs,
            "with --with-peer: rungs to compare with PyTorch (default: the last)");
  command.add_flag(
      "--explain", flags.explain,
      "also trace every rung, in a process of its own, and say what each one changed (default: on a GPU, without "
      "--budget-s or --quick)");
  command.add_flag("--look", flags.look,
                   "look at the first steps of rungs on a GPU, too, by which another training is found (default: of "
                   "those on a CPU, in untimed runs; not with --budget-s, --quick or --shard)");
  command.add_flag("--no-look", flags.no_look, "do not look at any");
  command.exclude("--look", {"--no-look"});
}

void add_flags_of_effort(Command& command, AblateFlags& flags) {
  command.heading("How often and how long");
  command.add_flag("--quick", flags.quick, "a first look; --resume measures the rest of the ladder");
  add_number(command, "--repeats", flags.repeats, "runs of each rung (default: the ladder's)", 1, 1000);
  add_number(command, "--order-seed", flags.order_seed,
             "seed of the interleaved order (default: a new one, recorded; with --shard: 1)", 0, INT64_MAX);
  add_number(command, "--limit-s", flags.limit_s, "seconds after which a run is stopped (default 900)", 1, 1000000);
  add_number(command, "--budget-s", flags.budget_s,
             "seconds after which no run and no trace is started; --resume makes the rest (default: no budget)", 1,
             1000000);
  command.add_flag("-n,--dry-run", flags.dry_run, "print the plan, its time and memory; run nothing");
  command.add_flag(
      "--force", flags.force,
      "start although a run is expected to exceed --limit-s or the memory (default: refuse, exit status 3)");
  add_wait_flag(command, flags.wait);
}

void add_flags_of_results(Command& command, AblateFlags& flags) {
  command.heading(results_heading);
  add_output(command, "--out", flags.out, "folder of the study (default: studies/<ladder>-<time>)", "FOLDER");
  command.add_flag("-v,--verbose", flags.verbose,
                   "also print what changed from rung to rung, and how numbers are computed");
  command.add_flag("--resume", flags.resume,
                   "make the runs that the study in --out lacks; after a quick look, those of the whole ladder");
  add_text(command, "--shard", flags.shard,
           "measure only every n-th repeat, from the i-th on, into --out: for n machines; ladder merge joins them",
           "i/n");
  command.add_flag("--json", flags.json, "print the study as JSON, draw nothing");
}

void check_flags(const Command& command, AblateFlags& flags) {
  check_resume(
      command,
      {"--json", "--budget-s", "--explain", "--wait", "--quick", "--dry-run", "--peer-python", "--look", "--no-look"},
      "study");
  if (!flags.peer_pythons.empty() && flags.design.peer.empty() && !flags.resume) {
    throw std::invalid_argument("--peer-python needs --with-peer pytorch");
  }
  if (flags.out.empty() && !flags.shard.empty()) {
    throw std::invalid_argument("--shard needs --out, a folder of its own for each shard");
  }
  flags.typed =
      command.typed({"--budget-s", "--dry-run", "--explain", "--force", "--limit-s", "--look", "--no-look", "--wait"});
}

}  // namespace

void add_ablate(CommandLine& line) {
  Command& command = line.add(ablate_words);
  auto& flags = command.runs<AblateFlags>(measure_ladder);
  add_flags_of_rungs(command, flags);
  add_flags_of_effort(command, flags);
  add_workload_flags(command, flags.workload, "the ladder's", "the ladder's");
  add_data_flags(command, flags.workload);
  add_deterministic_flag(command, flags.workload);
  add_flags_of_results(command, flags);
  command.exclude("--explain", {"--shard"});
  command.exclude("--quick", {"--repeats", "--shard", "--sweep", "--with-peer", "--factors", "--mode"});
  command.get_option("--steps")->description(
      "timed steps of a run (default: the ladder's; on a GPU up to eight times as many, until they last 1.5 s)");
  command.callback([&command, &flags] { check_flags(command, flags); });
}

}  // namespace cli
