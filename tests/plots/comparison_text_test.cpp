// What is said of two sides beside each other.
#include "plots/comparison_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace comparison_text_test {

using namespace plots;
using harness::Verdict;

ComparedRecipe entry(const std::string& label, Verdict verdict) {
  ComparedRecipe made;
  made.label = label;
  made.verdict = verdict;
  made.pairs = made.base_runs = made.head_runs = 6;
  made.base_runs_ms = made.head_runs_ms = std::vector<double>(6, 500);
  made.slower_pairs = 5;
  made.sign_test_p = 0.21875;
  made.loss = {.compared = true, .passed = true, .message = "losses identical to the bit"};
  return made;
}

Comparison comparison(const std::vector<ComparedRecipe>& entries) {
  Comparison made;
  made.method = "head/base, paired in order";
  made.entries = entries;
  return made;
}

// The terminal's table in one line.
std::string table(const Comparison& comparison) {
  std::string text = comparison_table(comparison);
  std::ranges::replace(text, '\n', ' ');
  text.erase(std::ranges::unique(text, [](char a, char b) { return a == ' ' && b == ' '; }).begin(), text.end());
  return text;
}

TEST(ComparisonRemarks, AreNoneOfCalmRunsThatLearnTheSame) {
  EXPECT_TRUE(remarks_of(comparison({entry("float32", Verdict::same)}), sides_of_programs).empty());
}

TEST(ComparisonRemarks, TellOfLossesDisturbancesAndCircumstancesTheWorstFirst) {
  Comparison both = comparison({entry("+ flash", Verdict::improvement)});
  ComparedRecipe& one = both.entries.front();
  one.loss.passed = false;
  one.loss.message = "step 3 has loss 9.5";
  one.flags = {"head r1-02-flash throttled: heat", "base r3-02-flash shared: 1 other process"};
  both.forced = {"torch: 2.10 against 2.11"};
  both.warnings = {"the first is a debug build"};
  both.base.left_out = {"r2-01: killed", "r3-01: killed"};
  both.unmatched = {{SideName::base, "+ fused"}, {SideName::head, "+ graph"}};
  const std::vector<Remark> remarks = remarks_of(both, sides_of_studies);
  ASSERT_EQ(remarks.size(), 7U);
  EXPECT_EQ(remarks[0], (Remark{Severity::bad, "losses", "+ flash: losses differ: step 3 has loss 9.5", ""}));
  EXPECT_EQ(remarks[1].text, "2 of 12 runs were disturbed: B r1-02-flash throttled: heat.");
  EXPECT_EQ(remarks[2].text, "This compares two machines or settings, not two programs: torch: 2.10 against 2.11.");
  EXPECT_EQ(remarks[3].text, "2 runs of A left out, not a number: r2-01: killed");
  EXPECT_EQ(remarks[4].text, "The first is a debug build.");
  EXPECT_EQ(remarks[5].text, "Only A has + fused.");
  EXPECT_EQ(remarks[6].severity, Severity::info);
  one.flags = {"header r1: no side's name", "header r2: the same"};
  EXPECT_EQ(remarks_of(both, sides_of_studies)[1].text, "2 of 12 runs were disturbed: header r1: no side's name.");
  one.flags.pop_back();  // medians bear one of twelve
  EXPECT_EQ(remarks_of(both, sides_of_studies)[1].code, "circumstances");
}

TEST(ComparisonTable, TellsHowPairsAndLossesAgree) {
  ComparedRecipe one = entry("float32", Verdict::same);
  EXPECT_NE(table(comparison({one})).find("head took longer in 5 of 6 pairs (sign test p = 0.219); losses identical"),
            std::string::npos);
  one.sessions = 4;
  EXPECT_NE(table(comparison({one})).find("base: the mean of 4 sessions"), std::string::npos);
  one.loss = {.compared = true, .passed = false, .message = "step 3"};
  EXPECT_NE(table(comparison({one})).find("LOSSES DIFFER: step 3"), std::string::npos);
  EXPECT_NE(comparison_markdown(comparison({one})).find("LOSSES DIFFER: step 3"), std::string::npos);
}

}  // namespace comparison_text_test
