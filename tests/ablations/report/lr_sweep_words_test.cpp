// What is said of a sweep of learning rates, and its table.
#include "ablations/report/lr_sweep_words.h"

#include "ablations/report/lr_sweep_table.h"
#include "ablations/training/rate_verdict.h"
#include "files/printable.h"
#include "tests/ablations/planted_sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

namespace lr_sweep_words_test {

using namespace ablations;

LearningRateSweep told(LearningRateSweep sweep = planted::sweep()) { return with_words(judged(std::move(sweep))); }

std::string card_value(const LearningRateSweep& sweep, const std::string& what) {
  const auto found = std::ranges::find(sweep.words.cards, what, &Card::what);
  return found == sweep.words.cards.end() ? "" : found->value + ": " + found->words;
}

TEST(LearningRateSweepWords, SayWhyOfEachRate) {
  const LearningRateSweep sweep = told();
  EXPECT_EQ(sweep.rates[0].words, "falls slowly: it ends 4.73 nats above the best");
  EXPECT_EQ(sweep.rates[1].words,
            "still falling: 0.45 nats in its last 10 steps, the best rate 0.15; it ends 3.04 above it");
  EXPECT_TRUE(sweep.rates[2].words.starts_with("it ends at 6.")) << sweep.rates[2].words;
  EXPECT_TRUE(sweep.rates[2].words.ends_with(" nats above the best")) << sweep.rates[2].words;
  EXPECT_TRUE(sweep.rates[3].words.starts_with("the best: it ends at ")) << sweep.rates[3].words;
  EXPECT_TRUE(sweep.rates[4].words.starts_with("falls behind: it ends 1.")) << sweep.rates[4].words;
  EXPECT_TRUE(sweep.rates[5].words.starts_with("oscillates: its last 10 losses swing by 1.")) << sweep.rates[5].words;
  EXPECT_EQ(sweep.rates[6].words, "diverged: it ends at 17.70, above its first loss of 10.80");
  EXPECT_EQ(sweep.rates[7].words, "diverged: the loss of step 3 is not finite");
}

TEST(LearningRateSweepWords, SayWhichAreGood) {
  LearningRateSweep sweep = told();
  EXPECT_EQ(sweep.words.headline, "Good learning rates: 0.0001 to 0.001, the best is 0.001");
  EXPECT_EQ(sweep.words.findings.at("lr_sweep"), sweep.words.headline);
  EXPECT_EQ(sweep.words.findings.at("lr_curves"), "Rates: 2 too low, 2 good, 4 too high");
  EXPECT_TRUE(sweep.words.remarks.empty());
  EXPECT_EQ(card_value(sweep, "Too high"), "4 of 8: 0.01 to 10");
  EXPECT_EQ(card_value(sweep, "Warm-up"), "4 steps: `--warmup-steps`");
  EXPECT_EQ(card_value(sweep, "Clipping"), "to a norm of 1: `--clip`");

  sweep.rates.resize(4);
  sweep.training.settings.clip = std::nullopt;
  sweep.training.settings.learning_rate.warmup_steps = 0;
  const LearningRateSweep part = told(sweep);
  EXPECT_EQ(part.words.remarks,
            (std::vector<std::string>{"Interrupted: 4 of 8 rates were trained.",
                                      "The best rate is the highest that was tried: higher ones may be better."}));
  EXPECT_EQ(card_value(part, "Warm-up"), "none: `--warmup-steps`");
  EXPECT_EQ(card_value(part, "Clipping"), "none: `--clip`");

  sweep.rates = {planted::sweep().rates[3], planted::sweep().rates[6]};
  sweep.planned = 2;
  const LearningRateSweep one = told(sweep);
  EXPECT_EQ(one.words.headline, "One good learning rate: 0.001");
  EXPECT_EQ(one.words.remarks.front(), "The best rate is the lowest that was tried: lower ones may be better.");

  sweep.rates = {planted::sweep().rates[6], planted::sweep().rates[7]};
  EXPECT_EQ(told(sweep).words.headline, "Every learning rate diverged: try lower ones");
  sweep.rates = {planted::sweep().rates[0], planted::sweep().rates[7]};
  const LearningRateSweep none = told(sweep);
  EXPECT_EQ(none.words.headline, "No learning rate learns: none ends 0.1 nats below its first loss; take more steps");
  EXPECT_EQ(none.rates[0].words, "does not learn: it ends at 10.77, its first loss is 10.80");
  EXPECT_EQ(card_value(none, "Best rate"), "");
  sweep.rates.resize(1);
  EXPECT_TRUE(told(sweep).words.headline.ends_with("; try higher ones, or more steps")) << told(sweep).words.headline;
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
  EXPECT_NE(table.find("\n1e-06       10.77   0.00  too low   falls slowly: it ends 4.73 nats above the\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("\n10              -      -  too high  diverged: the loss of step 3 is not finite\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("\nGood learning rates: 0.0001 to 0.001, the best is 0.001.\n"), std::string::npos) << table;
}

}  // namespace lr_sweep_words_test
