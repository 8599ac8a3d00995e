// What is said of two sides beside each other.
#include "ablations/report/comparison_words.h"

#include "ablations/report/compare_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace comparison_words_test {

using namespace ablations;
using harness::Verdict;
using Lines = std::vector<std::string>;

ComparedRecipe entry(const std::string& label, Verdict verdict) {
  ComparedRecipe made;
  made.label = label;
  made.verdict = verdict;
  made.pairs = made.base_runs = made.head_runs = 6;
  made.slower_pairs = 5;
  made.sign_test_p = 0.21875;
  made.loss = {.compared = true, .passed = true, .message = "losses identical to the bit"};
  return made;
}

ComparedRecipe other_losses(ComparedRecipe entry) {
  entry.loss.passed = false;
  entry.loss.message = "step 3 has loss 9.5";
  return entry;
}

ComparedRecipe disturbed(ComparedRecipe entry) {
  entry.flags = {"head r1-02-flash throttled: heat", "base r3-02-flash shared: 1 other process"};
  return entry;
}

Comparison comparison(const std::vector<ComparedRecipe>& entries) {
  Comparison made;
  made.method = "head/base, paired in order";
  made.entries = entries;
  return made;
}

ComparedWords told(const ComparedRecipe& entry, const SideNames& names = sides_of_programs) {
  return *with_words(comparison({entry}), names).entries.front().words;
}

// The terminal's table in one line.
std::string table(const Comparison& comparison) {
  std::string text = comparison_table(comparison);
  std::ranges::replace(text, '\n', ' ');
  text.erase(std::ranges::unique(text, [](char a, char b) { return a == ' ' && b == ' '; }).begin(), text.end());
  return text;
}

TEST(ComparisonWords, CallVerdictsByTheirTime) {
  const std::pair<Verdict, const char*> words[] = {{Verdict::regression, "slower"},
                                                   {Verdict::improvement, "faster"},
                                                   {Verdict::same, "the same"},
                                                   {Verdict::inconclusive, "inconclusive"}};
  for (const auto& [verdict, word] : words) EXPECT_EQ(told(entry("float32", verdict)).verdict, word);
}

TEST(ComparisonWords, RemarkOnLossesAndDisturbedRuns) {
  const std::vector<Remark> calm = told(entry("float32", Verdict::same)).remarks;
  ASSERT_EQ(calm.size(), 1U);
  EXPECT_EQ(calm[0].what, "losses");
  EXPECT_EQ(calm[0].mood, Mood::plain);
  EXPECT_EQ(calm[0].words, "losses identical to the bit");
  const std::vector<Remark> bad = told(disturbed(other_losses(entry("+ flash", Verdict::improvement)))).remarks;
  ASSERT_EQ(bad.size(), 2U);
  EXPECT_EQ(bad[0].what, "losses differ");
  EXPECT_EQ(bad[0].mood, Mood::bad);
  EXPECT_EQ(bad[0].words, "LOSSES DIFFER: step 3 has loss 9.5");
  EXPECT_EQ(bad[1].what, "disturbed");
  EXPECT_EQ(bad[1].mood, Mood::warn);
  EXPECT_EQ(bad[1].words, "2 of the runs were disturbed: head r1-02-flash throttled: heat");
}

TEST(ComparisonWords, SayOfLossesWithoutAMessageWhatIsKnown) {
  EXPECT_EQ(losses_words({.compared = true, .passed = true}), "losses agree");
  EXPECT_EQ(losses_words({}), "losses are not compared");
}

TEST(ComparisonWords, CallTwoStudiesTheFirstAndTheSecond) {
  ComparedRecipe one = disturbed(entry("+ flash", Verdict::same));
  one.flags.resize(1);
  EXPECT_EQ(told(one, sides_of_studies).remarks.at(1).words,
            "1 of the runs was disturbed: second r1-02-flash throttled: heat");
  one.flags = {"header r1: no side's name"};
  EXPECT_EQ(told(one, sides_of_studies).remarks.at(1).words, "1 of the runs was disturbed: header r1: no side's name");
  Comparison both = comparison({one});
  both.forced = {"torch: 2.10 against 2.11"};
  both.warnings = {"the first is a debug build"};
  both.base.left_out = {"r2-01: killed", "r3-01: killed"};
  const ComparisonWords words = *with_words(both, sides_of_studies).words;
  EXPECT_EQ(words.how, "second/first, paired in order. Above 1, the second takes longer.");
  EXPECT_EQ(words.differences, Lines{"Differs: torch: 2.10 against 2.11"});
  EXPECT_EQ(words.remarks, (Lines{"2 runs of the first left out, not a number: r2-01: killed",
                                  "Warning: the first is a debug build"}));
}

