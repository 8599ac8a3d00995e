// Which learning rates are too low, good and too high, from planted losses.
#include "study/training/rate_verdict.h"

#include "tests/study/planted_sweep.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace rate_verdict_test {

using namespace study;
using planted::batch_noise;
using planted::falling;
using planted::rate;

std::vector<RateReason> reasons(const LearningRateSweep& sweep) {
  std::vector<RateReason> reasons;
  for (const SweptRate& rate : sweep.rates) reasons.push_back(rate.reason);
  return reasons;
}

LearningRateSweep judged_rates(std::vector<SweptRate> rates) {
  LearningRateSweep sweep = planted::sweep();
  sweep.rates = std::move(rates);
  return with_verdicts(std::move(sweep));
}

TEST(RateVerdict, TellsEveryKindApart) {
  using enum RateReason;
  const LearningRateSweep sweep = with_verdicts(planted::sweep());
  EXPECT_EQ(reasons(sweep), (std::vector{falls_slowly, still_falling, near_the_best, near_the_best, falls_behind,
                                         oscillates, diverged, diverged}));
  std::vector<RateVerdict> verdicts;
  for (const SweptRate& rate : sweep.rates) verdicts.push_back(rate.verdict);
  using enum RateVerdict;
  EXPECT_EQ(verdicts, (std::vector{too_low, too_low, good, good, too_high, too_high, too_high, too_high}));
  ASSERT_TRUE(sweep.best);
  EXPECT_EQ(*sweep.best, 3U);
  EXPECT_EQ(sweep.end_steps, 10);
  EXPECT_EQ(sweep.margin, rate_margin);
  EXPECT_FALSE(sweep.rates.back().end);
  EXPECT_EQ(json_of(with_verdicts(sweep)), json_of(sweep)) << "judged again";
}

TEST(RateVerdict, HeldOutLossesDecideWhereThereAreSome) {
  using enum RateReason;
  LearningRateSweep sweep = planted::sweep();
  sweep.untrained = 6;  // of trained weights: batches differ by more than a rate changes
  sweep.rates = {rate(1e-4, [](int64_t t) { return t < 20 ? 8.0 : 5.0; }),
                 rate(1e-3, [](int64_t t) { return t < 20 ? 5.0 : 8.0; }),
                 rate(1e-2, [](int64_t t) { return t < 20 ? 8.0 : 5.0; })};
  sweep.rates[0].held_out = 6;
  sweep.rates[1].held_out = 5.8;
  sweep.rates[2].held_out = 6.2;
  sweep = with_verdicts(std::move(sweep));
  EXPECT_EQ(reasons(sweep), (std::vector{falls_slowly, near_the_best, diverged}));
  EXPECT_EQ(sweep.best, 1U);
  EXPECT_EQ(sweep.rates[2].end->mean, 6.2);
}

TEST(RateVerdict, AnEndIsMeasuredAboutALine) {
  // 10, 8, 6, 4 with 1 up and down: the line is fitted to what is there.
  const auto end = losses_at_the_end({99.0, 11.0, 7.0, 5.0, 5.0}, 4);
  ASSERT_TRUE(end);
  EXPECT_DOUBLE_EQ(end->mean, 7);
  EXPECT_NEAR(end->fall, 6, 1e-12);                    // 2 a step, over three steps
  EXPECT_NEAR(end->swing, std::sqrt(4.0 / 2), 1e-12);  // 1, -1, -1, 1 beside it
  const auto straight = losses_at_the_end({4.0, 3.0, 2.0, 1.0}, 4);
  EXPECT_NEAR(straight->swing, 0, 1e-12);
  EXPECT_NEAR(straight->fall, 3, 1e-12);
  EXPECT_NEAR(losses_at_the_end({1.0, 2.0, 3.0, 4.0}, 4)->fall, -3, 1e-12);
  EXPECT_EQ(losses_at_the_end({5.0}, 4)->mean, 5);
  EXPECT_TRUE(losses_at_the_end({std::nullopt, 1.0, 1.0, 1.0, 1.0}, 4));
  EXPECT_FALSE(losses_at_the_end({1.0, 1.0, std::nullopt, 1.0, 1.0}, 4));
  const double most = std::numeric_limits<double>::max();
  EXPECT_FALSE(losses_at_the_end({most, most, -most, most}, 4));
  EXPECT_EQ(end_steps_of(8), 4);
  EXPECT_EQ(end_steps_of(17), 5);
  EXPECT_EQ(end_steps_of(100), 25);
  EXPECT_EQ(end_steps_of(3), 3);
}

