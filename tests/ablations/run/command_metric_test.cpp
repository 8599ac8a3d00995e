// What a run of a command is compared by in place of its steps' times.
#include "ablations/run/command_metric.h"

#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace command_metric_test {

using namespace ablations;

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
  for (const auto& [metric, better, until, words] :
       std::vector<std::array<const char*, 4>>{{"val_loss", "", "", "--metric must be seconds,"},
                                               {"(", "", "", "'(' is no regular expression"},
                                               {"seconds to loss low", "", "", "--metric"},
                                               {"acc (?P<value>.*)", "", "", "needs --better lower or --better higher"},
                                               {"acc (?P<value>.*)", "more", "", "--better must be"},
                                               {"seconds", "higher", "", "--better higher"},
                                               {"seconds", "", "5s", "--until cannot"},
                                               {"acc (?P<value>.*)", "higher", "0s", "--until must"},
                                               {"acc (?P<value>.*)", "higher", "-1", "--until must"},
                                               {"acc (?P<value>.*)", "higher", "soon", "--until must"},
                                               {"acc (?P<value>.*)", "higher", "nan", "--until must"},
                                               {"acc (?P<value>.*)", "higher", "5m", "--until must"}}) {
    EXPECT_TRUE(has(refusal_of([&] { return metric_of(metric, better, until); }), words)) << until;
  }
}

TEST(CommandMetric, TheLastNumberCounts) {
  const MetricReader reader =
      reader_of(R"(val (?P<value>\S+))", {"val 5.5", "train 4", "val 3.25", "val soon", "the end"});
  EXPECT_EQ(reader.failure(), "");
  EXPECT_EQ(reader.numbers(9), (std::map<std::string, double>{{"val", 3.25}}));
}

TEST(CommandMetric, WhatHasNoRatioIsAFault) {
  for (const auto& [line, words] : std::vector<std::array<const char*, 2>>{
           {"val nan", "not finite"}, {"val 0", "above 0"}, {"val -3", "above 0"}, {"val 3,100", "comma"}}) {
    EXPECT_TRUE(has(reader_of(R"(val (?P<value>\S+))", {line}).failure(), words));
  }
  EXPECT_NE(reader_of(R"(val (?P<value>\S+))", {"loss 3"}).failure(), "");
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
  results::Record record;
  record.command.emplace();
  reader.add_whole_run(7, record);
  EXPECT_EQ(record.timing.loss.at(0), 3) << "nobody waits for the others";
  EXPECT_EQ(record.timing.step_ms.at(0), 4000);
  EXPECT_EQ(record.command->unit, "run");
}

}  // namespace command_metric_test
