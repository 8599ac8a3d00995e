// `ladder profile`: traces one recipe in this process, or compares two, each traced by a process of its own.
#include "ablations/gpt2/child.h"
#include "ablations/gpt2/gpt2_workload.h"
#include "ablations/gpt2/ladder_file.h"
#include "ablations/gpt2/memory.h"
#include "ablations/gpt2/options.h"
#include "ablations/profile/profile_counters.h"
#include "ablations/profile/rates.h"
#include "ablations/profile/trace_run.h"
#include "ablations/run/study_folder.h"
#include "ablations/techniques/step_table.h"
#include "cli/gpt2/commands.h"
#include "cli/gpt2/request.h"
#include "cli/place.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/gpu/metrics.h"
#include "harness/machine/machine.h"
#include "harness/process/locks.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"
#include "model/precision.h"
#include "study/trace/explain.h"
#include "study/trace/roofline.h"
#include "text/text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace cli {

namespace fs = std::filesystem;
using files::Json;

namespace {

struct ProfileFlags {
  StepFlags step;  // what to profile
  bool trace = false, counters = false, list_metrics = false, json = false;
  bool roofline = false;          // of the trace
  std::vector<std::string> diff;  // one rung, two rungs, or two files with traces
  std::string metrics, chip;
  int64_t max_passes = 16;
  std::string out;

