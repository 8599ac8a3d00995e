#include "text/text.h"

#include "text/figures.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace figures_test {

using namespace text;

TEST(Figures, RatiosKeepWhatTwoDecimalsWouldHide) {
  EXPECT_EQ(times(2.613), "2.61\u00d7");
  EXPECT_EQ(times(1.0), "1.00\u00d7");
  EXPECT_EQ(times(0.998), "0.998\u00d7");
  EXPECT_EQ(times(9.999), "10.0\u00d7");
  EXPECT_EQ(times(1234.5), "1,235\u00d7");
  EXPECT_EQ(times(0.004), "0.004\u00d7");
}

TEST(Figures, TimesAndRatesHaveThreeDigits) {
  EXPECT_EQ(in_ms(1512.4), "1,512 ms");
  EXPECT_EQ(in_ms(99.96), "100 ms");
  EXPECT_EQ(in_ms(0.579), "0.579 ms");
  EXPECT_EQ(in_ms(0.0579), "0.0579 ms");
  EXPECT_EQ(in_ms(0), "0 ms");
  EXPECT_EQ(abbreviated(16384), "16.4K");
  EXPECT_EQ(abbreviated(999.6), "1.00K");
  EXPECT_EQ(abbreviated(999'600), "1.00M");
  EXPECT_EQ(abbreviated(5.123), "5.12");
  EXPECT_EQ(abbreviated(2e15), "2,000T");
}

TEST(Figures, ClockTimes) {
  EXPECT_EQ(clock_time(7.4), "0:07");
  EXPECT_EQ(clock_time(725), "12:05");
  EXPECT_EQ(clock_time(3599.6), "1:00:00");
  EXPECT_EQ(clock_time(100 * 3600 + 125), "100:02:05");
}

TEST(Figures, IntervalsAndEnergy) {
  EXPECT_EQ(times_between(2.55, 2.68), "2.55\u00d7 \u2013 2.68\u00d7");
  EXPECT_EQ(times_between(0.01, 11), "unknown");
  EXPECT_EQ(energy(2.5), "2.50 J");
  EXPECT_EQ(energy(0.01234), "12.3 mJ");
}

TEST(Figures, SharesAndCounts) {
  EXPECT_EQ(percent(0.031), "3.1 %");
  EXPECT_EQ(percent(0.97), "97 %");
  EXPECT_EQ(plain(0.0031), "0.0031");
  EXPECT_EQ(plain(12345.0), "12,345");
  EXPECT_EQ(number_of(0, "run"), "0 runs");
  EXPECT_EQ(number_of(1, "run"), "1 run");
  EXPECT_EQ(number_of(12345, "timed step"), "12,345 timed steps");
}

}  // namespace figures_test

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
