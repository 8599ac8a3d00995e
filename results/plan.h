// A plan (results/schemas/plan.v1.json, which says what its fields mean): which recipes, which runs, in which order.
// plan/ makes it of a ladder. It is written before the first run and never changed; a study is resumed by reading it
// again.
#pragma once

#include "harness/stats/verdict.h"
#include "results/common.h"
#include "results/observations.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// One recipe that a study measures. In a cumulative ladder: that of the rung below and one edit more; in other modes
// also at another size or by another program, as the fields say.
struct Rung {
  enum class Status { planned, not_applicable, not_measured };
  std::string optimization;  // the one it is about; empty: the start, or a set that has no name of its own
  std::string title;
  std::vector<std::string> applied;  // optimizations on at this rung, in order
  model::Recipe recipe;
  Status status = Status::planned;
  std::string reason;  // why it is not planned

  std::string name = {};               // in its runs' ids; empty: the optimization's, or "start"
  std::optional<Shape> shape = {};     // where it is not the plan's
  std::string peer = {};               // who runs it: empty: a ladder program; "pytorch-eager", ...
  std::string program = {};            // which one; empty: this
  std::string program_sha256 = {};     // of that file; empty: not known
  std::optional<size_t> against = {};  // the rung that it is compared with, besides the reference; none: the one below
  std::optional<size_t> reference = {};  // the rung whose losses guard it and speedup_first counts from

  static void fields(auto&& field) {
    field("optimization", &Rung::optimization, None::default_null);
    field("title", &Rung::title);
    field("applied", &Rung::applied);
    field("recipe", &Rung::recipe);
    field("status", &Rung::status);
    field("reason", &Rung::reason);
    field("name", &Rung::name, None::default_absent);
    field("workload", &Rung::shape, None::absent);
    field("peer", &Rung::peer, None::default_absent);
    field("program", &Rung::program, None::default_absent);
    field("program_sha256", &Rung::program_sha256, None::default_absent);
    field("against", &Rung::against, None::absent);
    field("reference", &Rung::reference, None::absent);
  }
};

template <>
struct Names<Rung::Status> {
  static constexpr std::array list{"planned", "not_applicable", "not_measured"};
};

struct PlannedRun {
  std::string id;  // "r2-03-bf16": repeat 2, rung 3 (run_of in plan/plan.h)
  size_t rung = 0;
  int64_t repeat = 0;

  static void fields(auto&& field) {
    field("id", &PlannedRun::id);
    field("rung", &PlannedRun::rung);
    field("repeat", &PlannedRun::repeat);
  }
};

// What every run does, but for its rung's recipe.
struct PlannedWorkload : Shape {
  std::string model;
  uint64_t seed = 1;
  int64_t threads = 1;
  std::string data, vocabulary;  // files
  std::string tokens = {};       // the token file made of them, which the runs read; empty: they read the data
  bool cold_cache = false;       // each run begins without its data in the page cache
  std::optional<RepeatedText> repeated = {};  // what the data were made of

  static void fields(auto&& field) {
    Shape::fields(field);
    field("model", &PlannedWorkload::model);
    field("seed", &PlannedWorkload::seed);
    field("threads", &PlannedWorkload::threads);
    field("data", &PlannedWorkload::data);
    field("vocabulary", &PlannedWorkload::vocabulary);
    field("tokens", &PlannedWorkload::tokens, None::default_absent);
    field("cold_cache", &PlannedWorkload::cold_cache, None::default_absent);
    field("repeated", &PlannedWorkload::repeated, None::absent);
  }
};

// What a gate declares before its first run.
struct GateTerms {
  double min_effect = harness::usual_min_effect;
  int64_t top_up = 0;     // of the plan's repeats, so many come only if the others leave it open
  std::string baselines;  // the folder with baselines and noise floors
  bool calibrates = false, saves = false, force = false;

  static void fields(auto&& field) {
    field("min_effect", &GateTerms::min_effect);
    field("top_up", &GateTerms::top_up);
    field("baselines", &GateTerms::baselines);
    field("calibrates", &GateTerms::calibrates);
    field("saves", &GateTerms::saves);
    field("force", &GateTerms::force);
  }
};

// That a plan is a quick look at a ladder, and what goes on from it (plan/quick.h).
struct Quick {
  int64_t repeats = 0;           // of the whole ladder's plan
  std::vector<size_t> left_out;  // rungs

  static void fields(auto&& field) {
    field("repeats", &Quick::repeats);
    field("left_out", &Quick::left_out);
  }
};

// A part of a plan (plan/shard.h).
struct Shard {
  int64_t index = 0, count = 0;  // 1 <= index <= count

  static void fields(auto&& field) {
    field("index", &Shard::index);
    field("count", &Shard::count);
  }
};

constexpr size_t most_factors = 6;  // of a factorial: 64 subsets

struct Plan {
  static constexpr auto kind = "plan";

  std::string id, created;  // created: UTC, ISO 8601; empty where several machines make the same plan
  NamedLadder ladder;
  PlannedWorkload workload;
  int64_t warmup_steps = 0, timed_steps = 1, repeats = 1;
  double least_window_s = 0;  // of the timed steps on a GPU: more of them, if it takes more
  uint64_t order_seed = 0;
  double run_limit_s = 600;
  std::vector<Rung> rungs;
  size_t reference = 0;
  std::vector<PlannedRun> runs;  // in the order in which they are made
  Mode mode = Mode::cumulative;
  std::optional<Swept> swept = {};  // in a sweep
  std::optional<Shard> shard = {};  // the part that is made in this folder; none: all of it
  std::optional<GateTerms> gate = {};
  std::optional<Quick> quick = {};
  std::vector<ProductTiming> product_timings = {};  // that chose the rungs' recipes on a CPU, once for all runs

  // What a schema cannot say: throws std::invalid_argument where it contradicts itself, or lacks what the analysis of
  // its mode takes for granted; `where` begins the message. Whether this program knows its optimizations is asked by
  // plan_from_json (plan/plan.h).
  void check(const std::string& where) const;

  static void fields(auto&& field) {
    field("id", &Plan::id);
    field("created", &Plan::created);
    field("ladder", &Plan::ladder);
    field("workload", &Plan::workload);
    field("warmup_steps", &Plan::warmup_steps);
    field("timed_steps", &Plan::timed_steps);
    field("least_window_s", &Plan::least_window_s, None::default_absent);
    field("repeats", &Plan::repeats);
    field("order_seed", &Plan::order_seed);
    field("run_limit_s", &Plan::run_limit_s);
    field("rungs", &Plan::rungs);
    field("reference", &Plan::reference);
    field("runs", &Plan::runs);
    field("mode", &Plan::mode);
    field("swept", &Plan::swept, None::absent);
    field("shard", &Plan::shard, None::absent);
    field("gate", &Plan::gate, None::absent);
    field("quick", &Plan::quick, None::absent);
    field("product_timings", &Plan::product_timings, None::default_absent);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const Plan&);
extern template Plan value_from(const files::Json&, const std::string&);
extern template files::Json json_of(const Rung&);
extern template Rung value_from(const files::Json&, const std::string&);

}  // namespace ablations
