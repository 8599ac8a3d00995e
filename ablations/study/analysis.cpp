#include "ablations/study/analysis.h"

#include "ablations/plan/plan_json.h"
#include "ablations/profile/explain.h"
#include "ablations/profile/trace_summary.h"
#include "ablations/run/study_folder.h"
#include "ablations/run/workload.h"
#include "ablations/study/attribution.h"
#include "ablations/study/headline.h"
#include "ablations/study/judge.h"
#include "ablations/study/measured.h"
#include "ablations/study/rung_summary.h"
#include "harness/environment.h"
#include "harness/stats.h"
#include "harness/utc.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ablations {

namespace fs = std::filesystem;
using harness::Json;

namespace {

// How many runs have something there, and what the first of them has.
std::pair<int64_t, std::string> runs_with(std::string RunData::*field, const Measured& measured) {
  std::pair<int64_t, std::string> found{0, ""};
  for (const RunsByRepeat& runs : measured.runs_of) {
    for (const auto& [repeat, run] : runs) {
      if (!(run.*field).empty() && ++found.first == 1) found.second = run.*field;
    }
  }
  return found;
}

// One line for all of them, or none: the rungs themselves are marked. Where nobody looked, "not disturbed" says
// nothing.
void warn_of_disturbances(const Measured& measured, Json& warnings) {
  if (const auto [runs, first] = runs_with(&RunData::disturbed, measured); runs > 0) {
    // As the runner gives up on them (ablations/run/runner.h).
    const bool gave_up = 2 * runs > measured.runs_ok && measured.not_made_again > 1;
    warnings.push_back(fmt::format(
        "{} of {} runs {} disturbed: {}{}{}", runs, measured.runs_ok, runs == 1 ? "was" : "were", first,
        runs == 1 ? "" : ", and others",
        gave_up ? "; because most were, they were not made again: measure anew while nothing else runs" : ""));
  }
  if (const auto [runs, why] = runs_with(&RunData::unwatched, measured); runs > 0) {
    warnings.push_back(fmt::format("{} of {} runs {} not watched for a throttled or shared GPU: {}", runs,
                                   measured.runs_ok, runs == 1 ? "was" : "were", why));
  }
}

Json attribution_json(const Plan& plan, const Measured& measured, const Json& rungs) {
  std::vector<Times> times;
  std::vector<std::string> reasons;
  for (size_t i = 0; i < rungs.size(); ++i) {
    reasons.push_back(rungs[i].at("reason"));
    times.push_back(rungs[i].at("status") == "measured" ? times_of(measured.runs_of[i]) : Times{});
  }
  Json list = Json::array();
  for (const Worth& worth : attribution(plan, times, reasons)) {
    Json json{{"optimization", worth.optimization},
              {"title", find_optimization(worth.optimization)->title},
              {"method", worth.method},
              {"ratio", nullptr},
              {"lo", nullptr},
              {"hi", nullptr},
              {"repeats", 0},
              {"reason", worth.reason}};
    if (worth.estimate) {
      json.update(bounds(*worth.estimate));
      json.update({{"ratio", worth.estimate->center}, {"repeats", worth.estimate->n}});
    }
    list.push_back(json);
  }
  return list;
}

// Every peer beside the rung whose work it does.
void add_peers(const Plan& plan, const Measured& measured, Json& rungs) {
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (plan.rungs[i].peer.empty() || !plan.rungs[i].against) continue;
    Json& own = rungs[*plan.rungs[i].against];
    Json peer{{"peer", plan.rungs[i].peer}, {"rung", i}, {"ratio", nullptr}, {"lo", nullptr}, {"hi", nullptr}};
    if (own.at("status") == "measured" && rungs[i].at("status") == "measured") {
      if (const Json ratio = speedup(measured.runs_of[i], measured.runs_of[*plan.rungs[i].against]); !ratio.is_null()) {
        peer.update(ratio);
      }
    }
    own["peers"].push_back(peer);
  }
}

// The rung to which a ladder's rung i adds an optimization: the last of ours before it that applies here.
std::optional<size_t> rung_below(const Plan& plan, size_t i) {
  while (i-- > 0) {
    if (plan.rungs[i].peer.empty() && plan.rungs[i].status == Rung::Status::planned) return i;
  }
  return std::nullopt;
}

