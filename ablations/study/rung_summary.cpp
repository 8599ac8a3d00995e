#include "ablations/study/rung_summary.h"

#include "ablations/profile/mfu.h"
#include "ablations/study/judge.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ablations {

using harness::Estimate;
using harness::Json;

namespace {

Json ms_per_step(const RunsByRepeat& runs) {
  std::vector<double> medians, steps;
  for (const auto& [repeat, run] : runs) {
    medians.push_back(run.median_ms);
    steps.insert(steps.end(), run.timed_ms.begin(), run.timed_ms.end());
  }
  const Estimate estimate = harness::median_with_interval(medians);
  Json json = bounds(estimate);
  json.update({{"median", estimate.center},
               {"q1", harness::quantile(steps, 0.25)},
               {"q3", harness::quantile(steps, 0.75)},
               {"min", harness::quantile(steps, 0.0)},
               {"max", harness::quantile(steps, 1.0)},
               {"n", steps.size()}});
  return json;
}

Json tokens_per_s(const Json& ms, int64_t tokens_per_step) {
  const auto rate = [&](const Json& milliseconds) {
    return milliseconds.is_null() ? Json()
                                  : Json(1000.0 * static_cast<double>(tokens_per_step) / milliseconds.get<double>());
  };
  return {{"median", rate(ms.at("median"))}, {"lo", rate(ms.at("hi"))}, {"hi", rate(ms.at("lo"))}};
}

// What can be told of a rung from the plan.
Json planned_rung(const Plan& plan, size_t index) {
  const Rung& rung = plan.rungs[index];
  const Optimization* optimization = find_optimization(rung.optimization);
  // In a cumulative ladder the rung below, elsewhere what it is compared with, or the first.
  size_t before = plan.mode == Mode::cumulative && !rung.against ? std::max<size_t>(index, 1) - 1
                                                                 : rung.against.value_or(plan.reference);
  while (plan.quick && before > 0 && std::ranges::find(plan.quick->left_out, before) != plan.quick->left_out.end())
    --before;
  const Shape shape = shape_of(plan, index);
  Json json{{"index", index},
            {"optimization", rung.optimization.empty() ? Json() : Json(rung.optimization)},
            {"title", rung.title},
            {"summary", optimization != nullptr ? optimization->summary : "The recipe from which the ladder starts."},
            {"status", "measured"},
            {"reason", rung.reason},
            {"recipe", model::to_json(rung.recipe)},
            {"recipe_diff", model::recipe_diff(plan.rungs[before].recipe, rung.recipe)},
            {"workload",
             {{"batch", shape.B},
              {"context", shape.T},
              {"accumulation", shape.accumulation},
              {"tokens_per_step", shape.B * shape.T * shape.accumulation}}},
            {"runs_ok", 0},
            {"ms_per_step", nullptr},
            {"tokens_per_s", nullptr},
            {"speedup_first", nullptr},
            {"speedup_previous", nullptr},
            {"peak_memory_bytes", nullptr},
            {"page_faults_per_step", nullptr},
            {"mfu", nullptr},
            {"guard", nullptr},
            {"proofs", Json::array()}};
  if (!rung.peer.empty()) {
    json["peer"] = rung.peer;
    json["summary"] = "The recipe of the rung it stands for, run by PyTorch.";
  } else if (rung.name == "full") {
    json["summary"] = "Every optimization of the ladder that applies on this machine.";
  } else if (plan.mode == Mode::factorial && index != plan.reference &&
             rung.recipe == plan.rungs[plan.reference].recipe) {
    json["summary"] = "Without the others it changes nothing: the recipe is the reference's, and the ratio is noise.";
  } else if (optimization == nullptr && !rung.applied.empty() && index != plan.reference) {
    json["summary"] = "Several optimizations at once.";
  }
  if (rung.against) json["against"] = *rung.against;
  if (rung.status != Rung::Status::planned) {
    json["status"] = rung.status == Rung::Status::not_applicable ? "not_applicable" : "not_measured";
  }
  return json;
}

}  // namespace

Json bounds(const Estimate& estimate) {
  return {{"lo", estimate.interval ? Json(estimate.interval->lo) : Json()},
          {"hi", estimate.interval ? Json(estimate.interval->hi) : Json()}};
}

Times times_of(const RunsByRepeat& runs) {
  Times times;
  for (const auto& [repeat, run] : runs) times[repeat] = run.median_ms;
  return times;
}

Json speedup(const RunsByRepeat& before, const RunsByRepeat& after) {
  const auto estimate = paired(times_of(before), times_of(after));
  if (!estimate) return {};
  Json json = bounds(*estimate);
  json.update({{"ratio", estimate->center}, {"pairs", estimate->n}});
  return json;
}

Json rung_by_itself(const Plan& plan, size_t i, const Measured& measured) {
  Json json = planned_rung(plan, i);
  const RunsByRepeat& runs = measured.runs_of[i];
  const auto failure = measured.failures.find(i);
  if (!runs.empty()) {
    json["runs_ok"] = runs.size();
    judge_alone(runs, json);
    const Optimization* optimization = find_optimization(plan.rungs[i].optimization);
    if (optimization != nullptr && json["title"] == optimization->title) {
      json["title"] = title_after_proof(*optimization, runs.begin()->second.observations);
    }
  } else if (json["status"] == "measured") {
    json["status"] = failure == measured.failures.end() ? "missing" : "failed";
    json["reason"] = failure == measured.failures.end() ? "its runs have not been made yet" : failure->second.reason;
  }
  if (failure != measured.failures.end()) json["out_of_memory"] = failure->second.out_of_memory;
  json["label"] = label_of(plan, i, json["title"]);
  return json;
}

void add_conditions(const RunsByRepeat& runs, Json& rung) {
  std::vector<double> joules;
  std::vector<std::string> flags;
  for (const auto& [repeat, run] : runs) {
    if (run.joules_per_token) joules.push_back(*run.joules_per_token);
    if (!run.disturbed.empty()) flags.push_back(run.disturbed);
  }
  if (!joules.empty()) rung["joules_per_token"] = harness::median(joules);
  if (!flags.empty()) rung["flags"] = flags;
}

bool losses_differ(const RunsByRepeat& runs) {
  const std::vector<double>& first = runs.begin()->second.losses;
  return std::ranges::all_of(first, [](double loss) { return std::isfinite(loss); }) &&
         std::ranges::any_of(runs, [&](const auto& run) { return run.second.losses != first; });
}

void add_numbers(const Rung& rung, const RunsByRepeat& runs, const std::string& gpu, Json& json) {
  const RunData& first = runs.begin()->second;
  std::vector<double> faults;
  int64_t peak = 0, skipped = 0;
  for (const auto& [repeat, run] : runs) {
    faults.push_back(run.page_faults_per_step);
    peak = std::max(peak, run.peak_bytes);
    skipped = std::max(skipped, run.skipped_steps);
  }
  json["ms_per_step"] = ms_per_step(runs);
  json["tokens_per_s"] = tokens_per_s(json["ms_per_step"], first.tokens_per_step);
  json["peak_memory_bytes"] = peak;
  json["memory"] = first.memory;
  if (skipped > 0) json["skipped_steps"] = skipped;
  json["page_faults_per_step"] = harness::median(faults);
  json["mfu"] = mfu(rung.recipe, gpu, first.flops_per_step, json["ms_per_step"].at("median"));
}

}  // namespace ablations