  // --diff names two files of traces, not rungs.
  [[nodiscard]] bool compares_files() const {
    return diff.size() == 2 && diff[0].ends_with(".json") && diff[1].ends_with(".json");
  }
};

// The plan's id distinguishes a folder of --diff from a study's.
constexpr const char* id_of_diff = "profile-";

void write_files(const fs::path& folder, const std::string& name, const TracedRun& traced) {
  fs::create_directories(folder);
  write_document(folder / (name + ".trace.json"), traced.document);
  files::write_file(folder / (name + ".timeline.json"), traced.timeline);
}

// The name in files and the title in tables of what is traced.
std::pair<std::string, std::string> named(const ProfileFlags& flags) {
  const auto both_of = [](const Rung& rung) { return std::pair(name_of(rung), label_of(rung)); };
  if (!flags.step.plan.empty()) {
    const Plan plan = value_from<Plan>(files::read_any_json(flags.step.plan), flags.step.plan);
    return both_of(plan.rungs[planned_run(plan, flags.step).rung]);
  }
  if (flags.step.rung.empty()) return {"recipe", flags.step.recipe.empty() ? "the plain recipe" : flags.step.recipe};
  const Ladder ladder = load_ladder(chosen_ladder(flags.step.ladder));
  const std::vector<Rung> rungs = climb(ladder, harness::this_machine());
  return both_of(rungs[find_rung(rungs, flags.step.rung, "--rung", ladder.name)]);
}

Occupied occupied_by(const ProfileFlags& flags, model::Device device) {
  return occupy({device}, "ladder profile", fs::current_path(), flags.step.wait);
}

int trace(const ProfileFlags& flags) {
  const auto [name, title] = named(flags);
  const fs::path folder = flags.out.empty() ? fs::path("profiles") / name : files::named_folder(flags.out);
  check_can_make(folder);
  const std::vector<std::string> files{name + ".trace.json", name + ".timeline.json"};
  check_draws_over_own(folder, files.front(), "trace", files);
  for (const std::string& file : files) check_not_read("--out", folder / file, inputs_of(flags.step));
  const RunOptions options = run_options(flags.step);
  Occupied devices;
  if (flags.step.plan.empty()) devices = occupied_by(flags, options.recipe.device);  // else the runner has it
  std::optional<Limits> limits;
  if (flags.roofline) {
    // Measured before tracing, which leaves a process slower. The memory settings are the step's.
    prepare_process(options);
    const model::DeterminismScope determinism(options.recipe.deterministic);  // cuBLAS asks at its first product only
    limits = limits_from_rates(options.recipe, measure_rates());
    if (!limits) {
      throw harness::Unfit(
          "--roofline: this machine's rate for the recipe's products could not be measured; leave the flag out");
    }
    reset_peak_memory(options.recipe);  // the rates took gibibytes that no step needs
  }
  TracedRun traced = trace_run(options, title);
  if (limits) {
    const model::Config config = model::with_positions(model::preset(options.model), options.positions);
    const auto costs = step_costs(config, options.recipe, options.B, options.T, options.accumulation);
    const MeasuredMs measured = measured_by_part(traced.document.summary);
    Roofline& result = traced.document.roofline.emplace(roofline(costs, *limits, measured));
    if (const std::string why = refutation_of(result); !why.empty()) {
      const auto& gpu = harness::this_machine().gpu;
      auto published = limits_from_data_sheet(options.recipe, gpu ? gpu->name : "");
      fmt::print(stderr, "warning: {}, so that limit is too low: measure while nothing else runs{}\n", why,
                 published ? "; the data sheet's limits are shown" : "");
      if (published) {
        published->refuted = why;
        result = roofline(costs, *published, measured);
      }
    }
  }
  write_files(folder, name, traced);
  if (flags.json) {
    fmt::print("{}\n", files::ascii_text(json_of(traced.document)));
    return 0;
  }
  fmt::print("{}{}\nFiles:\n{}\n{}    (open it in ui.perfetto.dev)\n", trace_table(traced.document),
             limits ? "\n" + roofline_table(*traced.document.roofline) : "",
             files::printable((folder / (name + ".trace.json")).string()),
             files::printable((folder / (name + ".timeline.json")).string()));
  return 0;
}

// The named rung and the planned one before it, or the two that are named.
std::pair<size_t, size_t> rungs_to_compare(const ProfileFlags& flags, const Plan& plan) {
  std::vector<size_t> named;
  for (const std::string& name : flags.diff) {
    named.push_back(find_rung(plan.rungs, name, "--diff", plan.ladder.name));
    if (const Rung& rung = plan.rungs[named.back()]; rung.status != Rung::Status::planned) {
      throw std::invalid_argument(fmt::format("--diff {}: not measured: {}", name, rung.reason));
    }
  }
  if (named.size() == 2) return {named[0], named[1]};
  for (size_t before = named[0]; before-- > 0;) {
    if (plan.rungs[before].status == Rung::Status::planned) return {before, named[0]};
  }
  throw std::invalid_argument(fmt::format("--diff {}: no rung comes before it here; name two rungs", flags.diff[0]));
}

// Two rungs of a ladder, each traced by a process of its own, as a study's are.
std::pair<TraceDocument, TraceDocument> traced_rungs(const ProfileFlags& flags) {
  Plan plan = make_plan({.workload = flags.step.workload, .ladder = flags.step.ladder, .repeats = 1, .order_seed = 0});
  const auto [first, second] = rungs_to_compare(flags, plan);
  plan.id = id_of_diff + plan.id;
  Plan both = plan;
  both.rungs = {plan.rungs[first], plan.rungs[second]};
  plan.workload.tokens = check_workload(both);
  const fs::path folder = flags.out.empty() ? fs::path("profiles") / fmt::format("{}-{}", name_of(plan.rungs[first]),
                                                                                 name_of(plan.rungs[second]))
                                            : files::named_folder(flags.out);
  if (!fs::exists(folder / "plan.json")) {
    check_may_begin(folder);
  } else if (!open_study(folder).id.starts_with(id_of_diff)) {
    throw std::invalid_argument(
        fmt::format("--out {}: is a study's folder, whose plan must not change; name another", folder.string()));
  }
  check_has_no_links(folder);
  const Occupied devices = occupy({recipe_of(plan.rungs[first]).device, recipe_of(plan.rungs[second]).device},
                                  "ladder profile", fs::current_path(), flags.step.wait);
  fs::create_directories(folder);
  const harness::FolderLock lock(folder);
  write_document(folder / "plan.json", plan);
  const auto traced = [&](size_t rung) {
    const Programs programs{.ladder = fmt::format("/proc/{}/exe", ::getpid()), .python = {}};
    if (!trace_rung(plan, folder, rung, programs).succeeded()) {
      const std::string name = name_of(plan.rungs[rung]);
      throw std::runtime_error(fmt::format("--diff: {} could not be traced; its process printed: {}", name,
                                           (folder / "logs" / (name + ".trace.log")).string()));
    }
    return read_document<TraceDocument>(trace_file(folder, plan.rungs[rung]));
  };
  TraceDocument before = traced(first);
  return {std::move(before), traced(second)};
}

std::pair<TraceDocument, TraceDocument> traces_in_files(const ProfileFlags& flags) {
  TraceDocument before = read_document<TraceDocument>(flags.diff[0]);
  return {std::move(before), read_document<TraceDocument>(flags.diff[1])};
}

int diff(const ProfileFlags& flags) {
  const auto [before, after] = flags.compares_files() ? traces_in_files(flags) : traced_rungs(flags);
  const Explanation explanation = explain(before, after);
  fmt::print("{}\n", flags.json ? files::ascii_text(to_json(explanation)) : explanation_table(explanation));
  return explanation.totals.empty() ? 3 : 0;  // not usable
}

int show_metrics(const ProfileFlags& flags, const std::vector<std::string>& metrics) {
  const MetricsList list = list_metrics(flags.chip, metrics);
  fmt::print("{}", flags.json ? files::ascii_text(to_json(list)) + "\n" : metrics_table(list));
  return 0;
}

int counters(const ProfileFlags& flags, const std::vector<std::string>& metrics) {
  if (!harness::this_machine().gpu) {
    throw harness::Unfit("--counters: needs a GPU: " + harness::this_machine().no_gpu_reason);
  }
  if (flags.step.workload.steps) {
    throw std::invalid_argument("--steps: --counters counts one step for each pass that the metrics need");
  }
  if (flags.step.recipe.empty() && flags.step.rung.empty()) {
    throw std::invalid_argument("profile --counters: needs --rung or --recipe to name the step");
  }
  if (!flags.out.empty()) check_can_write("--out", flags.out);
  check_not_read("--out", flags.out, inputs_of(flags.step));
  const RunOptions options = run_options(flags.step);
  const Occupied devices = occupied_by(flags, options.recipe.device);
  const CountersDocument document =
      counters_document(options, count_step(options, metrics, flags.max_passes,
                                            [](const std::string& plan) { fmt::print(stderr, "{}\n", plan); }));
  const Json json = json_of(document);
  if (!flags.out.empty()) write_document(flags.out, document, files::Links::followed);
  fmt::print("{}\n", flags.json ? files::ascii_text(json) : counters_table(document));
  return 0;
}

int profile(const ProfileFlags& flags) {
  if (!flags.step.plan.empty()) harness::die_with_parent();  // the runner's child (trace_rung)
  std::vector<std::string> metrics;
  if (!flags.metrics.empty()) metrics = list_of(flags.metrics, "--metrics " + flags.metrics);
  if (flags.list_metrics) return show_metrics(flags, metrics);
  if (flags.counters) return counters(flags, metrics);
  if (!metrics.empty()) throw std::invalid_argument("--metrics: needs --counters or --list-metrics");
  if (!flags.diff.empty()) return diff(flags);
  if (flags.trace) return trace(flags);
  throw std::invalid_argument("profile: needs one of --trace, --diff, --counters and --list-metrics");
}

const Words profile_words{
    .name = "profile",
    .about =
        "Records what a step consists of (--trace), counts what the hardware did in it (--counters), or explains "
        "one rung against another (--diff). Tracing and counting slow a process down, so each is a process of its "
        "own, and its times are never a rung's.\n"
        "A trace leaves a folder with a summary (JSON) and a timeline that opens in Perfetto "
        "(https://ui.perfetto.dev); counters leave nothing unless --out names a file.",
    .examples = {{"ladder profile --trace --rung flash",
                  "Where the time of a step goes: phases, parts of the model, operations."},
                 {"ladder profile --trace --roofline --rung flash",
                  "The same, and how far each part is from what this machine can do."},
                 {"ladder profile --diff flash",
                  "That rung against the one before it: which operations went, came, shrank, grew."},
                 {"ladder profile --counters --rung flash", "Memory traffic and tensor pipes of a step, on a GPU."},
                 {"ladder profile --list-metrics --chip GH100", "What a GPU can count; needs no GPU."}},
    .common = {"--trace", "--diff", "--counters", "--roofline", "--rung", "--ladder", "--batch", "--context", "--out",
               "--json"}};

}  // namespace