// What is noise of the batches is noise of every rate, and no oscillation.
TEST(RateVerdict, NoiseOfTheBatchesIsNoOscillation) {
  const auto noisy = [](double to) { return [to](int64_t t) { return falling(t, to, 6) + 4 * batch_noise(t); }; };
  const LearningRateSweep sweep =
      judged_rates({rate(1e-4, noisy(8)), rate(1e-3, noisy(6)), rate(1e-2, noisy(6.05)), rate(1e-1, noisy(7))});
  using enum RateReason;
  EXPECT_GT(sweep.rates[1].end->swing, 3 * rate_margin);
  EXPECT_EQ(reasons(sweep), (std::vector{falls_slowly, near_the_best, near_the_best, falls_behind}));
}

TEST(RateVerdict, TheMarginDecides) {
  const auto at = [](double loss) { return [loss](int64_t t) { return t == 0 ? 10.8 : loss; }; };
  const LearningRateSweep sweep =
      judged_rates({rate(1, at(6.11)), rate(2, at(6.09)), rate(3, at(6)), rate(4, at(6.09)), rate(5, at(6.11))});
  using enum RateReason;
  EXPECT_EQ(reasons(sweep), (std::vector{falls_slowly, near_the_best, near_the_best, near_the_best, falls_behind}));
}

// A rate above the best that ends above its first loss has diverged; one below the best has only not learned.
TEST(RateVerdict, OnlyHighRatesDiverge) {
  const auto rising = [](int64_t t) { return 10.8 + 0.01 * static_cast<double>(t); };
  const auto good = [](int64_t t) { return falling(t, 6, 6); };
  using enum RateReason;
  EXPECT_EQ(reasons(judged_rates({rate(1e-6, rising), rate(1e-3, good), rate(1, rising)})),
            (std::vector{falls_slowly, near_the_best, diverged}));
  const LearningRateSweep none = judged_rates({rate(1, rising), planted::sweep().rates.back()});
  EXPECT_FALSE(none.best);
  EXPECT_EQ(reasons(none), (std::vector{diverged, diverged}));
}

// The first loss is that without training: a rate that only stays there is not the best of those that do.
TEST(RateVerdict, WhereNoRateLearnsNoneIsTheBest) {
  using enum RateReason;
  const auto ends_at = [](double loss) { return [loss](int64_t t) { return t == 0 ? 10.8 : loss; }; };
  const LearningRateSweep none = judged_rates(
      {rate(1e-9, ends_at(10.8)), rate(1e-8, ends_at(10.71)), rate(1, ends_at(10.91)), rate(10, ends_at(10.75))});
  EXPECT_FALSE(none.best);
  EXPECT_EQ(reasons(none), (std::vector{falls_slowly, falls_slowly, diverged, falls_behind}));
  const LearningRateSweep one = judged_rates({rate(1e-9, ends_at(10.8)), rate(1e-8, ends_at(10.69))});
  EXPECT_EQ(one.best, 1U);
}

// A norm that is not finite ends a training whose last loss is.
TEST(RateVerdict, ATrainingThatEndedEarlyHasDiverged) {
  SweptRate early = rate(1e-2, [](int64_t t) { return falling(t, 5, 6); });
  early.not_finite = "the norm of the gradients of step 40";
  SweptRate shorter = rate(1e-1, [](int64_t t) { return falling(t, 5, 6); });
  shorter.losses.resize(20);
  const LearningRateSweep sweep =
      judged_rates({rate(1e-3, [](int64_t t) { return falling(t, 6, 6); }), early, shorter});
  EXPECT_EQ(*sweep.best, 0U);
  EXPECT_EQ(sweep.rates[1].reason, RateReason::diverged);
  EXPECT_EQ(sweep.rates[2].reason, RateReason::diverged);
}

}  // namespace rate_verdict_test

namespace rate_grid_test {

using study::rates_of;
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
