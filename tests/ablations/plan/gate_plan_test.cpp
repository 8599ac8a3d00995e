// The arms of a gate and the order of their runs.
#include "ablations/plan/gate_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gate_plan_test {

using namespace ablations;

std::vector<Rung> arms_of(const std::string& base) {
  std::vector<Rung> arms;
  for (const char* name : {"bf16", "flash"}) {
    add_arms(arms, {.optimization = name, .title = name, .applied = {name}, .recipe = {}, .reason = ""}, base, "new");
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
