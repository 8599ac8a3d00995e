// What is said of two sides beside each other, and of a gate's verdict.
#include "plots/comparison_text.h"

#include "plots/gate_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace comparison_text_test {

using namespace plots;
using harness::Verdict;

ComparedRecipe entry(const std::string& label, Verdict verdict, double ratio = 1) {
  ComparedRecipe made;
  made.label = label;
  made.ratio = ratio;
  made.lo = ratio - 0.01;
  made.hi = ratio + 0.01;
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

GateResult gate(GateOutcome verdict, const std::vector<ComparedRecipe>& entries,
                const std::vector<std::string>& reasons = {}) {
  GateResult made;
  made.created = "2026-11-26T12:00:00Z";
  made.verdict = verdict;
  made.pairs = 6;
  made.min_effect = 0.02;
  made.reasons = reasons;
  if (!entries.empty()) made.comparison.emplace().entries = entries;
  return made;
}

const ComparedRecipe slower = entry("+ bf16 autocast", Verdict::regression, 1.045);
const ComparedRecipe faster = entry("+ flash", Verdict::improvement, 0.95);
const ComparedRecipe same = entry("float32", Verdict::same, 1.001);

TEST(Gate, SaysTheVerdictAndTheRungThatDecidesIt) {
  const Said said = said_of(gate(GateOutcome::regression, {same, slower, faster}));
  EXPECT_EQ(said.headline, "1.04\u00d7 slower");
  EXPECT_EQ(said.lines.front(),
            "\u201cbf16 autocast\u201d: head takes 1.04\u00d7 base's time (95 %: 1.03\u00d7 \u2013 1.05\u00d7); limit "
            "\u00b1 2 %, "
            "6 pairs of runs; 2 other rungs below.");
  EXPECT_TRUE(said_of(gate(GateOutcome::improvement, {same, faster}))
                  .lines.front()
                  .starts_with("\u201cflash\u201d: head takes 0.95\u00d7 base's"));
  EXPECT_EQ(said_of(gate(GateOutcome::same, {same})).headline, "No change that matters");
  const Said unclear = said_of(gate(GateOutcome::inconclusive, {faster, entry("noisy", Verdict::inconclusive, 1.28)}));
  EXPECT_EQ(unclear.headline, "Inconclusive");
  EXPECT_TRUE(unclear.lines.front().starts_with("\u201cnoisy\u201d: head takes 1.28\u00d7")) << unclear.lines.front();
  EXPECT_EQ(unclear.remarks.front().fix, "Run it again on a quiet machine, or with more `--pairs`.");
}

TEST(Gate, NamesWhatNoLongerLearnsTheSame) {
  ComparedRecipe other = faster;
  other.loss = {.compared = true, .passed = false, .message = "step 3 has loss 9.5"};
  const Said said = said_of(gate(GateOutcome::regression, {slower, other}));
  EXPECT_EQ(said.headline, "No longer learns the same");
  EXPECT_TRUE(said.lines.front().starts_with("\u201cflash\u201d")) << said.lines.front();
  EXPECT_TRUE(std::ranges::any_of(said.remarks, [](const Remark& remark) {
    return remark.severity == Severity::bad && remark.text == "+ flash: losses differ: step 3 has loss 9.5";
  }));
}

TEST(Gate, WithoutAComparisonTellsItsReasons) {
  const Said failed = said_of(gate(GateOutcome::failed, {}, {"head run r1-01: killed"}));
  EXPECT_EQ(failed.headline, "Failed: head has no number");
  EXPECT_EQ(failed.lines, std::vector<std::string>{"head run r1-01: killed."});
  EXPECT_EQ(said_of(gate(GateOutcome::unfit, {}, {"it differs from itself"})).remarks.front().severity, Severity::warn);
  EXPECT_EQ(said_of(gate(GateOutcome::saved, {})).headline, "Saved as the baseline");
  GateResult calibrated = gate(GateOutcome::calibrated, {same});
  calibrated.calibration.emplace_back().pairs = 16;
  EXPECT_EQ(said_of(calibrated).headline, "Noise floor measured");
  EXPECT_NE(noise_table(calibrated.calibration.front()).find("16 pairs of equal runs differ by"), std::string::npos);
}

TEST(Gate, AWarningIsSaidOnce) {
  GateResult result = gate(GateOutcome::same, {same});
  result.warnings = {"1 of 12 runs was disturbed: base r1-00 shared"};
  result.comparison->entries[0].flags = {"base r1-00 shared"};
  EXPECT_EQ(std::ranges::count(said_of(result).remarks, Severity::warn, &Remark::severity), 1);
}

TEST(Gate, OnATerminalEndsWithTheVerdictAndWhatToDo) {
  const std::string text = gate_table(
      gate(GateOutcome::inconclusive, {entry("noisy", Verdict::inconclusive, 1.28)}, {"noisy: 1.280 of base's time"}));
  EXPECT_TRUE(
      text.ends_with("INCONCLUSIVE: noisy: 1.280 of base's time\nRun it again on a quiet machine, or with more "
                     "`--pairs`.\n"))
      << text;
}

}  // namespace comparison_text_test
