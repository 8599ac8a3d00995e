#include "text/list.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace list_test {

using text::first_of;
using text::list_of;

TEST(List, IsSplitAtItsCommas) {
  EXPECT_EQ(list_of("a.sum,b.avg", "--metrics"), (std::vector<std::string>{"a.sum", "b.avg"}));
  EXPECT_EQ(list_of("a", "--metrics"), (std::vector<std::string>{"a"}));
  for (const char* bad : {"", ",", "a,", ",a", "a,,b", "a,b,a"}) {
    EXPECT_THROW(list_of(bad, "--metrics"), std::invalid_argument) << bad;
  }
  EXPECT_EQ(list_of("a,b,a", "--rung", text::Repeats::kept), (std::vector<std::string>{"a", "b", "a"}));
}

TEST(List, NamesItsFirstItemsAndCountsTheOthers) {
  EXPECT_EQ(first_of({}, 3), "");
  EXPECT_EQ(first_of({"a", "b"}, 2), "a; b");
  EXPECT_EQ(first_of({"a", "b", "c"}, 1), "a (and 2 more)");
  EXPECT_EQ(first_of({"abcdefgh", "i", "j"}, 2, 9), "abcdef... (and 1 more)");
}

}  // namespace list_test
