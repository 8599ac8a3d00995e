// What is said of a gate's verdict.
#include "ablations/report/gate_words.h"

#include "ablations/report/gate_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace gate_words_test {

using namespace ablations;
using harness::Verdict;

ComparedRecipe entry(const std::string& label, double ratio, Verdict verdict) {
  ComparedRecipe made;
  made.label = label;
  made.ratio = ratio;
  made.verdict = verdict;
  made.pairs = 6;
  made.base_runs_ms = made.head_runs_ms = std::vector<double>(6, 500);
  made.slower_pairs = 3;
  made.sign_test_p = 0.5;
  return made;
}

ComparedRecipe other_losses(ComparedRecipe entry) {
  entry.loss.compared = true;
  entry.loss.passed = entry.loss.identical = false;
  entry.loss.message = "step 3 has loss 9.5";
  return entry;
}

ComparedRecipe same_losses(ComparedRecipe entry, bool identical, double deviation) {
  entry.loss.compared = entry.loss.passed.emplace(true);
  entry.loss.identical = identical;
  entry.loss.deviation = deviation;
  return entry;
}

GateResult gate(GateOutcome verdict, const std::vector<ComparedRecipe>& entries,
                const std::vector<std::string>& reasons = {}) {
  GateResult made;
  made.verdict = verdict;
  made.pairs = 6;
  made.min_effect = 0.02;
  made.reasons = reasons;
  if (!entries.empty()) made.comparison.emplace().entries = entries;
  return made;
}

std::string verdict_of(const GateResult& result) { return words_of(result).findings.at("gate"); }

Card card(const std::string& what, const GateResult& result) {
  const std::vector<Card> cards = words_of(result).trust;
  const auto found = std::ranges::find(cards, what, &Card::what);
  return found == cards.end() ? Card{} : *found;
}

const ComparedRecipe slower = entry("+ bf16 autocast", 1.045, Verdict::regression);
const ComparedRecipe faster = entry("+ flash", 0.95, Verdict::improvement);
const ComparedRecipe same = entry("float32", 1.001, Verdict::same);

TEST(GateWords, NameTheRungThatChanged) {
  EXPECT_EQ(verdict_of(gate(GateOutcome::regression, {same, slower, faster})),
            "Slower: bf16 autocast, 1.04\u00d7 the time of base");
  EXPECT_EQ(verdict_of(gate(GateOutcome::regression, {entry("noisy", 1.2, Verdict::inconclusive), slower})),
            "Slower: bf16 autocast, 1.04\u00d7 the time of base");
  EXPECT_EQ(verdict_of(gate(GateOutcome::improvement, {same, faster})), "Faster: flash, 0.95\u00d7 the time of base");
  EXPECT_EQ(verdict_of(gate(GateOutcome::same, {same})), "No change that matters: 1 rung within 2 % of base");
}

TEST(GateWords, NameWhatNoLongerLearnsTheSame) {
  EXPECT_EQ(verdict_of(gate(GateOutcome::regression, {slower, other_losses(faster)}, {"a", "b"})),
            "No longer learns the same: flash: step 3 has loss 9.5");
  EXPECT_EQ(verdict_of(gate(GateOutcome::regression, {other_losses(same), other_losses(faster)})),
            "No longer learns the same: float32 and 1 more: step 3 has loss 9.5");
}

TEST(GateWords, TellTheReasonThatDecides) {
  const std::vector<std::string> reasons{"+ flash: 0.800 of base's time", "noisy: 1.020 of base's time"};
  const std::vector<ComparedRecipe> entries{faster, entry("noisy", 1.02, Verdict::inconclusive)};
  EXPECT_EQ(verdict_of(gate(GateOutcome::inconclusive, entries, reasons)), "Inconclusive: noisy: 1.020 of base's time");
  EXPECT_EQ(verdict_of(gate(GateOutcome::inconclusive, entries, {"too few pairs"})), "Inconclusive: too few pairs");
  EXPECT_EQ(verdict_of(gate(GateOutcome::unfit, entries, {reasons[0], "it differs from itself"})),
            "Unfit: it differs from itself");
  EXPECT_EQ(verdict_of(gate(GateOutcome::failed, {}, {"head run r1-01: killed"})), "Failed: head run r1-01: killed");
  EXPECT_EQ(verdict_of(gate(GateOutcome::saved, {})), "Saved: there was no baseline, now there is");
}

TEST(GateWords, SayWhatEachVerdictMeans) {
  EXPECT_EQ(words_of(gate(GateOutcome::regression, {slower})).mood, Mood::bad);
  EXPECT_EQ(words_of(gate(GateOutcome::unfit, {})).mood, Mood::warn);
  EXPECT_EQ(words_of(gate(GateOutcome::same, {same})).mood, Mood::good);
  const GateWords calibrated = words_of(gate(GateOutcome::calibrated, {}));
  EXPECT_EQ(calibrated.mood, Mood::plain);
  EXPECT_EQ(calibrated.meaning,
            "The program was run against itself. The noise floor is how far its equal runs are apart.");
}

TEST(GateWords, NameTheClearestRungOfThePairs) {
  EXPECT_EQ(words_of(gate(GateOutcome::same, {same})).findings.at("pairs"),
            "float32: head took longer in 3 of 6 pairs");
  ComparedRecipe clear = entry("+ flash", 1.05, Verdict::regression);
  clear.slower_pairs = 6;
  clear.sign_test_p = 0.03;
  EXPECT_EQ(words_of(gate(GateOutcome::regression, {same, clear})).findings.at("pairs"),
            "flash: head took longer in 6 of 6 pairs");
  EXPECT_FALSE(words_of(gate(GateOutcome::failed, {}, {"x"})).findings.contains("pairs"));
}