void add_profile(CommandLine& line) {
  Command& command = line.add(profile_words);
  auto& flags = command.runs<ProfileFlags>(profile);
  command.heading("What to find out (one of these)");
  command.add_flag("--trace", flags.trace, "what runs when: a summary, a timeline for Perfetto");
  command
      .add_option("--diff", flags.diff, "explain a rung against the one before it, two rungs, or two files of --trace")
      ->type_name("RUNG|FILE [RUNG|FILE]")
      ->expected(1, 2);
  command.add_flag("--counters", flags.counters,
                   "hardware counters of a step: memory traffic, activity of SMs and tensor pipes");
  command.add_flag("--list-metrics", flags.list_metrics,
                   "list what a chip can count; with --metrics: how many passes those need");
  command.exclude("--trace", {"--diff", "--counters", "--list-metrics"});
  command.exclude("--diff", {"--counters", "--list-metrics"});
  command.exclude("--counters", {"--list-metrics"});
  command.heading("Details");
  command.add_flag("--roofline", flags.roofline, "with --trace: how far each part is from what this machine can do")
      ->needs("--trace");
  add_names(command, "--metrics", flags.metrics, "metrics to count (default: those that fit into one pass)");
  add_number(command, "--max-passes", flags.max_passes,
             "most steps to count, one for each pass of the metrics (default 16)", 1, 1000)
      ->needs("--counters");
  add_text(command, "--chip", flags.chip, "GH100, GA100, ... (default: the GPU's)", "NAME")->needs("--list-metrics");
  command.heading("Which step");
  add_text(command, "--recipe", flags.step.recipe, "JSON file, or JSON: '{\"device\": \"cuda\"}'", "FILE|JSON");
  add_rung_flag(command, flags.step.rung);
  add_text(command, "--plan", flags.step.plan, "", "FILE")->group("");
  add_text(command, "--run", flags.step.run_id, "", "ID")->group("");
  add_text(command, "--ladder", flags.step.ladder, "where rungs are looked up (default: same as ablate)", "NAME|FILE");
  add_wait_flag(command, flags.step.wait);
  add_workload_flags(command, flags.step.workload, "gpt2-124m, or the ladder's",
                     "the ladder's, else 1 x 256 tokens, 5 + 10 steps");
  add_deterministic_flag(command, flags.step.workload);
  command.heading("Where the results go");
  add_output(command, "--out", flags.out,
             "folder of a trace's files (default: profiles/NAME), or a file for the counters", "PATH");
  command.add_flag("--json", flags.json, "print the result as JSON");
  command.exclude("--recipe", {"--rung", "--diff", "--plan"});
  command.exclude("--rung", {"--diff", "--plan"});
  const std::vector<std::string> of_steps{"--model", "--batch",  "--context", "--positions",     "--accumulation",
                                          "--steps", "--warmup", "--seed",    "--threads",       "--data",
                                          "--vocab", "--ladder", "--out",     "--deterministic", "--random-windows"};
  command.exclude("--list-metrics", of_steps);
  command.exclude("--list-metrics", {"--recipe", "--rung"});
  command.callback([&command, &flags, of_steps] {
    if (command.count("--ladder") > 0 && flags.step.rung.empty() && flags.diff.empty()) {
      throw std::invalid_argument("--ladder: needs --rung or --diff");
    }
    for (const std::string& flag : of_steps) {
      if (!flags.compares_files() || command.count(flag) == 0) continue;
      throw std::invalid_argument(flag + ": cannot be combined with two files of --diff, which are only compared");
    }
  });
}

}  // namespace cli
