#include "ablations/training/rate_grid.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace rate_grid_test {

using ablations::rates_of;
using Rates = std::vector<double>;

std::string refusal_of(const std::string& text) {
  try {
    (void)rates_of(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RateGrid, GoesInEqualRatios) {
  EXPECT_EQ(rates_of("1e-5:1e-1:5"), (Rates{1e-5, 1e-4, 1e-3, 1e-2, 1e-1}));
  EXPECT_EQ(rates_of("0.001:1:2"), (Rates{0.001, 1}));
  EXPECT_EQ(rates_of("1e-3:1e-2:3"), (Rates{1e-3, 0.00316, 1e-2})) << "three digits, as it is shown";
  EXPECT_EQ(rates_of("0.0001234:1e-2:2").front(), 0.0001234) << "the ends are as they were given";
  EXPECT_EQ(rates_of("1e-30:1e30:100").size(), 100U);
}

TEST(RateGrid, RefusesWhatIsNone) {
  for (const char* text : {"", "1e-3", "1e-3:1e-2", "::"}) EXPECT_NE(refusal_of(text), "accepted") << text;
  const std::string begin = "--lr-sweep must be MIN:MAX:COUNT, such as 1e-5:1e-1:9, ";
  EXPECT_EQ(refusal_of("1e-3"), begin + "three numbers with colons between them, got \"1e-3\"");
  for (const char* text :
       {"0:1:5", "-1:1:5", "1:1:5", "2:1:5", "nan:1:5", "1e-3:inf:5", "1e-40:1:5", "a:1:5", "1e-3x:1:5"}) {
    EXPECT_EQ(refusal_of(text), begin + "with rates between 1e-30 and 1e+30 and MIN below MAX, got \"" + text + "\"");
  }
  for (const char* text : {"1e-3:1:1", "1e-3:1:101", "1e-3:1:2.5", "1e-3:1:", "1e-3:1:3:4"}) {
    EXPECT_EQ(refusal_of(text), begin + "with a COUNT between 2 and 100, got \"" + text + "\"");
  }
  EXPECT_EQ(refusal_of("1:1.01:50"), begin + "with rates that differ in their first three digits, got \"1:1.01:50\"");
}

}  // namespace rate_grid_test