TEST(GateWords, CardsOfLossesAreNotCalledIdenticalWhereNotAllWereCompared) {
  const auto losses = [](const std::vector<ComparedRecipe>& entries) {
    return card("Losses", gate(GateOutcome::same, entries));
  };
  const ComparedRecipe identical = same_losses(same, true, 0);
  EXPECT_EQ(losses({identical}).value, "identical");
  EXPECT_EQ(losses({identical, same_losses(faster, false, -0.0012)}).words, "median difference 0.0012 nats at most");
  ComparedRecipe not_compared = faster;
  not_compared.loss.message = "losses are not compared: another seed";
  EXPECT_EQ(losses({identical, not_compared}).value, "1 of 2 compared");
  EXPECT_EQ(losses({identical, not_compared}).words, "+ flash: losses are not compared: another seed");
  EXPECT_EQ(losses({not_compared}).value, "not compared");
  EXPECT_EQ(losses({identical, other_losses(faster)}).value, "differ");
  EXPECT_EQ(losses({identical, other_losses(faster)}).mood, Mood::bad);
}

TEST(GateWords, CardsOfNoiseDisturbancesAndPrograms) {
  GateResult result = gate(GateOutcome::same, {same, faster});
  EXPECT_EQ(card("Noise floor", result).value, "not known");
  result.noise = {NoiseFloor{0.01, NoiseSource::sessions}, NoiseFloor{0.03, NoiseSource::these_pairs}};
  EXPECT_EQ(card("Noise floor", result).value, "3 %");
  EXPECT_EQ(card("Noise floor", result).mood, Mood::warn);
  EXPECT_TRUE(card("Noise floor", result).words.ends_with("; from the spread of these pairs"));
  EXPECT_EQ(card("Disturbed runs", result).value, "none seen");
  result.comparison->entries[0].flags = {"base r1 throttled", "head r3 shared"};
  EXPECT_EQ(card("Disturbed runs", result).value, "2 of 24");
  result.comparison->base.programs = {"0123456789abcdef"};
  EXPECT_EQ(card("Programs", result).value, "0123456789... \u2192 unknown");
  result.comparison->head.programs = {"0123456789abcdef, with changes that are not committed"};
  EXPECT_EQ(card("Programs", result).value, "0123456789... \u2192 0123456789..., changed");
  EXPECT_EQ(card("Programs", result).mood, Mood::warn);
  EXPECT_EQ(card("Pairs of runs", result).words, "each a fresh process of base and one of head");
  result.topped_up = true;
  EXPECT_EQ(card("Pairs of runs", result).words,
            "each a fresh process of base and one of head; with the declared top-up, because the first pairs could not "
            "tell");
}

TEST(GateWords, TellHowToReadThePairs) {
  GateResult result = gate(GateOutcome::same, {same});
  GateWords words = words_of(result);
  EXPECT_NE(words.pairs.find("The order base, head, head, base largely cancels that."), std::string::npos);
  EXPECT_EQ(words.pairs_note, "");
  result.against = Against::baseline;
  words = words_of(result);
  EXPECT_NE(words.pairs.find("the machine drifted, and nothing cancels that here."), std::string::npos);
  EXPECT_TRUE(words.pairs_note.starts_with("base's runs are the baseline's, made at another time"));
  result.comparison.reset();
  EXPECT_EQ(words_of(result).pairs + words_of(result).pairs_note, "");
}

TEST(GateWords, ExplainTheWordsOfThePage) {
  GateResult result = gate(GateOutcome::same, {same});
  result.comparison->method = "paired in order";
  const std::vector<Term> terms = words_of(result).how_to_read;
  const auto explained = [&](const std::string& term) { return std::ranges::find(terms, term, &Term::term)->words; };
  ASSERT_EQ(terms.size(), 4U);
  EXPECT_EQ(explained("The ratio"),
            "is head's time divided by base's. Above 1, head is slower. It is head/base, paired in order.");
  EXPECT_TRUE(explained("A rung's verdict").starts_with("compares its interval with the least effect of 2 %."));
}

TEST(GateWords, TellOfEachCalibrationWhatTheTerminalTells) {
  GateResult result = gate(GateOutcome::calibrated, {});
  EXPECT_TRUE(words_of(result).noise.empty());
  Noise noise;
  noise.pairs = 8;
  noise.sd = 0.0123;
  result.calibration = {noise};
  ASSERT_EQ(words_of(result).noise.size(), 1U);
  const std::string words = words_of(result).noise.front();
  EXPECT_TRUE(words.starts_with("8 pairs of equal runs differ by 1.23 % (standard deviation). A slowdown is found in"));
  std::string shown = noise_table(noise);
  std::ranges::replace(shown, '\n', ' ');
  EXPECT_NE(shown.find(words), std::string::npos) << shown;
}

TEST(GateWords, AreCompleteOnlyWithThoseOfTheComparison) {
  GateResult result = gate(GateOutcome::same, {same});
  EXPECT_FALSE(has_words(result));
  const GateResult told = with_words(result);
  EXPECT_TRUE(has_words(told));
  EXPECT_EQ(told.comparison->entries[0].words->verdict, "the same");
  result.words = told.words;
  EXPECT_FALSE(has_words(result));
  result = told;
  result.words->how_to_read.clear();  // as an older program wrote them
  EXPECT_FALSE(has_words(result));
  EXPECT_TRUE(has_words(with_words(gate(GateOutcome::failed, {}, {"killed"}))));
}

}  // namespace gate_words_test
