#include "ablations/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <stdexcept>

namespace ablations {

using harness::Json;

namespace {

constexpr std::array<const char*, 3> status_names{"planned", "not_applicable", "not_measured"};

// Half of a Williams design for n treatments: rows that zigzag k, k+1, k-1, k+2, ... Their mirror images are the other
// half; for even n the zigzag from k + n/2 on is that from k, mirrored.
std::vector<std::vector<size_t>> williams_rows(size_t n) {
  std::vector<std::vector<size_t>> rows(n % 2 == 0 ? n / 2 : n);
  for (size_t first = 0; first < rows.size(); ++first) {
    for (size_t i = 0; i < n; ++i) rows[first].push_back((first + (i % 2 == 1 ? (i + 1) / 2 : n - i / 2)) % n);
  }
  return rows;
}

// std::shuffle is not the same everywhere; this is.
template <class T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

Json to_json(const Shape& shape) {
  Json json{{"batch", shape.B}, {"context", shape.T}, {"accumulation", shape.accumulation}};
  if (shape.positions > 0) json["positions"] = shape.positions;
  return json;
}

Shape shape_from_json(const Json& json) {
  return {.B = json.at("batch"),
          .T = json.at("context"),
          .accumulation = json.at("accumulation"),
          .positions = json.value("positions", int64_t{0})};
}

// What the analysis of each mode takes for granted (modes.cpp plans it so, a file may say anything).
void check_mode(const Plan& plan, const std::string& where) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("{}: mode {}: {}", where, name_of(plan.mode), why));
  };
  if (plan.mode == Mode::sweep && plan.swept.empty()) refuse("\"swept\" is missing");
  if (plan.mode == Mode::leave_one_out && plan.rungs.size() < 2) refuse("rung 1, with everything on, is missing");
  if (plan.mode == Mode::leave_one_out || plan.mode == Mode::one_at_a_time) {
    for (size_t i = 0; i < plan.rungs.size(); ++i) {
      if (plan.rungs[i].against && plan.rungs[i].optimization.empty()) {
        refuse(fmt::format("rung {} is compared with another, but is about no optimization", i));
      }
    }
  }
  if (plan.mode != Mode::factorial) return;
  const std::vector<std::string>& base = plan.rungs[plan.reference].applied;
  std::set<std::set<std::string>> subsets;
  std::set<std::string> factors;
  for (const Rung& rung : plan.rungs) {
    std::set<std::string> subset(rung.applied.begin(), rung.applied.end());
    for (const std::string& name : base) subset.erase(name);
    factors.insert(subset.begin(), subset.end());
    subsets.insert(subset);
    if (subset.size() + base.size() != rung.applied.size()) refuse("a rung lacks what the reference has on");
  }
  if (subsets.size() != plan.rungs.size() || factors.size() > most_factors ||
      subsets.size() != size_t{1} << factors.size()) {
    refuse(fmt::format("{} rungs, {} optimizations; each of their subsets once is needed, of at most {}",
                       plan.rungs.size(), factors.size(), most_factors));
  }
}

}  // namespace

PlannedRun run_of(const std::vector<Rung>& rungs, size_t rung, int64_t repeat) {
  return {fmt::format("r{}-{:02}-{}", repeat + 1, rung, name_of(rungs[rung])), rung, repeat};
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
    std::vector<size_t> row = rows[static_cast<size_t>(repeat / 2) % rows.size()];
    if (repeat % 2 == 1) std::ranges::reverse(row);
    for (const size_t treatment : row) runs.push_back(run_of(rungs, measured[treatment], repeat));
  }
  return runs;
}

Shape shape_of(const Plan& plan) { return {plan.B, plan.T, plan.accumulation, plan.positions}; }

Shape shape_of(const Plan& plan, size_t rung) { return plan.rungs[rung].shape.value_or(shape_of(plan)); }

std::optional<size_t> reference_of(const Plan& plan, size_t rung) {
  if (plan.rungs[rung].reference) return plan.rungs[rung].reference;
  if (plan.mode != Mode::cumulative || rung == plan.reference) return std::nullopt;
  return plan.reference;
}

bool uses_cuda(const Plan& plan) {
  return std::ranges::any_of(plan.rungs, [](const Rung& rung) {
    return rung.status == Rung::Status::planned && rung.recipe.device == model::Device::cuda;
  });
}

std::string label_of(const Plan& plan, size_t rung, const std::string& title) {
  const bool adds = plan.mode == Mode::cumulative || plan.mode == Mode::one_at_a_time;
  return (adds && rung > 0 && plan.rungs[rung].peer.empty() ? "+ " : "") + title;
}

