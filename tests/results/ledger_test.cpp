// What is expected, and a night's ledger.
#include "results/ledger.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ledger_test {

using namespace results;
using harness::Decision;

TEST(Expectation, SaysHowMuch) {
  EXPECT_DOUBLE_EQ(expectation_of("faster:1%", true).least_gain, 0.01);
  EXPECT_DOUBLE_EQ(expectation_of("better:0.25%", false).least_gain, 0.0025);
  EXPECT_EQ(expectation_of("better", false).least_gain, 0);
  EXPECT_NEAR(expectation_of("faster:1%", true).terms().least_gain, std::log(1.01), 1e-12);
}

TEST(Expectation, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "slower:1%", "faster:", "faster:1", "faster:-1%", "better:1e3%", " faster"}) {
    EXPECT_THROW((void)expectation_of(text, true), std::invalid_argument) << text;
  }
  EXPECT_THROW((void)expectation_of("faster:1%", false), std::invalid_argument);
}

LedgerEntry entry(const char* started, std::optional<Decision> verdict, double level) {
  LedgerEntry made{
      .started = started, .base = "a", .head = started, .command = "c", .device = "d", .metric = "ms/step"};
  made.expectation = {.text = "better", .level = level};
  if (verdict) {
    made.judgment.emplace();
    made.judgment->verdict = *verdict;
    made.judgment->pairs = 2;
    made.judgment->gains = {0.01, 0.03};
  }
  return made;
}

Ledger night() {
  Ledger ledger{.created = "2026-11-30T00:00:00Z"};
  for (const auto& [started, verdict] : {std::pair("2026-11-30T00:00:00Z", std::optional(Decision::discard)),
                                         std::pair("2026-11-30T01:00:00Z", std::optional(Decision::keep)),
                                         std::pair("2026-11-30T02:00:00Z", std::optional<Decision>())}) {
    ledger.experiments.push_back(entry(started, verdict, level_of_next(ledger)));
  }
  return ledger;
}

TEST(Ledger, GivesMoreToALaterExperimentForWhatWasKept) {
  const Ledger ledger = night();
  EXPECT_DOUBLE_EQ(ledger.experiments[1].expectation.level, harness::level_of_next(usual_error, 1, 0));
  EXPECT_DOUBLE_EQ(level_of_next(ledger), harness::level_of_next(usual_error, 3, 1));  // an interrupted one counts
  EXPECT_NO_THROW(ledger.check("night"));
  EXPECT_NO_THROW((void)value_from<Ledger>(json_of(ledger), "night"));
}

TEST(Ledger, RefusesToSpendMoreThanItHas) {
  Ledger ledger = night();
  ledger.experiments[0].expectation.level = 0.049;
  EXPECT_THROW(ledger.check("night"), std::invalid_argument);
}

TEST(Ledger, KnowsTheNoiseOfTheSameCommandOnly) {
  Ledger ledger = night();
  LedgerEntry like = ledger.experiments[0];
  EXPECT_DOUBLE_EQ(noise_of(ledger, like).freedom, 2);
  EXPECT_DOUBLE_EQ(noise_of(ledger, like).squares, 0.0004);
  for (std::string LedgerEntry::*field : {&LedgerEntry::command, &LedgerEntry::device, &LedgerEntry::metric}) {
    LedgerEntry other = like;
    other.*field = "other";
    EXPECT_EQ(noise_of(ledger, other).freedom, 0);
  }
}

TEST(Ledger, OfTwoNightsHasBothErrors) {
  const Ledger one = night();
  Ledger other = night();
  for (LedgerEntry& entry : other.experiments) entry.started[9] = '1';
  const Ledger both = merged(one, other);
  EXPECT_EQ(both.experiments.size(), 6);
  EXPECT_DOUBLE_EQ(both.error, 2 * usual_error);
  EXPECT_NO_THROW(both.check("both"));
  EXPECT_THROW((void)merged(one, one), std::invalid_argument);
}

}  // namespace ledger_test