TEST(ComparisonWords, TellHowThePairsAgree) {
  ComparedRecipe one = entry("float32", Verdict::same);
  EXPECT_EQ(told(one).pairs, (Lines{"head took longer in 5 of 6 pairs", "sign test p = 0.219"}));
  one.sessions = 4;
  EXPECT_EQ(told(one).pairs, (Lines{"base: the mean of 4 sessions",
                                    "head took longer in 5 of 6 pairs with base's own runs", "sign test p = 0.219"}));
}

TEST(ComparisonWords, NamesAtMostThreeOfEachKindBelowAChart) {
  const ComparedRecipe differing = other_losses(entry("+ flash", Verdict::same));
  Comparison many = comparison({differing, differing, differing, differing, disturbed(entry("+ bf16", Verdict::same))});
  many.warnings = {std::string(500, 'x')};
  many.head.left_out = {"r2-01: killed"};
  many.unmatched = {{SideName::base, "+ fused"}, {SideName::head, "+ graph"}};
  const Lines notes = with_words(many, sides_of_studies).words->notes;
  ASSERT_EQ(notes.size(), 5U);
  const std::string each = "+ flash, step 3 has loss 9.5";
  EXPECT_EQ(notes[0], "losses differ: " + each + "; " + each + "; " + each + " (and 1 more)");
  EXPECT_EQ(notes[1], "disturbed: + bf16, 2 of the runs were disturbed: second r1-02-flash throttled: heat");
  EXPECT_EQ(notes[2], "1 run of the second left out, not a number: r2-01: killed");
  EXPECT_EQ(notes[3].size(), std::string("Warning: ").size() + 240);
  EXPECT_EQ(notes[4], "not compared: + fused (first only); + graph (second only)");
  EXPECT_TRUE(with_words(comparison({entry("float32", Verdict::same)}), sides_of_studies).words->notes.empty());
}

TEST(ComparisonWords, AreTheTerminalsToo) {
  Comparison both = comparison({disturbed(other_losses(entry("+ flash", Verdict::improvement)))});
  both.head.left_out = {"r2-01: killed"};
  both.forced = {"threads: 2 against 4"};
  const std::string shown = table(both);
  const Comparison told = with_words(both, sides_of_programs);
  Lines said{told.entries[0].words->pairs[0], told.words->remarks[0], told.words->differences[0]};
  for (const Remark& remark : told.entries[0].words->remarks) said.push_back(remark.words);
  for (const std::string& words : said) EXPECT_NE(shown.find(words), std::string::npos) << words << "\n" << shown;
  EXPECT_NE(shown.find("(" + told.entries[0].words->pairs[1] + ")"), std::string::npos) << shown;
  // Of two studies with their names.
  const std::string of_studies = comparison_table(both, {}, sides_of_studies);
  EXPECT_NE(of_studies.find("second/first [95 %]"), std::string::npos) << of_studies;
  EXPECT_NE(of_studies.find("Differs: threads: 2 against 4"), std::string::npos) << of_studies;
  EXPECT_EQ(of_studies.find("FORCED"), std::string::npos);
  EXPECT_EQ(of_studies.find("head"), std::string::npos) << of_studies;
  both.entries[0].sessions = 4;
  EXPECT_NE(table(both).find("base: the mean of 4 sessions of one program"), std::string::npos);
}

TEST(ComparisonWords, AreReadAgainAndMayBeAbsent) {
  const ComparedWords words = told(disturbed(entry("+ flash", Verdict::same)));
  EXPECT_EQ(json_of(value_from<ComparedWords>(json_of(words), "words")), json_of(words));
  EXPECT_FALSE(json_of(entry("float32", Verdict::same)).contains("words"));
  EXPECT_FALSE(json_of(comparison({})).contains("words"));
}

}  // namespace comparison_words_test