// Where a rung was traced: how busy the device was, and what changed since the rung below it.
void add_explanations(const Plan& plan, const fs::path& folder, Json& rungs) {
  const auto is_clear = [](const Json& ratio) {
    return !ratio.is_null() && !ratio.at("lo").is_null() && (ratio.at("lo") > 1.0 || ratio.at("hi") < 1.0);
  };
  Json before;
  std::optional<size_t> of;  // the rung of `before`
  for (size_t i = 0; i < rungs.size(); ++i) {
    const fs::path file = trace_file(folder, plan.rungs[i]);
    if (!plan.rungs[i].peer.empty() || rungs[i].at("status") != "measured" || !fs::exists(file)) continue;
    Json trace = harness::read_json(file, "trace");
    trace["title"] = rungs[i].at("label");
    const Json& summary = trace.at("summary");
    const Busy busy = busy_of(summary);
    rungs[i]["profile"] = {{"busy_percent", busy.percent},
                           {"idle_ms", busy.idle_ms},
                           {"launch_bound_percent", summary.at("launch_bound_percent")},
                           {"by_phase", summary.at("by_phase")},
                           {"step", divided(summary, rungs[i].at("ms_per_step").at("median"))}};
    // From a CPU to a GPU there is nothing in common to tell.
    if (of && of == rung_below(plan, i) && before.at("device") == trace.at("device")) {
      rungs[i]["explanation"] = explain(before, trace, is_clear(rungs[i].at("speedup_previous"))).at("words");
    }
    before = std::move(trace);
    of = i;
  }
}

Json statistics_of(const Plan& plan) {
  Json statistics{{"center", "median over runs of each run's median step"},
                  {"interval",
                   "95 % over runs, Student's with a bootstrapped standard error; speedups paired within a repeat, "
                   "from 6 repeats on by signed ranks"},
                  {"confidence", harness::confidence}};
  if (plan.mode == Mode::factorial) {
    statistics["attribution"] =
        "Shapley values of the logarithm of the time, within each repeat; their mean over repeats (so that they add "
        "up) with a 95 % t interval; the other methods as speedups are";
  }
  return statistics;
}

// "NVIDIA H200", "AMD EPYC, 2 threads", or both where a ladder begins on the CPU.
std::string device_name(const Plan& plan, const Json& environment) {
  std::string cpu = fmt::format("{}, {} threads", environment.at("cpu").at("model").get<std::string>(),
                                environment.at("threads").get<int64_t>());
  const Json& gpu = environment.at("gpu");
  if (!uses_cuda(plan) || gpu.is_null()) return cpu;
  const bool mixed = std::ranges::any_of(plan.rungs, [](const Rung& rung) {
    return rung.status == Rung::Status::planned && rung.recipe.device == model::Device::cpu;
  });
  return gpu.at("name").get<std::string>() + (mixed ? "; rungs without it on " + cpu : "");
}

// The rung that another is compared with, where `reference` has taken the planned one's place.
std::optional<size_t> counted_reference(const Plan& plan, size_t reference, size_t rung) {
  const auto planned = reference_of(plan, rung);
  if (!planned || *planned != plan.reference) return planned;
  return reference == rung ? std::nullopt : std::optional(reference);
}

// Every rung by its reference. Returns the plan's that counts.
size_t judge_rungs(const Plan& plan, const Measured& measured, Json& rungs, Json& warnings) {
  const size_t reference = reference_that_counts(plan, rungs);
  if (reference != plan.reference) {
    warnings.push_back(fmt::format("the reference rung \"{}\" has no valid number; \"{}\" takes its place",
                                   plan.rungs[plan.reference].title, plan.rungs[reference].title));
  }
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (measured.runs_of[i].empty()) continue;
    if (const auto guarded_by = counted_reference(plan, reference, i)) {
      judge_by_reference(plan, i, *guarded_by, measured, rungs);
    }
  }
  return reference;
}

