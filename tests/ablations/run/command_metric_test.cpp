// What a run of a command is compared by in place of its steps' times.
#include "ablations/run/command_metric.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace command_metric_test {

using namespace ablations;

std::string refusal(const std::string& metric, const std::string& better = "", const std::string& until = "") {
  try {
    (void)metric_of(metric, better, until);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

MetricReader reader_of(const std::string& pattern, const std::vector<std::string>& lines) {
  MetricReader reader(metric_of(pattern, "lower", ""));
  for (const std::string& line : lines) reader.take(harness::LogLine{.text = line});
  return reader;
}

TEST(CommandMetric, IsATimeOrALinesNumber) {
  EXPECT_EQ(metric_of("seconds", "", "").name, "seconds");
  EXPECT_EQ(metric_of("seconds to loss 3.28", "lower", "").to_loss, 3.28);
  const Metric metric = metric_of(R"(val_loss:\s*(?P<value>\S+))", "lower", "300s");
  EXPECT_EQ(metric.name, "val_loss");
  EXPECT_EQ(metric.until_s, 300);
  EXPECT_EQ(metric_of(R"(top-1 acc = (?P<value>[\d.]+)%)", "higher", "").better, Metric::Better::higher);
  EXPECT_EQ(metric_of(R"(top-1 acc = (?P<value>[\d.]+)%)", "higher", "").name, "top-1 acc");
  EXPECT_EQ(metric_of("(?P<value>\\d+)$", "lower", "7").name, "value");
}

TEST(CommandMetric, WhatIsNoMetricIsRefusedByItsFlag) {
  EXPECT_TRUE(refusal("val_loss").starts_with("--metric must be seconds,"));
  EXPECT_TRUE(refusal("(").starts_with("'(' is no regular expression"));
  EXPECT_TRUE(refusal("seconds to loss low").starts_with("--metric"));
  EXPECT_TRUE(refusal("acc (?P<value>.*)").ends_with("needs --better lower or --better higher"));
  EXPECT_TRUE(refusal("acc (?P<value>.*)", "more").starts_with("--better must be"));
  EXPECT_TRUE(refusal("seconds", "higher").starts_with("--better higher"));
  EXPECT_TRUE(refusal("seconds", "", "5s").starts_with("--until cannot"));
  for (const char* until : {"0s", "-1", "soon", "nan", "5m"}) {
    EXPECT_TRUE(refusal("acc (?P<value>.*)", "higher", until).starts_with("--until must")) << until;
  }
}

TEST(CommandMetric, TheLastNumberCounts) {
  const MetricReader reader =
      reader_of(R"(val (?P<value>\S+))", {"val 5.5", "train 4", "val 3.25", "val soon", "the end"});
  EXPECT_EQ(reader.failure(), "");
  EXPECT_EQ(reader.numbers(9), (std::map<std::string, double>{{"val", 3.25}}));
}

TEST(CommandMetric, WhatHasNoRatioIsAFault) {
  EXPECT_NE(reader_of(R"(val (?P<value>\S+))", {"loss 3"}).failure(), "");
  EXPECT_NE(reader_of(R"(val (?P<value>\S+))", {"val nan"}).failure().find("not finite"), std::string::npos);
  EXPECT_NE(reader_of(R"(val (?P<value>\S+))", {"val 0"}).failure().find("above 0"), std::string::npos);
  EXPECT_NE(reader_of(R"(val (?P<value>\S+))", {"val -3"}).failure().find("above 0"), std::string::npos);
  EXPECT_NE(reader_of(R"(val (?P<value>\S+))", {"val 3,100"}).failure().find("comma"), std::string::npos);
}

TEST(CommandMetric, TheTimeToALossEndsAtItsFirstLine) {
  MetricReader reader(metric_of("seconds to loss 3", "", ""));
  const auto line = [](double seconds, int64_t step, std::optional<double> loss) {
    return harness::StepLine{.seconds = seconds, .step = step, .loss = loss};
  };
  reader.take({line(1, 1, 5), line(2, 2, std::nullopt), line(3, 3, 3.5)});
  EXPECT_FALSE(reader.is_done());
  EXPECT_NE(reader.failure().find("the lowest was 3.5"), std::string::npos);
  reader.take({line(4, 4, 3), line(5, 5, 2)});
  EXPECT_TRUE(reader.is_done());
  EXPECT_EQ(reader.numbers(7).at("seconds to loss 3"), 4);
  EXPECT_EQ(reader.last_loss(), 3);
}

}  // namespace command_metric_test
