// Experiments whose truth is programmed: how often they keep what gains nothing, and how soon they end.
#include "harness/stats/sequential.h"

#include <boost/math/special_functions/hypergeometric_1F1.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

namespace sequential_test {

using namespace harness;

// ln E[exp(c w)], w of the chi distribution: by its series (NIST's Digital Library of Mathematical Functions, 13.2.2).
double log_mean_by_series(double c, double freedom) {
  using boost::math::hypergeometric_1F1;
  return std::log(hypergeometric_1F1(freedom / 2, 0.5, c * c / 2) +
                  c * std::sqrt(2) * std::exp(std::lgamma((freedom + 1) / 2) - std::lgamma(freedom / 2)) *
                      hypergeometric_1F1((freedom + 1) / 2, 1.5, c * c / 2));
}

TEST(Evidence, IsTheLikelihoodRatioOfStudentsT) {
  for (const double gain : {0.4, 1.3, 3.0}) {
    for (const std::vector<double>& values :
         {std::vector{0.01, 0.02}, std::vector{0.01, 0.012, -0.003, 0.02}, std::vector{0.01, 0.01, 0.01}}) {
      double total = 0, squares = 0;
      for (const double value : values) {
        total += value;
        squares += value * value;
      }
      const auto n = static_cast<double>(values.size());
      const double expected = -n * gain * gain / 2 + log_mean_by_series(gain * total / std::sqrt(squares), n);
      EXPECT_NEAR(log_evidence(values, gain, {}), expected, 2e-3) << gain << " " << values.size();
    }
  }
}

TEST(Evidence, WithNoiseThatIsKnownIsThatOfTheNormalDistribution) {
  PooledNoise known{.squares = 200 * 1e-4, .freedom = 200};  // a deviation of 0.01
  const std::vector<double> values{0.012, 0.003, 0.02};
  EXPECT_NEAR(log_evidence(values, 1.5, known), 1.5 * 3.5 - 3 * 1.5 * 1.5 / 2, 0.15);
}

TEST(Evidence, OneRunFarOutDecidesNothing) {
  PooledNoise known{.squares = 50 * 1e-4, .freedom = 50};
  const ExperimentTerms terms{.level = 0.001};
  const std::vector<double> one_far_out{0.9, 0.001, -0.002};
  EXPECT_NE(judge_experiment(one_far_out, terms, known).decision, Decision::keep);
  EXPECT_LT(log_evidence(one_far_out, 1.4, known), log_evidence(std::vector{0.03, 0.001, -0.002}, 1.4, known) + 1e-9);
}

TEST(Evidence, OfEqualNumbersIsNone) {
  const std::vector<double> none{0, 0, 0, 0, 0};
  EXPECT_EQ(judge_experiment(none, {}, {}).decision, Decision::discard);
  PooledNoise known;
  known.add(none);
  EXPECT_EQ(known.squares, 0);
  PooledNoise still = known;
  for (int i = 0; i < 3; ++i) still.add(none);
  EXPECT_EQ(judge_experiment(std::vector{0.02, 0.02, 0.02, 0.02, 0.02}, {}, still).decision, Decision::keep);
}

struct Made {
  Decision decision;
  size_t pairs;
};

// An experiment whose differences have a mean and a deviation, after others have shown the noise.
Made experiment(std::mt19937_64& random, double mean, double deviation, const ExperimentTerms& terms,
                const PooledNoise& known) {
  std::normal_distribution<double> noise(mean, deviation);
  std::vector<double> gains;
  Judged judged;
  while (judged.decision == Decision::undecided && std::ssize(gains) < terms.most_pairs) {
    gains.push_back(noise(random));
    if (gains.size() > 1) judged = judge_experiment(gains, terms, known);
  }
  return {judged.decision, gains.size()};
}

struct Shares {
  std::map<Decision, double> of;
  double pairs = 0;
};
Shares shares(double mean, const ExperimentTerms& terms, bool knows, int count) {
  Shares shares;
  std::mt19937_64 random(7);
  PooledNoise known;
  if (knows) known = {.squares = 60 * 1e-4, .freedom = 60};
  for (int i = 0; i < count; ++i) {
    const Made made = experiment(random, mean, 0.01, terms, known);
    shares.of[made.decision] += 1.0 / count;
    shares.pairs += static_cast<double>(made.pairs) / count;
  }
  return shares;
}

TEST(Experiment, KeepsWhatGainsNothingAsRarelyAsItsLevelSays) {
  for (const bool knows : {false, true}) {
    const ExperimentTerms terms{.level = 0.05};
    EXPECT_LT(shares(0, terms, knows, 4000).of[Decision::keep], 0.05);
    EXPECT_LT(shares(-0.01, terms, knows, 1000).of[Decision::keep], 0.005);
    const ExperimentTerms wants{.level = 0.05, .least_gain = 0.01};
    EXPECT_LT(shares(0.01, wants, knows, 4000).of[Decision::keep], 0.05);
  }
}

TEST(Experiment, KeepsTheGainThatItsPairsCanShow) {
  const ExperimentTerms terms{.level = 0.001};
  const double gain = gain_shown_by(terms.most_pairs, terms.level) * 0.01;
  EXPECT_GT(shares(gain, terms, true, 1000).of[Decision::keep], 0.87);
  EXPECT_LT(shares(gain, terms, true, 1000).of[Decision::discard], discard_level);
}

TEST(Experiment, EndsSoonWhereItIsClear) {
  const ExperimentTerms terms{.level = 0.001};
  const Shares loser = shares(-0.05, terms, true, 300), winner = shares(0.04, terms, true, 300);
  EXPECT_LT(loser.pairs, 2.05);
  EXPECT_NEAR(loser.of.at(Decision::discard), 1, 1e-9);
  EXPECT_LT(winner.pairs, 4);
  EXPECT_NEAR(winner.of.at(Decision::keep), 1, 1e-9);
}

TEST(Experiment, DiscardsALeastGainOnlyWhereItIsExcluded) {
  const ExperimentTerms wants{.level = 0.001, .least_gain = 0.01};
  Shares just = shares(0.01, wants, true, 1000);
  EXPECT_LT(just.of[Decision::discard], discard_level);
  EXPECT_GT(shares(-0.01, wants, true, 300).of[Decision::discard], 0.95);
}

TEST(Interval, HoldsTheGainAtAllLooksTogether) {
  int missed = 0;
  constexpr int count = 200;
  std::mt19937_64 random(3);
  for (int i = 0; i < count; ++i) {
    std::normal_distribution<double> noise(0.013, 0.01);
    std::vector<double> gains;
    bool holds = true;
    while (gains.size() < 12) {
      gains.push_back(noise(random));
      const auto interval = gain_at_any_look(gains, {.level = 0.01}, {}).interval;
      holds = holds && (!interval || (interval->lo <= 0.013 && 0.013 <= interval->hi));
    }
    missed += holds ? 0 : 1;
  }
  EXPECT_LT(missed, 0.05 * count);
  EXPECT_FALSE(gain_at_any_look(std::vector{0.01}, {}, {}).interval);
}

TEST(Level, OfANightAddsUpToTheError) {
  double all = 0;
  for (size_t i = 0; i < 100000; ++i) all += level_of_next(0.05, i, 0);
  EXPECT_LT(all, 0.05);
  EXPECT_GT(all, 0.0499);
  EXPECT_DOUBLE_EQ(level_of_next(0.05, 7, 2), 3 * level_of_next(0.05, 7, 0));
}

TEST(Noise, IsThatOfDifferencesAboutTheirOwnCenter) {
  PooledNoise noise;
  noise.add(std::vector{0.01, 0.03});
  noise.add(std::vector{0.5});  // shows none
  EXPECT_DOUBLE_EQ(noise.squares, 0.0002);
  EXPECT_DOUBLE_EQ(noise.freedom, 1);
  EXPECT_TRUE(std::isnan(PooledNoise().deviation()));
}

}  // namespace sequential_test
