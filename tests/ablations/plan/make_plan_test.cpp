// The order of runs, and plans that contradict themselves.
#include "ablations/plan/make_plan.h"

#include "ablations/gpt2/modes.h"
#include "ablations/plan/shard.h"
#include "tests/harness/machines.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace make_plan_test {

using namespace ablations;

std::vector<Rung> rungs(size_t n) {
  std::vector<Rung> result;
  for (size_t i = 0; i < n; ++i)
    result.push_back({.optimization = i == 0 ? "" : "bf16",
                      .title = "t",
                      .applied = {},
                      .recipe = plain_recipe(),
                      .reason = "",
                      .losses = ExpectedLosses()});
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

TEST(Plan, OfASweepHasTheSizesAndReferencesOfItsRungs) {
  Plan plan{.workload = {{.B = 3, .T = 8, .positions = 256}, "tiny"}, .mode = Mode::sweep, .swept = Swept::context};
  const auto& machine = harness::this_machine();
  const Design design = design_of({.sweep = "context=8,256", .rungs = {"start", "flash"}}, machine);
  plan.rungs = rungs_of(load_ladder("tiny"), design, shape_of(plan), machine);
  EXPECT_EQ(plan.rungs[3].reference, 2U);
  EXPECT_EQ(shape_of(plan, 3), (Shape{.B = 3, .T = 256, .accumulation = 1, .positions = 256}));
  EXPECT_EQ(reference_of(plan, 0), std::nullopt);
}

Plan smallest_plan() {
  return {.id = "x",
          .created = "",
          .ladder = {.name = "x"},
          .workload = {{}, "tiny"},
          .rungs = rungs(1),
          .runs = {{"r1", 0, 0}}};
}

std::string refusal(const Plan& plan, const char* pointer, const files::Json& value) {
  files::Json changed = json_of(plan);
  changed[files::Json::json_pointer(pointer)] = value;
  return refusal_of([&] { return value_from<Plan>(changed, "here"); });
}

TEST(Plan, RefusesWhatContradictsItself) {
  const Plan plan = smallest_plan();
  EXPECT_EQ(refusal(plan, "/id", "x"), "accepted");
  const std::string of_run = "run \"r1\" appears twice, or its rung or repeat is not in the plan";
  for (const auto& [pointer, value, words] : std::vector<std::tuple<const char*, files::Json, std::string>>{
           {"/runs/0/rung", 5, of_run},
           {"/runs/0/rung", 1e21, "rung"},
           {"/runs/0/repeat", 5, of_run},
           {"/runs/1", json_of(plan)["runs"][0], of_run},
           {"/runs", files::Json::array(), "rung 0 is planned but has no run"},
           {"/reference", 9, "reference 9 is not a rung"},
           {"/rungs/0/reference", 99, "rung 0 must be compared with another rung"},
           {"/rungs/0/reference", 0, "rung 0 must be compared with another rung"},
           {"/rungs/0/optimization", "../x", "optimization"},  // it names files
           {"/rungs/0/text", "/etc/passwd", "text"},           // it is read
           {"/rungs/0/text", "ablations/techniques/../../secret.md", "text"},
           {"/rungs/0/losses", nullptr, "losses"},
           {"/shard", {{"index", 4}, {"count", 3}}, "shard"}}) {
    EXPECT_TRUE(has(refusal(plan, pointer, value), words)) << pointer << ": " << value;
  }
}

// What it names is run: in a study's plan somebody else has put it there.
TEST(Plan, OnlyOfAGateNamesPrograms) {
  Plan plan = smallest_plan();
  const auto refused = [&] { return refusal(plan, "/id", "x") != "accepted"; };
  EXPECT_FALSE(refused());
  plan.gate = GateTerms{};
  EXPECT_TRUE(refused());
  plan.rungs[0].program = "/bin/sh";
  plan.rungs[0].program_sha256 = std::string(64, 'a');
  EXPECT_FALSE(refused());
  plan.gate.reset();
  EXPECT_TRUE(refused());
}

}  // namespace make_plan_test

