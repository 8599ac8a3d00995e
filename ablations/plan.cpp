#include "ablations/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>

namespace ablations {

using harness::Json;

namespace {

constexpr std::array<const char*, 3> status_names{"planned", "not_applicable", "not_measured"};

// Rows of a Williams design for n treatments: a Latin square whose columns zigzag 0, 1, n-1, 2, n-2, ...; odd n also
// needs its mirror image.
std::vector<std::vector<size_t>> williams_rows(size_t n) {
  std::vector<size_t> first;
  for (size_t i = 0; i < n; ++i) first.push_back(i % 2 == 1 ? (i + 1) / 2 : (n - i / 2) % n);
  std::vector<std::vector<size_t>> rows;
  for (size_t shift = 0; shift < n; ++shift) {
    std::vector<size_t> row;
    for (const size_t treatment : first) row.push_back((treatment + shift) % n);
    rows.push_back(row);
  }
  if (n % 2 == 1) {
    for (size_t i = 0; i < n; ++i) rows.emplace_back(rows[i].rbegin(), rows[i].rend());
  }
  return rows;
}

// std::shuffle is not the same everywhere; this is.
template <class T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

std::vector<PlannedRun> interleave(const std::vector<Rung>& rungs, int64_t repeats, uint64_t order_seed) {
  std::vector<size_t> measured;
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (rungs[i].status == Rung::Status::planned) measured.push_back(i);
  }
  std::mt19937_64 random(order_seed);
  auto rows = williams_rows(measured.size());
  shuffle(measured, random);
  shuffle(rows, random);
  std::vector<PlannedRun> runs;
  for (int64_t repeat = 0; repeat < repeats; ++repeat) {
    if (measured.empty()) break;
    for (const size_t treatment : rows[static_cast<size_t>(repeat) % rows.size()]) {
      const size_t rung = measured[treatment];
      const std::string& name = rungs[rung].optimization;
      runs.push_back({fmt::format("r{}-{:02}-{}", repeat + 1, rung, name.empty() ? "start" : name), rung, repeat});
    }
  }
  return runs;
}

Json to_json(const Plan& plan) {
  Json rungs = Json::array(), runs = Json::array();
  for (const Rung& rung : plan.rungs) {
    rungs.push_back({{"optimization", rung.optimization.empty() ? Json() : Json(rung.optimization)},
                     {"title", rung.title},
                     {"applied", rung.applied},
                     {"status", status_names[static_cast<size_t>(rung.status)]},
                     {"reason", rung.reason},
                     {"recipe", model::to_json(rung.recipe)}});
  }
  for (const PlannedRun& run : plan.runs) runs.push_back({{"id", run.id}, {"rung", run.rung}, {"repeat", run.repeat}});
  return {{"kind", "plan"},
          {"schema_version", 1},
          {"id", plan.id},
          {"created", plan.created},
          {"ladder", {{"name", plan.ladder_name}, {"title", plan.ladder_title}}},
          {"workload",
           {{"model", plan.model},
            {"batch", plan.B},
            {"context", plan.T},
            {"accumulation", plan.accumulation},
            {"seed", plan.seed},
            {"threads", plan.threads},
            {"data", plan.data},
            {"vocabulary", plan.vocabulary}}},
          {"warmup_steps", plan.warmup_steps},
          {"timed_steps", plan.timed_steps},
          {"repeats", plan.repeats},
          {"order_seed", plan.order_seed},
          {"run_limit_s", plan.run_limit_s},
          {"reference", plan.reference},
          {"rungs", rungs},
          {"runs", runs}};
}

Plan plan_from_json(const Json& json, const std::string& where) {
  const Json& workload = json.at("workload");
  Plan plan{.id = json.at("id"),
            .created = json.at("created"),
            .ladder_name = json.at("ladder").at("name"),
            .ladder_title = json.at("ladder").at("title"),
            .model = workload.at("model"),
            .B = workload.at("batch"),
            .T = workload.at("context"),
            .accumulation = workload.at("accumulation"),
            .seed = workload.at("seed"),
            .threads = workload.at("threads"),
            .data = workload.at("data"),
            .vocabulary = workload.at("vocabulary"),
            .warmup_steps = json.at("warmup_steps"),
            .timed_steps = json.at("timed_steps"),
            .repeats = json.at("repeats"),
            .order_seed = json.at("order_seed"),
            .run_limit_s = json.at("run_limit_s"),
            .rungs = {},
            .reference = json.value("reference", size_t{0}),
            .runs = {}};
  for (const Json& rung : json.at("rungs")) {
    const auto status = std::find(status_names.begin(), status_names.end(), rung.at("status").get<std::string>());
    const Json& name = rung.at("optimization");
    if (!name.is_null() && find_optimization(name) == nullptr) {
      throw std::invalid_argument(fmt::format("{}: unknown optimization {}", where, name.dump()));
    }
    plan.rungs.push_back({.optimization = name.is_null() ? "" : name.get<std::string>(),
                          .title = rung.at("title"),
                          .applied = rung.at("applied"),
                          .recipe = model::recipe_from_json(rung.at("recipe"), where),
                          .status = static_cast<Rung::Status>(status - status_names.begin()),
                          .reason = rung.at("reason")});
    for (const std::string& applied : plan.rungs.back().applied) {
      if (find_optimization(applied) == nullptr) {
        throw std::invalid_argument(fmt::format("{}: unknown optimization \"{}\"", where, applied));
      }
    }
  }
  std::set<std::string> ids;
  for (const Json& run : json.at("runs")) {
    plan.runs.push_back({run.at("id"), run.at("rung"), run.at("repeat")});
    const PlannedRun& added = plan.runs.back();
    if (added.rung >= plan.rungs.size() || added.repeat >= plan.repeats || !ids.insert(added.id).second) {
      throw std::invalid_argument(
          fmt::format("{}: run \"{}\" stands twice, or its rung or repeat is not in the plan", where, added.id));
    }
  }
  if (plan.reference >= plan.rungs.size()) {
    throw std::invalid_argument(fmt::format("{}: reference {} is not a rung", where, plan.reference));
  }
  return plan;
}

}  // namespace ablations