// Times and speedups of the rungs that were judged. Returns the last one of ours that was measured.
std::optional<size_t> number_rungs(const Plan& plan, const Measured& measured, size_t reference, const std::string& gpu,
                                   Json& rungs) {
  const auto& runs_of = measured.runs_of;
  std::optional<size_t> last;
  for (size_t i = 0; i < rungs.size(); ++i) {
    Json& json = rungs[i];
    const Rung& rung = plan.rungs[i];
    const RunsByRepeat& data = runs_of[i];
    if (data.empty()) continue;
    add_conditions(data, json);
    if (json["status"] != "unproven") add_numbers(rung, data, gpu, json);
    if (json["status"] != "measured") continue;
    // Speedups count from the reference: where that is not valid itself, there is none.
    const size_t first = counted_reference(plan, reference, i).value_or(i);
    const bool alone = first == i && (plan.mode == Mode::sweep || i != reference);
    if (!alone && rungs[first].at("status") == "measured") json["speedup_first"] = speedup(runs_of[first], data);
    // Against one further down it would be the worth of all that came in between.
    const auto previous = rung.against || plan.mode != Mode::cumulative ? rung.against : rung_below(plan, i);
    if (previous && rungs[*previous].at("status") == "measured") {
      json["speedup_previous"] = speedup(runs_of[*previous], data);
    }
    if (rung.peer.empty()) last = i;
  }
  return last;
}

// The lowest and the highest median of a rung's runs: a run that is throttled evenly shows in no run by itself. 0 where
// nobody watched.
std::pair<double, double> sm_clocks(const RunsByRepeat& runs) {
  std::pair<double, double> range{0, 0};
  for (const auto& [repeat, run] : runs) {
    if (!run.sm_clock_mhz) continue;
    range.first = range.second == 0 ? *run.sm_clock_mhz : std::min(range.first, *run.sm_clock_mhz);
    range.second = std::max(range.second, *run.sm_clock_mhz);
  }
  return range;
}

// What makes a rung's number doubtful although it counts, and why it is compared with none.
void warn_of_rungs(const Plan& plan, const Measured& measured, const Json& rungs, Json& warnings) {
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& rung = plan.rungs[i];
    const RunsByRepeat& data = measured.runs_of[i];
    if (data.empty()) continue;
    const auto warn = [&](const std::string& text) {
      warnings.push_back(fmt::format("rung {} \"{}\": {}", i, rung.title, text));
    };
    if (const auto failure = measured.failures.find(i); failure != measured.failures.end()) {
      warn(failure->second.reason);
    }
    // The table marks a rung of ours itself; a peer has a column only.
    if (const std::string status = rungs[i].at("status");
        !rung.peer.empty() && (status == "void" || status == "unproven")) {
      warn(fmt::format("it is {}, so nothing is compared with it: {}", status,
                       rungs[i].at("reason").get<std::string>()));
    }
    if (const auto [low, high] = sm_clocks(data); low < 0.95 * high) {
      warn(fmt::format("the GPU ran its runs at different clocks, the median from {:.0f} to {:.0f} MHz", low, high));
    }
    if (const auto previous = rung_below(plan, i); plan.mode == Mode::cumulative && rung.peer.empty() && previous &&
                                                   rungs[i].at("status") == "measured" &&
                                                   rungs[*previous].at("status") != "measured") {
      warn(fmt::format("what it alone brings is not known: \"{}\" before it has no number",
                       plan.rungs[*previous].title));
    }
    if (rung.recipe.device == model::Device::cpu && rung.peer.empty() && losses_differ(data)) {
      warn("repeats of the same recipe and seed have different losses");
    }
    const Json calls = harness::field_or_null(data.begin()->second.observations, "cuda_calls");
    if (const Json reason = harness::field_or_null(calls, "unavailable"); reason.is_string()) {
      warn("launches, and what the host waits for, could not be counted: " + reason.get<std::string>());
    }
  }
}

// The longest time in hours in which none of a repeat's runs was at work. Since the machine was started, where all
// began after the same start: the clock may be set meanwhile. Else, and in older records, by the clock.
double longest_pause_h(std::vector<Made> runs) {
  const auto is_of_first_boot = [&](const Made& run) { return !run.boot.empty() && run.boot == runs.front().boot; };
  const bool by_boot = std::ranges::all_of(runs, is_of_first_boot);
  if (by_boot) {
    std::ranges::sort(runs, {}, &Made::since_boot_s);
  } else {
    std::ranges::sort(runs, {}, &Made::started);
  }
  double longest = 0;
  for (size_t i = 1; i < runs.size(); ++i) {
    const Made &run = runs[i - 1], &next = runs[i];
    const double apart = by_boot ? (next.since_boot_s - run.since_boot_s) / 3600
                                 : harness::hours_between(run.started, next.started).value_or(0);
    longest = std::max(longest, apart - run.duration_s / 3600);
  }
  return longest;
}

