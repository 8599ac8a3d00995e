// `ladder profile`: traces one recipe in this process, or compares the traces of two, each made by a process of its
// own.
#include "ablations/commands.h"
#include "ablations/explain.h"
#include "ablations/ladder.h"
#include "ablations/profile_counters.h"
#include "ablations/rates.h"
#include "ablations/roofline.h"
#include "ablations/trace_run.h"
#include "files/files.h"
#include "harness/environment.h"
#include "harness/metrics.h"
#include "harness/process.h"
#include "harness/unfit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using harness::Json;

namespace {

std::string ladder_of(const ProfileFlags& flags) {
  return flags.run.ladder.empty() ? ladder_for_this_machine() : flags.run.ladder;
}

std::vector<Rung> rungs_here(const ProfileFlags& flags) {
  std::vector<Rung> rungs = climb(load_ladder(ladder_of(flags)), harness::this_machine());
  std::erase_if(rungs, [](const Rung& rung) { return rung.status == Rung::Status::not_applicable; });
  return rungs;
}

std::string title_of(const ProfileFlags& flags) {
  if (flags.run.rung.empty()) return flags.run.recipe.empty() ? "the plain recipe" : flags.run.recipe;
  for (const Rung& rung : rungs_here(flags)) {
    if (name_of(rung) == flags.run.rung) return (rung.optimization.empty() ? "" : "+ ") + rung.title;
  }
  return flags.run.rung;
}

void write_files(const fs::path& folder, const std::string& name, const TracedRun& traced) {
  fs::create_directories(folder);
  harness::write_json(folder / (name + ".trace.json"), traced.document, "trace");
  files::write_file(folder / (name + ".timeline.json"), traced.timeline);
}

// What is traced: its name in files, its title in tables.
std::pair<std::string, std::string> named(const ProfileFlags& flags) {
  if (flags.run.plan.empty()) return {flags.run.rung.empty() ? "recipe" : flags.run.rung, title_of(flags)};
  const Plan plan = plan_from_json(harness::read_json(flags.run.plan, "plan"), flags.run.plan);
  const auto run = std::ranges::find(plan.runs, flags.run.run_id, &PlannedRun::id);
  if (run == plan.runs.end()) {
    throw std::invalid_argument(fmt::format("{}: no run \"{}\"", flags.run.plan, flags.run.run_id));
  }
  const Rung& rung = plan.rungs[run->rung];
  return {name_of(rung), (rung.optimization.empty() ? "" : "+ ") + rung.title};
}

int trace(const ProfileFlags& flags) {
  const RunOptions options = run_options(flags.run);
  const auto [name, title] = named(flags);
  const fs::path folder = flags.out.empty() ? fs::path("profiles") / name : fs::path(flags.out);
  TracedRun traced = trace_run(options, title);
  std::string distances;
  if (flags.roofline) {
    const auto limits = limits_from_rates(options.recipe, measure_rates());
    if (!limits) throw std::runtime_error("--roofline: this machine's rate for such products could not be measured");
    const model::Config config = model::with_positions(model::preset(options.model), options.positions);
    const Roofline roof =
        roofline(model::step_costs(config, options.recipe, options.B, options.T, options.accumulation), *limits,
                 measured_by_part(traced.document.at("summary")));
    traced.document["roofline"] = to_json(roof);
    distances = "\n" + roofline_table(roof);
  }
  write_files(folder, name, traced);
  if (flags.json) {
    fmt::print("{}\n", traced.document.dump(1));
    return 0;
  }
  fmt::print("{}{}\nFiles:\n{}\n{}    (open it in ui.perfetto.dev)\n", trace_table(traced.document), distances,
             (folder / (name + ".trace.json")).string(), (folder / (name + ".timeline.json")).string());
  return 0;
}

// A trace of one rung, by a process of its own.
Json traced_by_child(const ProfileFlags& flags, const std::string& rung, const fs::path& folder) {
  const WorkloadFlags& w = flags.run.workload;
  std::vector<std::string> argv{fmt::format("/proc/{}/exe", ::getpid()),
                                "profile",
                                "--trace",
                                "--ladder",
                                ladder_of(flags),
                                "--rung",
                                rung,
                                "--out",
                                folder.string()};
  const auto add = [&](const char* flag, int64_t value, int64_t least) {
    if (value >= least) argv.insert(argv.end(), {flag, std::to_string(value)});
  };
  const auto add_text = [&](const char* flag, const std::string& value) {
    if (!value.empty()) argv.insert(argv.end(), {flag, fs::exists(value) ? fs::absolute(value).string() : value});
  };
  add_text("--model", w.model);
  add("--batch", w.B, 1);
  add("--context", w.T, 1);
  add("--accumulation", w.accumulation, 1);
  add("--positions", w.positions, 1);
  add("--steps", w.steps, 1);
  add("--warmup", w.warmup, 0);
  add("--seed", w.seed, 0);
  add("--threads", w.threads, 1);
  add_text("--data", w.data);
  add_text("--vocab", w.vocabulary);
  fs::create_directories(folder);
  const fs::path log = folder / (rung + ".log");
  fmt::print(stderr, "tracing {} ...\n", rung);
  constexpr double limit_s = 900;
  const auto child = harness::run_child({.argv = argv, .log = log, .limit_s = limit_s});
  if (!child.succeeded()) {
    throw std::runtime_error(fmt::format("the trace of {} failed: {}\n{}", rung, child.describe(limit_s),
                                         files::read_file(log, size_t{1} << 20)));
  }
  fs::remove(log);
  return harness::read_json(folder / (rung + ".trace.json"), "trace");
}

// The rung before the named one, and it; or the two that are named.
std::pair<std::string, std::string> rungs_to_compare(const ProfileFlags& flags) {
  std::vector<std::string> names;
  for (const Rung& rung : rungs_here(flags)) names.push_back(name_of(rung));
  for (const std::string& asked : flags.diff) {
    if (std::ranges::find(names, asked) == names.end()) {
      throw std::invalid_argument(
          fmt::format("--diff {}: ladder {} has here {}", asked, ladder_of(flags), fmt::join(names, ", ")));
    }
  }
  if (flags.diff.size() == 2) return {flags.diff[0], flags.diff[1]};
  const auto found = std::ranges::find(names, flags.diff[0]);
  if (found == names.begin()) {
    throw std::invalid_argument(fmt::format("--diff {}: it is the first rung here; name two", flags.diff[0]));
  }
  return {*(found - 1), *found};
}

int diff(const ProfileFlags& flags) {
  Json before, after;
  const bool files_given =
      flags.diff.size() == 2 && flags.diff[0].ends_with(".json") && flags.diff[1].ends_with(".json");
  if (files_given) {
    before = harness::read_json(flags.diff[0], "trace");
    after = harness::read_json(flags.diff[1], "trace");
  } else {
    const auto [first, second] = rungs_to_compare(flags);
    const fs::path folder =
        flags.out.empty() ? fs::path("profiles") / fmt::format("{}-{}", first, second) : fs::path(flags.out);
    before = traced_by_child(flags, first, folder);
    after = traced_by_child(flags, second, folder);
  }
  const Json explanation = explain(before, after);
  fmt::print("{}\n", flags.json ? explanation.dump(1) : explanation_table(explanation));
  return 0;
}

int list_metrics(const ProfileFlags& flags, const std::vector<std::string>& metrics) {
  const Json list = metrics_json(flags.chip, metrics);
  fmt::print("{}", flags.json ? list.dump(1) + "\n" : metrics_table(list));
  return 0;
}

int counters(const ProfileFlags& flags, const std::vector<std::string>& metrics) {
  if (!harness::this_machine().gpu) {
    throw harness::Unfit("--counters: counters are a GPU's: " + harness::this_machine().no_gpu_reason);
  }
  if (flags.run.workload.steps > 0) {
    throw std::invalid_argument("--steps: --counters counts one step for each pass that the metrics need");
  }
  if (flags.run.recipe.empty() && flags.run.rung.empty()) {
    throw std::invalid_argument("profile --counters: --rung or --recipe says of which step");
  }
  if (!flags.out.empty()) check_can_write("--out", flags.out);
  const RunOptions options = run_options(flags.run);
  const Json document =
      counters_json(options, count_step(options, metrics, flags.max_passes,
                                        [](const std::string& plan) { fmt::print(stderr, "{}\n", plan); }));
  harness::check_schema(document, "counters", "the counters");
  if (!flags.out.empty()) harness::write_json(flags.out, document, "counters");
  fmt::print("{}\n", flags.json ? document.dump(1) : counters_table(document));
  return 0;
}

}  // namespace

int profile(const ProfileFlags& flags) {
  std::vector<std::string> metrics;
  if (!flags.metrics.empty()) metrics = harness::split_metrics(flags.metrics);
  if (flags.list_metrics) return list_metrics(flags, metrics);
  if (flags.counters) return counters(flags, metrics);
  if (!metrics.empty()) throw std::invalid_argument("--metrics: needs --counters or --list-metrics");
  if (!flags.diff.empty()) return diff(flags);
  if (flags.trace) return trace(flags);
  throw std::invalid_argument("profile: one of --trace, --diff, --counters and --list-metrics says what to do");
}

}  // namespace ablations
