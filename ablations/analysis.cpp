#include "ablations/analysis.h"

#include "ablations/runner.h"
#include "harness/environment.h"
#include "harness/stats.h"
#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using harness::Estimate;
using harness::Json;

namespace {

// What the analysis takes from one good record.
struct RunData {
  double median_ms = 0;
  std::vector<double> timed_ms, losses;
  double page_faults_per_step = 0;
  int64_t peak_bytes = 0;
  Json proofs, observations;
};

RunData run_data(const Json& record) {
  RunData run;
  const Json& timing = record.at("timing");
  const auto warmup = timing.at("warmup_steps").get<int64_t>();
  const auto all_ms = timing.at("step_ms").get<std::vector<double>>();
  const auto faults = timing.at("page_faults").get<std::vector<double>>();
  if (warmup >= std::ssize(all_ms) || faults.size() != all_ms.size()) {
    throw std::invalid_argument(
        fmt::format("record of run {}: {} steps of warm-up among {} times and {} counts of faults",
                    record.at("id").dump(), warmup, all_ms.size(), faults.size()));
  }
  run.timed_ms.assign(all_ms.begin() + warmup, all_ms.end());
  run.median_ms = harness::median(run.timed_ms);
  run.page_faults_per_step = harness::median(std::vector<double>(faults.begin() + warmup, faults.end()));
  for (const Json& loss : timing.at("loss")) {
    run.losses.push_back(loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.get<double>());
  }
  run.peak_bytes = record.at("memory").at("peak_bytes");
  run.proofs = record.at("proofs");
  run.observations = record.at("observations");
  return run;
}

using RunsByRepeat = std::map<int64_t, RunData>;

Json bounds(const Estimate& estimate) {
  return {{"lo", estimate.interval ? Json(estimate.interval->lo) : Json()},
          {"hi", estimate.interval ? Json(estimate.interval->hi) : Json()}};
}

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

Json speedup(const RunsByRepeat& before, const RunsByRepeat& after) {
  std::vector<double> before_ms, after_ms;
  for (const auto& [repeat, run] : after) {
    if (const auto pair = before.find(repeat); pair != before.end()) {
      before_ms.push_back(pair->second.median_ms);
      after_ms.push_back(run.median_ms);
    }
  }
  if (after_ms.empty()) return nullptr;
  const Estimate estimate = harness::paired_ratio(before_ms, after_ms);
  Json json = bounds(estimate);
  json.update({{"ratio", estimate.center}, {"pairs", estimate.n}});
  return json;
}

Json to_json(const Guard& guard) {
  return {{"passed", guard.passed},       {"max_deviation", guard.max_deviation ? Json(*guard.max_deviation) : Json()},
          {"tolerance", guard.tolerance}, {"known_offset", guard.known_offset},
          {"steps", guard.steps},         {"message", guard.message}};
}

// The worst run's verdict.
Guard guard_rung(const Plan& plan, const Rung& rung, const RunsByRepeat& runs, const RunsByRepeat& reference) {
  double tolerance = 0;
  for (const std::string& name : rung.applied) tolerance = std::max(tolerance, find_optimization(name)->loss_tolerance);
  const double rows = static_cast<double>(rung.recipe.vocabulary_rows);
  const double reference_rows = static_cast<double>(plan.rungs[plan.reference].recipe.vocabulary_rows);
  Guard worst;
  bool first = true;
  for (const auto& [repeat, run] : runs) {
    const auto pair = reference.find(repeat);
    const RunData& other = pair == reference.end() ? reference.begin()->second : pair->second;
    const Guard one = guard(run.losses, other.losses, tolerance, std::log(rows / reference_rows));
    const bool worse = !one.passed || one.max_deviation.value_or(0) > worst.max_deviation.value_or(0);
    if (first || (worst.passed && worse)) worst = one;
    first = false;
  }
  return worst;
}

// Proofs of the rung's runs; a failed one of any run stands for all.
Json combined_proofs(const RunsByRepeat& runs) {
  Json combined = runs.begin()->second.proofs;
  for (const auto& [repeat, run] : runs) {
    for (size_t i = 0; i < std::min(combined.size(), run.proofs.size()); ++i) {
      if (!run.proofs[i].at("passed").get<bool>() && combined[i].at("passed").get<bool>()) combined[i] = run.proofs[i];
    }
  }
  return combined;
}

void judge(const Plan& plan, size_t index, const std::vector<RunsByRepeat>& runs_of, Json& rung) {
  const RunsByRepeat& runs = runs_of[index];
  rung["proofs"] = combined_proofs(runs);
  for (const Json& proof : rung["proofs"]) {
    if (proof.at("passed").get<bool>()) continue;
    rung["status"] = "unproven";
    rung["reason"] = fmt::format("{}: expected {}; observed {}", proof.at("field").get<std::string>(),
                                 proof.at("expected").get<std::string>(), proof.at("observed").get<std::string>());
    return;
  }
  if (index == plan.reference) return;
  const RunsByRepeat& reference = runs_of[plan.reference];
  if (reference.empty()) {
    rung["status"] = "void";
    rung["reason"] = "the reference rung has no run to compare losses with";
    return;
  }
  const Guard verdict = guard_rung(plan, plan.rungs[index], runs, reference);
  rung["guard"] = to_json(verdict);
  if (!verdict.passed) {
    rung["status"] = "void";
    rung["reason"] = verdict.message;
  }
}

}  // namespace