Json ladder_json(const Plan& plan) {
  Json json{{"name", plan.ladder_name}, {"title", plan.ladder_title}};
  if (!plan.ladder_file.empty()) json["file"] = plan.ladder_file;
  return json;
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
    Json& json = rungs.back();
    if (!rung.name.empty()) json["name"] = rung.name;
    if (!rung.peer.empty()) json["peer"] = rung.peer;
    if (!rung.program.empty()) json["program"] = rung.program;
    if (rung.against) json["against"] = *rung.against;
    if (rung.reference) json["reference"] = *rung.reference;
    if (rung.shape) json["workload"] = to_json(*rung.shape);
  }
  for (const PlannedRun& run : plan.runs) runs.push_back({{"id", run.id}, {"rung", run.rung}, {"repeat", run.repeat}});
  Json workload{{"model", plan.model},
                {"seed", plan.seed},
                {"threads", plan.threads},
                {"data", plan.data},
                {"vocabulary", plan.vocabulary}};
  workload.update(to_json(shape_of(plan)));
  if (!plan.tokens.empty()) workload["tokens"] = plan.tokens;
  Json document{{"kind", "plan"},
                {"schema_version", 1},
                {"mode", name_of(plan.mode)},
                {"id", plan.id},
                {"created", plan.created},
                {"ladder", ladder_json(plan)},
                {"workload", workload},
                {"warmup_steps", plan.warmup_steps},
                {"timed_steps", plan.timed_steps},
                {"repeats", plan.repeats},
                {"order_seed", plan.order_seed},
                {"run_limit_s", plan.run_limit_s},
                {"reference", plan.reference},
                {"rungs", rungs},
                {"runs", runs}};
  if (!plan.swept.empty()) document["swept"] = plan.swept;
  if (plan.gate) {
    document["gate"] = {{"min_effect", plan.gate->min_effect}, {"top_up", plan.gate->top_up},
                        {"baselines", plan.gate->baselines},   {"calibrates", plan.gate->calibrates},
                        {"saves", plan.gate->saves},           {"force", plan.gate->force}};
  }
  if (plan.shard) document["shard"] = {{"index", plan.shard->index}, {"count", plan.shard->count}};
  return document;
}

Plan plan_from_json(const Json& json, const std::string& where) {
  const Json& workload = json.at("workload");
  Plan plan{.id = json.at("id"),
            .created = json.at("created"),
            .ladder_name = json.at("ladder").at("name"),
            .ladder_title = json.at("ladder").at("title"),
            .ladder_file = json.at("ladder").value("file", ""),
            .model = workload.at("model"),
            .B = workload.at("batch"),
            .T = workload.at("context"),
            .accumulation = workload.at("accumulation"),
            .positions = workload.value("positions", int64_t{0}),
            .seed = workload.at("seed"),
            .threads = workload.at("threads"),
            .data = workload.at("data"),
            .vocabulary = workload.at("vocabulary"),
            .tokens = workload.value("tokens", ""),
            .warmup_steps = json.at("warmup_steps"),
            .timed_steps = json.at("timed_steps"),
            .repeats = json.at("repeats"),
            .order_seed = json.at("order_seed"),
            .run_limit_s = json.at("run_limit_s"),
            .rungs = {},
            .reference = json.value("reference", size_t{0}),
            .runs = {},
            .mode = mode_of(json.value("mode", "cumulative"), where + ": mode"),
            .swept = json.value("swept", "")};
  if (json.contains("shard")) plan.shard = Shard{json.at("shard").at("index"), json.at("shard").at("count")};
  if (plan.shard && plan.shard->index > plan.shard->count) {
    throw std::invalid_argument(
        fmt::format("{}: there is no shard {} of {}", where, plan.shard->index, plan.shard->count));
  }
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
                          .reason = rung.at("reason"),
                          .name = rung.value("name", ""),
                          .peer = rung.value("peer", ""),
                          .program = rung.value("program", "")});
    Rung& added = plan.rungs.back();
    if (rung.contains("against")) added.against = rung.at("against").get<size_t>();
    if (rung.contains("reference")) added.reference = rung.at("reference").get<size_t>();
    if (rung.contains("workload")) added.shape = shape_from_json(rung.at("workload"));
    for (const auto& other : {added.against, added.reference}) {
      if (other && (*other >= json.at("rungs").size() || *other + 1 == plan.rungs.size())) {
        throw std::invalid_argument(fmt::format("{}: rung {} is compared with rung {}, which is not another rung",
                                                where, plan.rungs.size() - 1, *other));
      }
    }
    for (const std::string& applied : plan.rungs.back().applied) {
      if (find_optimization(applied) == nullptr) {
        throw std::invalid_argument(fmt::format("{}: unknown optimization \"{}\"", where, applied));
      }
    }
    if (std::set(added.applied.begin(), added.applied.end()).size() != added.applied.size()) {
      throw std::invalid_argument(
          fmt::format("{}: rung {} has an optimization on twice", where, plan.rungs.size() - 1));
    }
  }
  if (json.contains("gate")) {
    const Json& gate = json.at("gate");
    plan.gate = GateTerms{.min_effect = gate.at("min_effect"),
                          .top_up = gate.at("top_up"),
                          .baselines = gate.at("baselines"),
                          .calibrates = gate.at("calibrates"),
                          .saves = gate.at("saves"),
                          .force = gate.at("force")};
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
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    if (plan.rungs[i].status == Rung::Status::planned &&
        std::ranges::find(plan.runs, i, &PlannedRun::rung) == plan.runs.end()) {
      throw std::invalid_argument(fmt::format("{}: rung {} is planned, and no run is of it", where, i));
    }
  }
  if (plan.reference >= plan.rungs.size()) {
    throw std::invalid_argument(fmt::format("{}: reference {} is not a rung", where, plan.reference));
  }
  check_mode(plan, where);
  return plan;
}

}  // namespace ablations
