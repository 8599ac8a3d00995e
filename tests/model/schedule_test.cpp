// The learning rate over the steps.
#include "model/schedule.h"

#include <gtest/gtest.h>

namespace schedule_test {

using namespace model;

TEST(Schedule, WarmsUpThenFallsToATenth) {
  const Schedule schedule{.peak = 1.0, .floor = 0.1, .warmup_steps = 4, .decay_steps = 14};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.at(3), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1.0);
  EXPECT_NEAR(schedule.at(9), 0.55, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.at(14), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(1000), 0.1);
}

}  // namespace schedule_test