Guard guard(const std::vector<double>& losses, const std::vector<double>& reference, double tolerance,
            double known_offset) {
  Guard result{.passed = true,
               .max_deviation = 0.0,
               .tolerance = tolerance,
               .known_offset = known_offset,
               .steps = static_cast<int64_t>(losses.size()),
               .message = ""};
  for (size_t i = 0; i < losses.size() && i < reference.size(); ++i) {
    if (!std::isfinite(losses[i]) || !std::isfinite(reference[i])) {
      result.passed = false;
      result.max_deviation.reset();
      result.message = fmt::format("the loss of step {} is not finite", i + 1);
      return result;
    }
    const double difference = losses[i] - reference[i];
    const double deviation = std::abs(difference - std::clamp(difference, 0.0, std::max(known_offset, 0.0)));
    if (deviation <= *result.max_deviation) continue;
    result.max_deviation = deviation;
    if (deviation > tolerance) {
      result.passed = false;
      result.message = fmt::format("step {} has loss {:.4f}, the reference {:.4f}: {:.4f} nats apart, {:g} allowed",
                                   i + 1, losses[i], reference[i], deviation, tolerance);
    }
  }
  return result;
}

Json analyse(const Plan& plan, const fs::path& folder) {
  std::vector<RunsByRepeat> runs_of(plan.rungs.size());
  std::map<size_t, std::string> failures;  // rung: one of its failures
  Json runs = Json::array(), environment, workload;
  int64_t runs_ok = 0;
  std::string finished;
  for (size_t position = 0; position < plan.runs.size(); ++position) {
    const PlannedRun& run = plan.runs[position];
    const fs::path file = record_file(folder, run.id);
    Json entry{{"id", run.id},        {"rung", run.rung}, {"repeat", run.repeat}, {"position", position},
               {"status", "missing"}, {"reason", ""},     {"median_ms", nullptr}, {"record", nullptr}};
    if (fs::exists(file)) {
      const Json record = harness::read_json(file, "record");
      entry["record"] = fs::relative(file, folder).string();
      entry["status"] = record.at("status");
      finished = std::max(finished, record.at("started").get<std::string>());
      if (record.at("status") == "ok") {
        ++runs_ok;
        const RunData& data = runs_of[run.rung][run.repeat] = run_data(record);
        entry["median_ms"] = data.median_ms;
        if (environment.is_null()) environment = record.at("environment");
        if (workload.is_null()) workload = record.at("workload");
      } else {
        entry["reason"] = record.at("failure").at("message");
        failures[run.rung] = fmt::format("run {}: {}", run.id, entry["reason"].get<std::string>());
      }
    }
    runs.push_back(entry);
  }

  Json warnings = Json::array();
  if (workload.is_null()) {  // nothing succeeded: what was planned
    const model::Config config = model::preset(plan.model);
    const int64_t tokens = plan.B * plan.T * plan.accumulation;
    workload = {{"model", plan.model},
                {"parameters", config.parameters()},
                {"batch", plan.B},
                {"context", plan.T},
                {"accumulation", plan.accumulation},
                {"tokens_per_step", tokens},
                {"flops_per_step", config.flops_per_token(plan.T) * static_cast<double>(tokens)},
                {"seed", plan.seed},
                {"data", {{"source", fs::path(plan.data).filename().string()}, {"sha256", ""}, {"tokens", 0}}}};
  }
  if (environment.is_null()) environment = harness::environment();
  const auto tokens_per_step = workload.at("tokens_per_step").get<int64_t>();

  Json rungs = Json::array();
  std::optional<size_t> previous, last;
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& rung = plan.rungs[i];
    const Optimization* optimization = find_optimization(rung.optimization);
    Json json{{"index", i},
              {"optimization", rung.optimization.empty() ? Json() : Json(rung.optimization)},
              {"title", rung.title},
              {"summary", optimization != nullptr ? optimization->summary : "The recipe from which the ladder starts."},
              {"status", "measured"},
              {"reason", rung.reason},
              {"recipe", model::to_json(rung.recipe)},
              {"recipe_diff", i == 0 ? Json::object() : model::recipe_diff(plan.rungs[i - 1].recipe, rung.recipe)},
              {"runs_ok", runs_of[i].size()},
              {"ms_per_step", nullptr},
              {"tokens_per_s", nullptr},
              {"speedup_first", nullptr},
              {"speedup_previous", nullptr},
              {"peak_memory_bytes", nullptr},
              {"page_faults_per_step", nullptr},
              {"guard", nullptr},
              {"proofs", Json::array()}};
    if (rung.status != Rung::Status::planned) {
      json["status"] = rung.status == Rung::Status::not_applicable ? "not_applicable" : "not_measured";
    } else if (runs_of[i].empty()) {
      const auto failure = failures.find(i);
      json["status"] = failure == failures.end() ? "missing" : "failed";
      json["reason"] = failure == failures.end() ? "its runs have not been made yet" : failure->second;
    } else {
      const RunsByRepeat& data = runs_of[i];
      judge(plan, i, runs_of, json);
      if (optimization != nullptr) json["title"] = title_after_proof(*optimization, data.begin()->second.observations);
      std::vector<double> faults;
      int64_t peak = 0;
      for (const auto& [repeat, run] : data) {
        faults.push_back(run.page_faults_per_step);
        peak = std::max(peak, run.peak_bytes);
        if (run.losses != data.begin()->second.losses && rung.recipe.device == model::Device::cpu) {
          warnings.push_back(
              fmt::format("rung {} \"{}\": repeats of the same recipe and seed have different losses", i, rung.title));
        }
      }
      if (json["status"] != "unproven") {
        json["ms_per_step"] = ms_per_step(data);
        json["tokens_per_s"] = tokens_per_s(json["ms_per_step"], tokens_per_step);
        json["peak_memory_bytes"] = peak;
        json["page_faults_per_step"] = harness::median(faults);
      }
      if (json["status"] == "measured") {
        if (!runs_of[plan.reference].empty()) json["speedup_first"] = speedup(runs_of[plan.reference], data);
        if (previous) json["speedup_previous"] = speedup(runs_of[*previous], data);
        previous = last = i;
      }
      if (const auto failure = failures.find(i); failure != failures.end()) {
        warnings.push_back(fmt::format("rung {} \"{}\": {}", i, rung.title, failure->second));
      }
    }
    rungs.push_back(json);
  }
  // Speedups count from the reference: where that is not valid itself, there is none.
  if (rungs[plan.reference].at("status") != "measured") {
    for (Json& rung : rungs) rung["speedup_first"] = nullptr;
  }

  Json headline;
  if (last && *last != plan.reference && !rungs[*last].at("speedup_first").is_null()) {
    headline = {{"first", plan.reference}, {"last", *last}, {"speedup", rungs[*last].at("speedup_first")}};
  }
  const bool cuda = plan.rungs[plan.reference].recipe.device == model::Device::cuda;
  const Json& cpu = environment.at("cpu");
  const std::string device_name =
      cuda && !environment.at("gpu").is_null()
          ? environment.at("gpu").at("name").get<std::string>()
          : fmt::format("{}, {} threads", cpu.at("model").get<std::string>(), environment.at("threads").get<int64_t>());
  if (const double load = environment.at("load_average").at(0).get<double>();
      load > 1.5 * cpu.at("logical_cores").get<double>()) {
    warnings.push_back(fmt::format("load average {:.2f} on {} cores during the runs: other work disturbed them", load,
                                   cpu.at("logical_cores").get<int>()));
  }
  return {
      {"kind", "study"},
      {"schema_version", 1},
      {"id", plan.id},
      {"created", plan.created},
      {"finished", runs_ok == static_cast<int64_t>(plan.runs.size()) ? Json(finished) : Json()},
      {"ladder", {{"name", plan.ladder_name}, {"title", plan.ladder_title}}},
      {"workload", workload},
      {"plan",
       {{"repeats", plan.repeats},
        {"warmup_steps", plan.warmup_steps},
        {"timed_steps", plan.timed_steps},
        {"order_seed", plan.order_seed},
        {"runs_planned", plan.runs.size()},
        {"runs_ok", runs_ok}}},
      {"device", {{"kind", cuda ? "cuda" : "cpu"}, {"name", device_name}}},
      {"statistics",
       {{"center", "median over runs of each run's median step"},
        {"interval", "95 % t interval with a bootstrapped standard error over runs, speedups paired within a repeat"},
        {"confidence", 0.95}}},
      {"headline", headline},
      {"rungs", rungs},
      {"runs", runs},
      {"warnings", warnings},
      {"environment", environment}};
}

}  // namespace ablations
