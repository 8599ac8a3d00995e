#include "ablations/run/command_run.h"

#include <gtest/gtest.h>

#include <vector>

namespace command_run_test {

using namespace ablations;

TEST(StepMs, OfALineIsItsIntervalOverItsSteps) {
  EXPECT_EQ(step_ms_of({0, 1, 11}, {1.0, 1.5, 2.5}), (std::vector<double>{500, 100}));
  EXPECT_TRUE(step_ms_of({7}, {1.0}).empty());
}

TEST(StepMs, OfLinesOfOneReadIsTheMeanSinceTheReadBefore) {
  EXPECT_EQ(step_ms_of({0, 1, 2, 3, 4, 5}, {1, 1, 2, 2, 2, 2.5}),
            (std::vector<double>{least_step_ms, 1000.0 / 3, 1000.0 / 3, 1000.0 / 3, 500}));
}

}  // namespace command_run_test
