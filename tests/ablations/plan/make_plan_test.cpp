// The order of runs, and plans through JSON.
#include "ablations/plan/make_plan.h"

#include "harness/process/utc.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace make_plan_test {

using namespace ablations;

std::vector<Rung> rungs(size_t n) {
  std::vector<Rung> result;
  for (size_t i = 0; i < n; ++i)
    result.push_back({.optimization = i == 0 ? "" : "bf16", .title = "t", .applied = {}, .recipe = {}, .reason = ""});
  return result;
}

TEST(Interleave, EveryRepeatHasEveryPlannedRungOnce) {
  auto seven = rungs(7);
  seven[3].status = Rung::Status::not_applicable;
  const auto runs = interleave(seven, 5, 42);
  EXPECT_EQ(runs.size(), 30U);
  for (int64_t repeat = 0; repeat < 5; ++repeat) {
    std::set<size_t> seen;
    for (const PlannedRun& run : runs) {
      if (run.repeat == repeat) seen.insert(run.rung);
    }
    EXPECT_EQ(seen, (std::set<size_t>{0, 1, 2, 4, 5, 6}));
  }
}

TEST(Interleave, BalancesPlacesAndPredecessors) {
  for (size_t n = 2; n <= 12; ++n) {
    const int64_t repeats = static_cast<int64_t>(n % 2 == 0 ? n : 2 * n);
    const auto runs = interleave(rungs(n), repeats, 7);
    std::map<std::pair<size_t, size_t>, int> places, successions;
    for (size_t i = 0; i < runs.size(); ++i) {
      ++places[{runs[i].rung, i % n}];
      if (i % n > 0) ++successions[{runs[i - 1].rung, runs[i].rung}];
    }
    EXPECT_EQ(places.size(), n * n);
    for (const auto& [key, count] : places) EXPECT_EQ(count, repeats / static_cast<int64_t>(n));
    EXPECT_EQ(successions.size(), n * (n - 1));
    for (const auto& [key, count] : successions) EXPECT_EQ(count, repeats / static_cast<int64_t>(n));
  }
}

TEST(Interleave, BalancesPlacesOverEveryTwoRepeats) {
  for (size_t n = 1; n <= 12; ++n) {
    const auto runs = interleave(rungs(n), 6, 7);
    ASSERT_EQ(runs.size(), 6 * n);
    for (size_t first = 0; first < runs.size(); first += 2 * n) {
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(runs[first + i].rung, runs[first + 2 * n - 1 - i].rung) << n;
    }
  }
}

