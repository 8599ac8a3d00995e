// What is said of a gate's verdict.
#include "plots/gate_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace gate_text_test {

using namespace plots;
using harness::Verdict;

ComparedRecipe entry(const std::string& label, double ratio, Verdict verdict) {
  ComparedRecipe made;
  made.label = label;
  made.ratio = ratio;
  made.lo = ratio - 0.01;
  made.hi = ratio + 0.01;
  made.verdict = verdict;
  made.pairs = 6;
  return made;
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

const ComparedRecipe slower = entry("+ bf16 autocast", 1.045, Verdict::regression);
const ComparedRecipe faster = entry("+ flash", 0.95, Verdict::improvement);
const ComparedRecipe same = entry("float32", 1.001, Verdict::same);

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
  const Said unclear = said_of(gate(GateOutcome::inconclusive, {faster, entry("noisy", 1.28, Verdict::inconclusive)}));
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
      gate(GateOutcome::inconclusive, {entry("noisy", 1.28, Verdict::inconclusive)}, {"noisy: 1.280 of base's time"}));
  EXPECT_TRUE(
      text.ends_with("INCONCLUSIVE: noisy: 1.280 of base's time\nRun it again on a quiet machine, or with more "
                     "`--pairs`.\n"))
      << text;
}

}  // namespace gate_text_test
