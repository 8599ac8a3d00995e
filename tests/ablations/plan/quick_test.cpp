// A quick look at a ladder, and the whole ladder that goes on from it.
#include "ablations/plan/quick.h"

#include "ablations/plan/shard.h"
#include "tests/harness/machines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace quick_test {

using namespace ablations;

Plan plan_of(const std::string& ladder_name, int64_t repeats, const harness::Machine& machine = machines::cpu) {
  const Ladder ladder = load_ladder(ladder_name);
  Plan plan{.id = "test",
            .created = "2026-11-24T10:00:00Z",
            .ladder = {.name = ladder.name, .title = ladder.title},
            .workload = {{}, ladder.workload.model, 1, 1, "text", "vocabulary"},
            .repeats = repeats,
            .order_seed = 7};
  plan.rungs = climb(ladder, machine);
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

TEST(Quick, MeasuresTheReferenceAndTheLastRungFourTimes) {
  Plan plan = plan_of("gpt2-cpu", 6);
  make_quick(plan);
  EXPECT_EQ(measured(plan), (std::vector<std::string>{"start", "fused_adamw"}));
  EXPECT_EQ(plan.runs.size(), 8U);
  EXPECT_EQ(plan.rungs[2].status, Rung::Status::not_measured);
  EXPECT_NE(plan.rungs[2].reason.find("--quick"), std::string::npos);
}

TEST(Quick, EndsWithTheLastRungThatApplies) {
  Plan plan = plan_of("gpt2-cpu", 6);
  plan.rungs.back().status = Rung::Status::not_applicable;
  const std::string before_it = measured(plan).back();
  make_quick(plan);
  EXPECT_EQ(measured(plan), (std::vector<std::string>{"start", before_it}));
  plan = plan_of("gpt2-cpu", 6);
  plan.rungs.resize(1);
  make_quick(plan);
  EXPECT_EQ(plan.runs.size(), 4U) << "a ladder that is only its reference";
}

TEST(Quick, ItsRecordsAreOfTheWholeLaddersPlan) {
  Plan plan = plan_of("gpt2-cpu", 6);
  const files::Json other = identity_of(plan);
  make_quick(plan);
  EXPECT_EQ(identity_of(plan), identity_of(whole_plan(plan)));
  EXPECT_NE(identity_of(plan), other);
}

TEST(Quick, OnAGpuItBeginsAtTheReference) {
  Plan plan = plan_of("gpt2", 5, machines::hopper);
  make_quick(plan);
  EXPECT_EQ(measured(plan), (std::vector<std::string>{"gpu", "fp8"}));
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

TEST(Quick, PlansGoThroughJson) {
  Plan quick = plan_of("gpt2-cpu", 6);
  make_quick(quick);
  const files::Json json = json_of(quick);
  const Plan read = plan_from_json(json, "plan");
  EXPECT_EQ(json_of(read), json);
  EXPECT_EQ(json_of(whole_plan(read)), json_of(whole_plan(quick)));
  const auto refused = [&](const char* field, const files::Json& value) {
    files::Json edited = json;
    edited["quick"][field] = value;
    EXPECT_THROW((void)plan_from_json(edited, "plan"), std::invalid_argument) << field << value;
  };
  refused("left_out", {0});
  refused("left_out", {99});
  refused("repeats", 4);
}

}  // namespace quick_test
