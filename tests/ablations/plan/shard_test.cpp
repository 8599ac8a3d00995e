// One plan cut into shards, and what makes two plans the same.
#include "ablations/plan/shard.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shard_test {

using namespace ablations;

Plan plan_of(int64_t repeats) {
  Plan plan{.id = "x-1",
            .created = "",
            .ladder = {.name = "x", .title = "X"},
            .workload = {{}, "tiny", 1, 1, "/here/text", "/here/vocabulary", "/here/tokens"},
            .repeats = repeats,
            .order_seed = 1,
            .rungs = {},
            .reference = 0,
            .runs = {}};
  for (const char* name : {"", "bf16", "flash"}) {
    plan.rungs.push_back({.optimization = name,
                          .title = "t",
                          .applied = {},
                          .recipe = plain_recipe(),
                          .reason = "",
                          .losses = ExpectedLosses()});
  }
  plan.runs = interleave(plan.rungs, repeats, plan.order_seed);
  return plan;
}

TEST(Shard, EveryRunIsInExactlyOneAndRepeatsStayWhole) {
  const Plan whole = plan_of(5);
  for (int64_t count = 1; count <= 7; ++count) {
    std::map<std::string, int> seen;
    std::map<int64_t, std::set<int64_t>> shards_of_repeat;
    for (int64_t index = 1; index <= count; ++index) {
      Plan part = whole;
      part.shard = Shard{index, count};
      const auto runs = runs_to_make(part);
      EXPECT_EQ(runs.empty(), index > 5);
      for (const PlannedRun& run : runs) {
        ++seen[run.id];
        shards_of_repeat[run.repeat].insert(index);
      }
    }
    EXPECT_EQ(seen.size(), whole.runs.size());
    for (const auto& [run, times] : seen) EXPECT_EQ(times, 1) << run;
    for (const auto& [repeat, shards] : shards_of_repeat) EXPECT_EQ(shards.size(), 1U) << repeat;
  }
  EXPECT_EQ(runs_to_make(whole).size(), whole.runs.size());
}

TEST(Shard, IsReadFromText) {
  EXPECT_EQ(shard_of("2/4").index, 2);
  EXPECT_EQ(shard_of("2/4").count, 4);
  EXPECT_EQ(shard_of("1000/1000").count, 1000);
  for (const char* wrong : {"", "2", "/", "2/", "/4", "0/4", "5/4", "-1/4", "1/-4", "1/4x", "x1/4", " 1/4", "1/ 4",
                            "1//4", "1/1001", "1/99999999999999999999", "99999999999999999999/4", "1.0/4"}) {
    EXPECT_THROW((void)shard_of(wrong), std::invalid_argument) << wrong;
  }
}

TEST(SamePlan, WhereFilesLieAndWhichShardItIsDoNotCount) {
  const Plan plan = plan_of(4);
  Plan other = plan;
  other.shard = Shard{2, 4};
  other.workload.data = other.workload.vocabulary = other.workload.tokens = "/elsewhere";
  EXPECT_TRUE(plan_differences(plan, other).empty());
  EXPECT_EQ(id_by_content(plan), id_by_content(other));
  EXPECT_TRUE(id_by_content(plan).starts_with("x-")) << id_by_content(plan);
  EXPECT_EQ(id_by_content(plan).size(), 14U);
  // The records of all shards name it alike.
  EXPECT_EQ(identity_of(plan), identity_of(other));
  EXPECT_EQ(identity_of(plan).at("id"), "x-1");
  // What a plan does not say of a recipe is the default: a field that recipes get later changes nothing.
  files::Json older = json_of(plan);
  older["rungs"][0]["recipe"].erase("optimizer");
  EXPECT_EQ(identity_of(plan), identity_of(value_from<Plan>(older, "here")));
}

TEST(SamePlan, EverythingElseCountsAndIsNamed) {
  const Plan plan = plan_of(4);
  using Edit = void (*)(Plan&);
  for (const auto& [edit, difference] : std::vector<std::pair<Edit, std::string>>{
           {[](Plan& other) { other.workload.B = 2; }, "workload/batch: 1 against 2"},
           {[](Plan& other) { other.id = "x-2"; }, "id: \"x-1\" against \"x-2\""},
           {[](Plan& other) { other.created = "2026-01-01T00:00:00Z"; },
            "created: \"\" against \"2026-01-01T00:00:00Z\""},
           {[](Plan& other) { other.rungs[1].recipe["optimizer"] = "fused"; },
            "rungs/1/recipe/optimizer: \"loop\" against \"fused\""}}) {
    Plan other = plan;
    edit(other);
    EXPECT_EQ(plan_differences(plan, other), std::vector{difference});
    EXPECT_NE(identity_of(plan), identity_of(other)) << difference;
  }
  EXPECT_FALSE(plan_differences(plan, plan_of(3)).empty());
  Plan larger = plan;
  larger.workload.B = 2;
  EXPECT_NE(id_by_content(plan), id_by_content(larger));
}

}  // namespace shard_test
