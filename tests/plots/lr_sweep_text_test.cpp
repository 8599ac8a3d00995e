// What is said of a sweep of learning rates, and its table.
#include "plots/lr_sweep_text.h"

#include "files/printable.h"
#include "study/training/rate_verdict.h"
#include "tests/study/planted_sweep.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>

namespace lr_sweep_text_test {

using namespace plots;

LearningRateSweep told(LearningRateSweep sweep = planted::sweep()) {
  return with_said(with_verdicts(std::move(sweep)));
}

TEST(LearningRateSweepSaid, SayWhyOfEachRate) {
  const LearningRateSweep sweep = told();
  EXPECT_EQ(sweep.rates[0].words, "falls slowly: it ends 4.73 nats above the best");
  EXPECT_EQ(sweep.rates[1].words,
            "still falling: 0.45 nats in its last 10 steps, the best rate 0.15; it ends 3.04 above it");
  EXPECT_TRUE(sweep.rates[2].words.starts_with("it ends at 6.")) << sweep.rates[2].words;
  EXPECT_TRUE(sweep.rates[2].words.ends_with(" nats above the best")) << sweep.rates[2].words;
  EXPECT_TRUE(sweep.rates[3].words.starts_with("the best: it ends at ")) << sweep.rates[3].words;
  EXPECT_TRUE(sweep.rates[4].words.starts_with("falls behind: it ends 1.")) << sweep.rates[4].words;
  EXPECT_TRUE(sweep.rates[5].words.starts_with("oscillates: its last 10 losses swing by 1.")) << sweep.rates[5].words;
  EXPECT_EQ(sweep.rates[6].words, "diverged: it ends at 17.70, above 10.80 without training");
  EXPECT_EQ(sweep.rates[7].words, "diverged: the loss of step 3 is not finite");
}

TEST(LearningRateSweepSaid, SayWhichAreGood) {
  LearningRateSweep sweep = told();
  EXPECT_EQ(sweep.said.headline, "Best learning rate 1e-3");
  EXPECT_EQ(sweep.said.lines.back(), "Too low: 1e-6 to 1e-5 \u00b7 good: 1e-4 to 1e-3 \u00b7 too high: 1e-2 to 1e1");
  EXPECT_TRUE(sweep.said.remarks.empty());

  sweep.rates.resize(4);
  const LearningRateSweep part = told(sweep);
  ASSERT_EQ(part.said.remarks.size(), 2U);
  EXPECT_EQ(part.said.remarks[0].text, "Interrupted: 4 of 8 rates were trained.");
  EXPECT_EQ(part.said.remarks[1].text, "The best rate is the highest that was tried.");

  sweep.rates = {planted::sweep().rates[3], planted::sweep().rates[6]};
  sweep.planned = 2;
  EXPECT_EQ(told(sweep).said.remarks.front().text, "The best rate is the lowest that was tried.");

  sweep.rates = {planted::sweep().rates[6], planted::sweep().rates[7]};
  EXPECT_EQ(told(sweep).said.headline, "Every learning rate diverged");
  EXPECT_EQ(told(sweep).said.remarks.front().fix, "Try lower rates.");
  sweep.rates = {planted::sweep().rates[0], planted::sweep().rates[7]};
  const LearningRateSweep none = told(sweep);
  EXPECT_EQ(none.said.headline, "No learning rate learns");
  EXPECT_EQ(none.said.remarks.front().text, "No rate ends 0.1 nats below the loss without training.");
  EXPECT_EQ(none.said.remarks.front().fix, "Take more steps.");
  EXPECT_EQ(none.rates[0].words, "does not learn: it ends at 10.77; without training 10.80");
  sweep.rates.resize(1);
  sweep.planned = 1;
  EXPECT_EQ(told(sweep).said.remarks.front().fix, "Try higher rates, or more steps.");
}

TEST(LearningRateSweepTable, HasARowForEachRate) {
  LearningRateSweep sweep = told();
  sweep.device.name = "a name\n\x1b[31m";
  const std::string table = lr_sweep_table(sweep);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(files::length(line), 80U) << line;
    EXPECT_EQ(files::printable(line), line);
  }
  EXPECT_NE(table.find("\n1e-6        10.77   0.00  too low   falls slowly: it ends 4.73 nats above the\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("\n1e1             -      -  too high  diverged: the loss of step 3 is not finite\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("\nBest learning rate 1e-3\n"), std::string::npos) << table;
}

}  // namespace lr_sweep_text_test
