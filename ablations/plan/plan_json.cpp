#include "ablations/plan/plan_json.h"

#include "ablations/techniques/techniques.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

namespace ablations {

using files::Json;

namespace {

constexpr std::array<const char*, 3> status_names{"planned", "not_applicable", "not_measured"};

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

Rung rung_from_json(const Json& json, const std::string& where) {
  const auto check_known = [&](const std::string& optimization) {
    if (find_optimization(optimization) != nullptr) return;
    throw std::invalid_argument(fmt::format("{}: unknown optimization \"{}\"", where, optimization));
  };
  const auto status = std::ranges::find(status_names, json.at("status").get<std::string>());
  const Json& optimization = json.at("optimization");
  Rung rung{.optimization = optimization.is_null() ? "" : optimization.get<std::string>(),
            .title = json.at("title"),
            .applied = json.at("applied"),
            .recipe = model::recipe_from_json(json.at("recipe"), where),
            .status = static_cast<Rung::Status>(status - status_names.begin()),
            .reason = json.at("reason"),
            .name = json.value("name", ""),
            .peer = json.value("peer", ""),
            .program = json.value("program", ""),
            .program_sha256 = json.value("program_sha256", "")};
  if (!optimization.is_null()) check_known(rung.optimization);
  std::ranges::for_each(rung.applied, check_known);
  if (json.contains("against")) rung.against = json.at("against").get<size_t>();
  if (json.contains("reference")) rung.reference = json.at("reference").get<size_t>();
  if (json.contains("workload")) rung.shape = shape_from_json(json.at("workload"));
  return rung;
}

GateTerms gate_from_json(const Json& json) {
  return {.min_effect = json.at("min_effect"),
          .top_up = json.at("top_up"),
          .baselines = json.at("baselines"),
          .calibrates = json.at("calibrates"),
          .saves = json.at("saves"),
          .force = json.at("force")};
}

void check_rungs(const Plan& plan, const std::string& where) {
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& rung = plan.rungs[i];
    for (const auto& other : {rung.against, rung.reference}) {
      if (other && (*other >= plan.rungs.size() || *other == i)) {
        throw std::invalid_argument(
            fmt::format("{}: rung {} must be compared with another rung of the plan, got {}", where, i, *other));
      }
    }
    if (plan.gate ? rung.program.empty() || !rung.peer.empty() : !rung.program.empty()) {
      throw std::invalid_argument(fmt::format("{}: rung {} {}", where, i,
                                              plan.gate ? "has no \"program\", which a gate's plan needs"
                                                        : "has a \"program\", which only a gate's plan may have"));
    }
    if (std::set(rung.applied.begin(), rung.applied.end()).size() != rung.applied.size()) {
      throw std::invalid_argument(fmt::format("{}: rung {} has an optimization on twice", where, i));
    }
  }
  if (plan.reference >= plan.rungs.size()) {
    throw std::invalid_argument(fmt::format("{}: reference {} is not a rung", where, plan.reference));
  }
}

void check_runs(const Plan& plan, const std::string& where) {
  std::set<std::string> ids;
  std::set<size_t> measured;
  for (const PlannedRun& run : plan.runs) {
    if (run.rung >= plan.rungs.size() || run.repeat >= plan.repeats || !ids.insert(run.id).second) {
      throw std::invalid_argument(
          fmt::format("{}: run \"{}\" appears twice, or its rung or repeat is not in the plan", where, run.id));
    }
    measured.insert(run.rung);
  }
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    if (plan.rungs[i].status == Rung::Status::planned && !measured.contains(i)) {
      throw std::invalid_argument(fmt::format("{}: rung {} is planned but has no run", where, i));
    }
  }
}

// What whole_plan takes for granted.
void check_quick(const Plan& plan, const std::string& where) {
  if (!plan.quick) return;
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("{}: quick: {}", where, why));
  };
  if (plan.mode != Mode::cumulative || plan.shard || plan.gate) refuse("only a whole, cumulative ladder can be quick");
  if (plan.quick->repeats <= plan.repeats) refuse("the whole ladder must have more repeats");
  for (const size_t rung : plan.quick->left_out) {
    if (rung < plan.rungs.size() && plan.rungs[rung].status == Rung::Status::not_measured) continue;
    refuse(fmt::format("rung {} was not left out", rung));
  }
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
        refuse(fmt::format("rung {} is compared with another, but names no optimization", i));
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
    refuse(fmt::format("needs each subset of at most {} optimizations once, got {} rungs of {} optimizations",
                       most_factors, plan.rungs.size(), factors.size()));
  }
}

}  // namespace

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
    if (!rung.program_sha256.empty()) json["program_sha256"] = rung.program_sha256;
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
  if (plan.quick) document["quick"] = {{"repeats", plan.quick->repeats}, {"left_out", plan.quick->left_out}};
  if (plan.shard) document["shard"] = {{"index", plan.shard->index}, {"count", plan.shard->count}};
  return document;
}

Plan plan_from_json(const Json& json, const std::string& where) {
  const Json& workload = json.at("workload");
  const Shape shape = shape_from_json(workload);
  Plan plan{.id = json.at("id"),
            .created = json.at("created"),
            .ladder_name = json.at("ladder").at("name"),
            .ladder_title = json.at("ladder").at("title"),
            .ladder_file = json.at("ladder").value("file", ""),
            .model = workload.at("model"),
            .B = shape.B,
            .T = shape.T,
            .accumulation = shape.accumulation,
            .positions = shape.positions,
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
            .reference = json.at("reference"),
            .runs = {},
            .mode = mode_of(json.at("mode"), where + ": mode"),
            .swept = json.value("swept", "")};
  for (const Json& rung : json.at("rungs")) plan.rungs.push_back(rung_from_json(rung, where));
  for (const Json& run : json.at("runs")) plan.runs.push_back({run.at("id"), run.at("rung"), run.at("repeat")});
  if (json.contains("gate")) plan.gate = gate_from_json(json.at("gate"));
  if (json.contains("quick")) plan.quick = Quick{json.at("quick").at("repeats"), json.at("quick").at("left_out")};
  if (json.contains("shard")) plan.shard = Shard{json.at("shard").at("index"), json.at("shard").at("count")};
  if (plan.shard && plan.shard->index > plan.shard->count) {
    throw std::invalid_argument(
        fmt::format("{}: there is no shard {} of {}", where, plan.shard->index, plan.shard->count));
  }
  check_rungs(plan, where);
  check_runs(plan, where);
  check_mode(plan, where);
  check_quick(plan, where);
  return plan;
}

}  // namespace ablations
