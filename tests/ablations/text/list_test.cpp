#include "ablations/text/list.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace list_test {

using ablations::list_of;

TEST(List, IsSplitAtItsCommas) {
  EXPECT_EQ(list_of("a.sum,b.avg", "--metrics"), (std::vector<std::string>{"a.sum", "b.avg"}));
  EXPECT_EQ(list_of("a", "--metrics"), (std::vector<std::string>{"a"}));
  for (const char* bad : {"", ",", "a,", ",a", "a,,b", "a,b,a"}) {
    EXPECT_THROW(list_of(bad, "--metrics"), std::invalid_argument) << bad;
  }
}

}  // namespace list_test
