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
const ComparedRecipe noisy = entry("noisy", Verdict::inconclusive, 1.28);

TEST(Gate, SaysItsVerdictTheRungThatDecidesItAndWhatToDo) {
  ComparedRecipe other = faster;
  other.loss = {.compared = true, .passed = false, .message = "step 3 has loss 9.5"};
  GateResult calibrated = gate(GateOutcome::calibrated, {same});
  calibrated.calibration.emplace_back().pairs = 16;
  EXPECT_NE(noise_table(calibrated.calibration.front()).find("16 pairs of equal runs differ by"), std::string::npos);
  std::string said = "\n";
  for (const GateResult& made :
       {gate(GateOutcome::regression, {same, slower, faster}), gate(GateOutcome::improvement, {same, faster}),
        gate(GateOutcome::same, {same}), gate(GateOutcome::inconclusive, {faster, noisy}),
        gate(GateOutcome::regression, {slower, other}), gate(GateOutcome::failed, {}, {"head run r1-01: killed"}),
        gate(GateOutcome::unfit, {}, {"it differs from itself"}), gate(GateOutcome::saved, {}), calibrated}) {
    const Said one = said_of(made);
    said += one.headline + "\n";
    for (const std::string& line : one.lines) said += "  " + line + "\n";
    for (const auto& [severity, code, text, fix] : one.remarks) {
      said += "  " + name_of(severity) + ": " + text + (fix.empty() ? "" : " " + fix) + "\n";
    }
  }
  EXPECT_EQ(said, R"(
1.04× slower
  “bf16 autocast”: head takes 1.04× base's time (95 %: 1.03× – 1.05×); limit ± 2 %, 6 pairs of runs; 2 other rungs below.
  bad: REGRESSION: A whole interval lies beyond the limit. Exit status 3.
1.05× faster
  “flash”: head takes 0.95× base's time (95 %: 0.94× – 0.96×); limit ± 2 %, 6 pairs of runs; 1 other rung below.
  good: IMPROVEMENT: A whole interval lies beyond the limit, and no rung is slower. Exit status 3.
No change that matters
  “float32”: head takes 1.001× base's time (95 %: 0.99× – 1.01×); limit ± 2 %, 6 pairs of runs.
  good: SAME: Every interval lies within the limit. Exit status 3.
Inconclusive
  “noisy”: head takes 1.28× base's time (95 %: 1.27× – 1.29×); limit ± 2 %, 6 pairs of runs; 1 other rung below.
  warn: INCONCLUSIVE: An interval crosses the limit, so these runs cannot tell. Exit status 3. Run it again on a quiet machine, or with more `--pairs`.
No longer learns the same
  “flash”: head takes 0.95× base's time (95 %: 0.94× – 0.96×); limit ± 2 %, 6 pairs of runs; 1 other rung below.
  bad: REGRESSION: The losses differ. Exit status 3.
  bad: + flash: losses differ: step 3 has loss 9.5
Failed: head has no number
  head run r1-01: killed.
  bad: FAILED: A run of head failed, was not proven, or lost its loss. Exit status 3.
Unfit to judge
  it differs from itself.
  warn: UNFIT: The base has no number, or the machine is not fit for measuring. Exit status 3.
Saved as the baseline
  info: SAVED: There was no baseline to compare with. Exit status 3. The next gate compares with these runs.
Noise floor measured
  info: CALIBRATED: The program ran against itself. Exit status 3.
  info: 16 pairs of equal runs differ by 0 % (standard deviation). A slowdown beyond the limit and the noise floor together is found in 95 % of gates.
)");
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