namespace gate_plan_test {

// The arms of a gate and the order of their runs.

using namespace ablations;

std::vector<Rung> arms_of(const std::string& base) {
  std::vector<Rung> arms;
  for (const char* name : {"bf16", "flash"}) {
    add_arms(arms,
             {.optimization = name,
              .title = name,
              .applied = {name},
              .recipe = plain_recipe(),
              .reason = "",
              .losses = ExpectedLosses{.tolerance = 0.5}},
             base, "new");
  }
  return arms;
}

std::string ids(const std::vector<PlannedRun>& runs) {
  std::string joined;
  for (const PlannedRun& run : runs) joined += run.id + " ";
  return joined;
}

bool is_blocked_with(const std::vector<Rung>& arms, bool blocked) {
  Plan plan;
  plan.rungs = arms;
  plan.runs = abba(arms, 2, blocked);
  return is_blocked(plan);
}

TEST(GatePlan, HeadIsComparedWithTheBaseBesideIt) {
  const auto arms = arms_of("old");
  for (const Rung& arm : arms) EXPECT_EQ(arm.losses.value().tolerance, 0.5);
  ASSERT_EQ(arms.size(), 4U);
  EXPECT_EQ(name_of(arms[2]), "base-flash");
  EXPECT_EQ(arms[2].program, "old");
  EXPECT_EQ(name_of(arms[3]), "head-flash");
  EXPECT_EQ(arms[3].program, "new");
  EXPECT_EQ(arms[3].applied, std::vector<std::string>{"flash"});
  EXPECT_EQ(arms[1].against, 0U);
  EXPECT_EQ(arms[3].against, 2U);
  EXPECT_TRUE(is_base(arms, 2));
  EXPECT_FALSE(is_base(arms, 3));
  EXPECT_FALSE(is_base(arms_of(""), 0));
}

TEST(GatePlan, SidesTakeTurnsToBeginAndSoDoRecipes) {
  EXPECT_EQ(ids(abba(arms_of("old"), 3, false)),
            "r1-00-base-bf16 r1-01-head-bf16 r1-02-base-flash r1-03-head-flash "
            "r2-03-head-flash r2-02-base-flash r2-01-head-bf16 r2-00-base-bf16 "
            "r3-00-base-bf16 r3-01-head-bf16 r3-02-base-flash r3-03-head-flash ");
  EXPECT_EQ(ids(abba(arms_of(""), 2, false)), "r1-00-head-bf16 r1-01-head-flash r2-01-head-flash r2-00-head-bf16 ");
  EXPECT_FALSE(is_blocked_with(arms_of("old"), false));
}

TEST(GatePlan, BlockedIsAllOfBaseFirst) {
  EXPECT_EQ(ids(abba(arms_of("old"), 2, true)),
            "r1-00-base-bf16 r1-02-base-flash r2-02-base-flash r2-00-base-bf16 "
            "r1-01-head-bf16 r1-03-head-flash r2-03-head-flash r2-01-head-bf16 ");
  EXPECT_TRUE(is_blocked_with(arms_of("old"), true));
}

}  // namespace gate_plan_test