TEST(Interleave, SeedDecides) {
  const auto order = [](uint64_t seed) {
    std::string ids;
    for (const PlannedRun& run : interleave(rungs(6), 3, seed)) ids += run.id + " ";
    return ids;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(Plan, SurvivesJson) {
  Plan plan{.id = "x-1",
            .created = harness::utc_now(),
            .ladder = {.name = "x", .title = "X"},
            .workload = {{}, "tiny", 1, 1, "d", "v"},
            .repeats = 2,
            .order_seed = 9,
            .rungs = climb(load_ladder("tiny"), harness::this_machine()),
            .reference = 0,
            .runs = {}};
  plan.runs = interleave(plan.rungs, plan.repeats, plan.order_seed);
  const files::Json json = json_of(plan);
  (void)value_from<Plan>(json, "the plan");
  EXPECT_EQ(json_of(plan_from_json(json, "here")), json);
}

TEST(Plan, OfAnotherModeSurvivesJson) {
  Plan plan{.id = "x-1",
            .created = harness::utc_now(),
            .ladder = {.name = "x", .title = "X"},
            .workload = {{.B = 3, .T = 8, .positions = 256}, "tiny", 1, 1, "d", "v", "t.bin"},
            .mode = Mode::sweep,
            .swept = Swept::context};
  const auto& machine = harness::this_machine();
  plan.rungs = rungs_of(
      load_ladder("tiny"),
      design_of({.sweep = "context=8,256", .peer = "pytorch", .peer_modes = "eager", .rungs = {"start", "flash"}},
                machine),
      shape_of(plan), machine);
  plan.runs = interleave(plan.rungs, plan.repeats, plan.order_seed);
  const files::Json json = json_of(plan);
  (void)value_from<Plan>(json, "the plan");
  const Plan again = plan_from_json(json, "here");
  EXPECT_EQ(json_of(again), json);
  EXPECT_EQ(again.rungs[3].reference, 2U);
  EXPECT_EQ(shape_of(again, 3), (Shape{.B = 3, .T = 256, .accumulation = 1, .positions = 256}));
  EXPECT_EQ(again.rungs.back().peer, "pytorch-eager");
  EXPECT_EQ(reference_of(again, 0), std::nullopt);
  files::Json wrong = json;
  wrong["rungs"][3]["reference"] = 99;
  EXPECT_THROW((void)plan_from_json(wrong, "here"), std::invalid_argument);
  wrong["rungs"][3]["reference"] = 3;  // itself
  EXPECT_THROW((void)plan_from_json(wrong, "here"), std::invalid_argument);
}

Plan smallest_plan() {
  return {.id = "x",
          .created = "",
          .ladder = {.name = "x"},
          .workload = {{}, "tiny"},
          .rungs = rungs(1),
          .runs = {{"r1", 0, 0}}};
}

TEST(Plan, RefusesWhatContradictsItself) {
  files::Json json = json_of(smallest_plan());
  const auto refusal = [&](const char* pointer, const files::Json& value) -> std::string {
    files::Json changed = json;
    changed[files::Json::json_pointer(pointer)] = value;
    try {
      (void)value_from<Plan>(changed, "here");
      (void)plan_from_json(changed, "here");
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto says = [&](const char* pointer, const files::Json& value, const std::string& words) {
    EXPECT_NE(refusal(pointer, value).find(words), std::string::npos) << pointer << ": " << refusal(pointer, value);
  };
  EXPECT_EQ(refusal("/id", "x"), "accepted");
  says("/kind", "study", "not a plan: \"kind\" is \"study\"");
  says("/schema_version", 7, "\"schema_version\" is 7");
  says("/timed_steps", "many", "timed_steps");
  files::Json seedless = json["workload"];
  seedless.erase("seed");
  says("/workload", seedless, "seed");
  const std::string of_run = "run \"r1\" appears twice, or its rung or repeat is not in the plan";
  says("/runs/0/rung", 5, of_run);
  says("/runs/0/rung", 1e21, "rung");
  says("/runs/0/repeat", 5, of_run);
  says("/runs/1", json["runs"][0], of_run);
  says("/runs", files::Json::array(), "rung 0 is planned but has no run");
  says("/reference", 9, "reference 9 is not a rung");
  says("/rungs/0/recipe/device", "tpu", "recipe field \"device\" must be one of cpu, cuda, got \"tpu\"");
  says("/rungs/0/optimization", "warp", "unknown optimization \"warp\"");
  says("/rungs/0/applied", files::Json::array({"warp"}), "unknown optimization \"warp\"");
}

// What it names is run: in a study's plan somebody else has put it there.
TEST(Plan, OnlyOfAGateNamesPrograms) {
  Plan plan = smallest_plan();
  EXPECT_NO_THROW((void)plan_from_json(json_of(plan), "here"));
  plan.gate = GateTerms{};
  EXPECT_THROW((void)plan_from_json(json_of(plan), "here"), std::invalid_argument);
  plan.rungs[0].program = "/bin/sh";
  plan.rungs[0].program_sha256 = std::string(64, 'a');
  const files::Json json = json_of(plan);
  (void)value_from<Plan>(json, "the plan");
  EXPECT_EQ(json_of(plan_from_json(json, "here")), json);
  plan.gate.reset();
  EXPECT_THROW((void)plan_from_json(json_of(plan), "here"), std::invalid_argument);
}

}  // namespace make_plan_test
