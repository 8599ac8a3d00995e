#include "results/comparison.h"

#include "files/files.h"
#include "files/resources.h"
#include "plots/gate_text.h"
#include "results/history.h"
#include "study/archive/history_points.h"
#include "study/gate/baseline_file.h"
#include "study/gate/compare.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace gate_test {

// Comparisons, gates' verdicts, baselines, noise floors and histories as structs: what is read is written again.

namespace fs = std::filesystem;
using namespace plots;
using files::Json;

const fs::path evidence = files::resource_root() / "results" / "evidence";

const Side& measured() {
  static const Side side = read_side(evidence / "intel-xeon-2-cores-2026-11-23");
  return side;
}

const Comparison& compared() {
  static const Comparison comparison = compare_sides(measured(), measured(), {});
  return comparison;
}

template <Document T>
void expect_same_again(const Json& written) {
  EXPECT_EQ(json_of(value_from<T>(written, "it")), written);
}

TEST(Documents, NoiseFloorsOfTheEvidenceAreWrittenAsTheyWereRead) {
  size_t files = 0;
  for (const auto& study : fs::directory_iterator(evidence)) {
    const fs::path file = study.path() / "with" / "noise.json";
    if (!fs::exists(file)) continue;
    expect_same_again<Noise>(files::read_any_json(file));
    ++files;
  }
  EXPECT_GE(files, 2U);
}

TEST(Documents, AComparisonOfTheEvidenceIsReadAsItWasWritten) {
  const Json written = json_of(compared());
  expect_same_again<Comparison>(written);
  EXPECT_EQ(written.at("entries").at(0).at("verdict"), "SAME");
  EXPECT_EQ(written.at("entries").at(0).at("loss").at("deviation"), 0);
  EXPECT_TRUE(written.at("entries").at(0).at("sessions").is_null());
  EXPECT_FALSE(written.at("entries").at(0).at("setting").contains("driver"));
}

TEST(Documents, ADeviationIsThereOrNullOrTheLossesAreNotCompared) {
  Json written = json_of(compared());
  Json& loss = written.at("entries").at(0).at("loss");
  loss.at("deviation") = nullptr;
  expect_same_again<Comparison>(written);
  loss = {{"compared", false}, {"message", "losses are not compared: another seed"}};
  expect_same_again<Comparison>(written);
  EXPECT_TRUE(value_from<Comparison>(written, "it").entries.at(0).loss.is_good());
}

TEST(Documents, ABaselineKeepsItsRecordsAndSessions) {
  const Sample& sample = measured().samples.front();
  Json written = json_of(baseline_of(sample));
  expect_same_again<Baseline>(written);
  EXPECT_EQ(written.at("sessions").size(), 1U);
  EXPECT_EQ(written.at("records").at(0), json_of(sample.records.front()));
  const auto baseline = value_from<Baseline>(written, "it");
  EXPECT_EQ(sample_of(baseline).sessions, std::vector<double>{baseline.median_ms});
  EXPECT_EQ(with_session(baseline, sample).sessions.size(), 2U);
}

TEST(Documents, AGatesVerdictHoldsWholeDocuments) {
  GateResult gate;
  gate.created = "2026-11-23T14:10:13Z";
  gate.subject = "rung residual16 of ladder gpt2, B=16 T=1024";
  gate.verdict = GateOutcome::calibrated;
  gate.exit_status = 0;
  gate.pairs = 8;
  gate.noise = {NoiseFloor{0.01, NoiseSource::these_pairs}, std::nullopt};
  gate.calibration = {read_document<Noise>(evidence / "intel-xeon-2-cores-2026-11-23" / "with" / "noise.json")};
  gate.comparison = compared();
  Json written = json_of(gate);
  expect_same_again<GateResult>(written);
  gate.said = said_of(gate);
  expect_same_again<GateResult>(json_of(gate));
  EXPECT_EQ(written.at("verdict"), "CALIBRATED");
  EXPECT_EQ(written.at("noise"), Json::parse(R"([{"floor": 0.01, "source": "these pairs"}, null])"));
  EXPECT_EQ(written.at("comparison").at("kind"), "comparison");
  written.at("comparison").at("entries").at(0).at("verdict") = "FASTER";
  try {
    (void)value_from<GateResult>(written, "gate.json");
    FAIL() << "a comparison of no kind is taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("gate.json: field [comparison][entries][0][verdict]"), std::string::npos)
        << error.what();
  }
}

TEST(Documents, AHistoryOfTheEvidenceIsReadAsItWasWritten) {
  const Json written = json_of(history_of(evidence));
  expect_same_again<History>(written);
  EXPECT_GE(written.at("studies").get<size_t>(), 2U);
  EXPECT_EQ(written.at("series").at(0).at("verdict"), "too_few");
  EXPECT_TRUE(written.at("series").at(0).at("drift").is_null());
}

}  // namespace gate_test