namespace quick_test {

// A quick look at a ladder, and the whole ladder that goes on from it.

using namespace ablations;

Plan plan_of(const std::string& ladder_name, int64_t repeats, const harness::Machine& machine = machines::cpu) {
  const Ladder ladder = load_ladder(ladder_name);
  Plan plan{.id = "test",
            .created = "2026-11-24T10:00:00Z",
            .ladder = {.name = ladder.name, .title = ladder.title},
            .workload = {{}, ladder.workload.model, 1, 1, "text", "vocabulary"},
            .repeats = repeats,
            .order_seed = 7};
  plan.rungs = rungs_of(ladder, {}, {}, machine);
  plan.reference = reference_rung(plan.rungs);
  plan.runs = interleave(plan.rungs, repeats, plan.order_seed);
  return plan;
}

std::vector<std::string> measured(const Plan& plan) {
  std::vector<std::string> names;
  for (const Rung& rung : plan.rungs) {
    if (rung.status == Rung::Status::planned) names.push_back(name_of(rung));
  }
  return names;
}

std::map<size_t, std::set<int64_t>> repeats_of(const Plan& plan) {
  std::map<size_t, std::set<int64_t>> repeats;
  for (const PlannedRun& run : plan.runs) EXPECT_TRUE(repeats[run.rung].insert(run.repeat).second) << run.id;
  return repeats;
}

TEST(Quick, MeasuresTheReferenceAndTheLastRungThatAppliesFourTimes) {
  Plan plan = plan_of("gpt2-cpu", 6), shorter = plan, only_one = plan, on_gpu = plan_of("gpt2", 5, machines::hopper);
  shorter.rungs.back().status = Rung::Status::not_applicable;
  const std::string before_it = measured(shorter).back();
  only_one.rungs.resize(1);
  for (Plan* each : {&plan, &shorter, &only_one, &on_gpu}) make_quick(*each);
  EXPECT_EQ(measured(plan), (std::vector<std::string>{"start", "fused_adamw"}));
  EXPECT_EQ(plan.runs.size(), 8U);
  EXPECT_EQ(plan.rungs[2].status, Rung::Status::not_measured);
  EXPECT_NE(plan.rungs[2].reason.find("--quick"), std::string::npos);
  EXPECT_EQ(measured(shorter), (std::vector<std::string>{"start", before_it}));
  EXPECT_EQ(only_one.runs.size(), 4U) << "a ladder that is only its reference";
  EXPECT_EQ(measured(on_gpu), (std::vector<std::string>{"gpu", "fp8"}));
}

TEST(Quick, ItsRecordsAreOfTheWholeLaddersPlan) {
  Plan plan = plan_of("gpt2-cpu", 6);
  const files::Json other = identity_of(plan);
  make_quick(plan);
  EXPECT_EQ(identity_of(plan), identity_of(whole_plan(plan)));
  EXPECT_NE(identity_of(plan), other);
}

TEST(Quick, ItsRunsAreAPartOfTheWholeLadders) {
  const Plan planned = plan_of("gpt2-cpu", 10);
  Plan quick = planned;
  make_quick(quick);
  const Plan whole = whole_plan(quick);
  EXPECT_FALSE(whole.quick);
  EXPECT_EQ(whole.repeats, 10);
  EXPECT_EQ(measured(whole), measured(planned));
  for (size_t i = 0; i < quick.runs.size(); ++i) EXPECT_EQ(whole.runs[i].id, quick.runs[i].id);
  const auto of_quick = repeats_of(quick);
  for (const auto& [rung, repeats] : repeats_of(whole)) {
    const bool was_quick = of_quick.contains(rung);
    EXPECT_EQ(repeats,
              was_quick ? (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) : (std::set<int64_t>{4, 5, 6, 7, 8, 9}))
        << rung;
  }
  EXPECT_TRUE(std::ranges::is_sorted(whole.runs, {}, &PlannedRun::repeat)) << "no pair of runs spans the pause";
}

TEST(Quick, AShortLadderStillGetsFourWholeRepeats) {
  Plan quick = plan_of("tiny", 1);
  make_quick(quick);
  EXPECT_EQ(whole_plan(quick).repeats, 8);
}

TEST(Quick, RefusesPlansThatLeaveOutWhatIsMeasured) {
  Plan quick = plan_of("gpt2-cpu", 6);
  make_quick(quick);
  const files::Json json = json_of(quick);
  EXPECT_EQ(json_of(whole_plan(value_from<Plan>(json, "plan"))), json_of(whole_plan(quick)));
  for (const auto& [field, value] :
       std::vector<std::pair<const char*, files::Json>>{{"left_out", {0}}, {"left_out", {99}}, {"repeats", 4}}) {
    files::Json edited = json;
    edited["quick"][field] = value;
    EXPECT_THROW((void)value_from<Plan>(edited, "plan"), std::invalid_argument) << field << value;
  }
}

}  // namespace quick_test