// Rungs are compared within a repeat, because its runs share what the machine was like. Resumed on another day they do
// not.
void warn_of_sittings(const Measured& measured, Json& warnings) {
  constexpr double pause_h = 0.5;
  for (const auto& [repeat, runs] : measured.made) {
    const double paused_h = longest_pause_h(runs);
    if (paused_h <= pause_h) continue;
    warnings.push_back(
        fmt::format("repeat {} was interrupted for {:.1f} hours: differences between its runs before "
                    "and after may come from the machine",
                    repeat + 1, paused_h));
  }
}

void warn_of_load(const Json& environment, Json& warnings) {
  const Json& cpu = environment.at("cpu");
  const int64_t cores = cpu.contains("online_cores") ? cpu.at("online_cores") : cpu.at("logical_cores");
  const double load = environment.at("load_average").at(0);
  if (load <= 1.5 * static_cast<double>(cores)) return;
  warnings.push_back(
      fmt::format("load average {:.2f} on {} cores during the runs: other work disturbed them", load, cores));
}

std::string created_of(const Plan& plan, const Measured& measured, const Json& earlier) {
  if (!plan.created.empty()) return plan.created;
  if (!measured.first_started.empty()) return measured.first_started;
  const Json created = harness::field_or_null(earlier, "created");
  return created.is_string() ? created.get<std::string>() : harness::utc_now();
}

}  // namespace

Json planned_workload(const Plan& plan) {
  return workload_json({.model = plan.model,
                        .B = plan.B,
                        .T = plan.T,
                        .accumulation = plan.accumulation,
                        .positions = plan.positions,
                        .seed = plan.seed,
                        .data = plan.data},
                       /*sha256=*/"", /*tokens=*/0);
}

Json analyse(const Plan& plan, const fs::path& folder, const Json& earlier) {
  const Measured measured = read_records(plan, folder);
  const Json workload = measured.workload.is_null() ? planned_workload(plan) : measured.workload;
  Json environment =
      measured.environment.is_null() ? harness::field_or_null(earlier, "environment") : measured.environment;
  if (environment.is_null()) {
    environment = harness::environment();
    environment["threads"] = plan.threads;  // of the runs, not of this process
  }
  const std::string gpu = environment.at("gpu").is_null() ? "" : environment.at("gpu").at("name").get<std::string>();
  Json warnings = Json::array(), rungs = Json::array();

  for (size_t i = 0; i < plan.rungs.size(); ++i) rungs.push_back(rung_by_itself(plan, i, measured));
  const size_t reference = judge_rungs(plan, measured, rungs, warnings);
  const auto last = number_rungs(plan, measured, reference, gpu, rungs);
  add_peers(plan, measured, rungs);
  add_explanations(plan, folder, rungs);
  warn_of_rungs(plan, measured, rungs, warnings);
  warn_of_disturbances(measured, warnings);
  warn_of_sittings(measured, warnings);
  warn_of_load(environment, warnings);

  const bool is_missing_runs =
      std::ranges::any_of(measured.runs, [](const Json& run) { return run.at("status") == "missing"; });
  const Json headline = headline_of(plan, measured, rungs, reference, last);
  Json study{{"kind", "study"},
             {"schema_version", 1},
             {"id", plan.id},
             {"created", created_of(plan, measured, earlier)},
             {"finished", is_missing_runs ? Json() : Json(measured.last_started)},
             {"mode", name_of(plan.mode)},
             {"ladder", ladder_json(plan)},
             {"workload", workload},
             {"plan",
              {{"repeats", plan.repeats},
               {"warmup_steps", plan.warmup_steps},
               {"timed_steps", plan.timed_steps},
               {"order_seed", plan.order_seed},
               {"runs_planned", plan.runs.size()},
               {"runs_ok", measured.runs_ok}}},
             {"device", {{"kind", uses_cuda(plan) ? "cuda" : "cpu"}, {"name", device_name(plan, environment)}}},
             {"statistics", statistics_of(plan)},
             {"headline", headline},
             {"notes", notes_of(plan, rungs, headline)},
             {"rungs", rungs},
             {"attribution", attribution_json(plan, measured, rungs)},
             {"runs", measured.runs},
             {"warnings", warnings},
             {"environment", environment}};
  if (!plan.swept.empty()) study["swept"] = plan.swept;
  if (plan.quick) study["quick"] = true;
  return study;
}

}  // namespace ablations
