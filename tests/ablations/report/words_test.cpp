// The sentences in a report's document, and what verifying a study says of them.
#include "ablations/report/words.h"

#include "ablations/report/report.h"
#include "ablations/report/verify_exports.h"
#include "tests/ablations/planted_study.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace words_test {

using namespace ablations;
using files::Json;

class Words : public planted::PlantedStudy {
 protected:
  Json report() const { return json_of(with_words(report_document({computed_study(plan_, folder_)}))); }

  // What verifying the folder finds of a report in it.
  std::vector<Finding> verified(const Json& report) const {
    files::write_json(folder_ / "report.json", report, "report");
    return verify_exports(folder_, computed_study(plan_, folder_).study).findings;
  }
};

TEST_F(Words, StandInTheReportOncePerRung) {
  Json unproven = good(run_of(1, 2), 50);
  unproven["proofs"][0]["passed"] = false;
  write(run_of(1, 2), unproven);
  const Json document = report();
  EXPECT_EQ(json_of(with_words(value_from<Report>(document, "the report"))), document);
  const Json words = document["studies"][0]["words"];
  EXPECT_TRUE(words["headline"].get<std::string>().starts_with("4.00\u00d7")) << words["headline"];
  ASSERT_EQ(words["rungs"].size(), 3U);
  EXPECT_EQ(words["rungs"][0]["reason"], "");
  EXPECT_EQ(words["rungs"][1]["status"], "unproven");
  EXPECT_TRUE(words["rungs"][1]["reason"].get<std::string>().starts_with("unproven: "));
  EXPECT_NE(words["rungs"][2]["guard"], "");
  EXPECT_EQ(words["rungs"][0]["commands"].size(), 2U);
  EXPECT_EQ(words["trust"][0]["what"], "Runs");
  EXPECT_TRUE(words["command"].get<std::string>().starts_with("ladder ablate --ladder test "));
  EXPECT_TRUE(words["findings"]["ladder"].get<std::string>().starts_with("4.00\u00d7")) << words["findings"];
  EXPECT_FALSE(words["findings"].contains("attribution"));
  EXPECT_TRUE(words["evidence"].get<std::string>().ends_with(" pairs of runs")) << words["evidence"];
  EXPECT_TRUE(words["origin"]["subject"].get<std::string>().starts_with("Training ")) << words["origin"];
  EXPECT_NE(words["rungs"][0]["figures"], "");
  EXPECT_EQ(words["rungs"][1]["figures"], "");
  EXPECT_TRUE(words["rungs"][2]["guard"].get<std::string>().starts_with("Guard: passed, "));
}

TEST_F(Words, StandInTheComparisonOfTwoStudiesAndInGates) {
  const StudyFiles files = computed_study(plan_, folder_);
  ablations::Report both = report_document({files, files});
  GateResult& gate = both.gates.emplace_back();
  gate.pairs = 6;
  gate.comparison = both.comparison;
  const Json document = json_of(with_words(both));
  EXPECT_EQ(json_of(with_words(value_from<ablations::Report>(document, "the report"))), document);
  EXPECT_TRUE(document["comparison"]["words"]["how"].get<std::string>().ends_with("Above 1, the second takes longer."));
  const Json of_gate = document["gates"][0]["comparison"];
  EXPECT_TRUE(of_gate["words"]["how"].get<std::string>().ends_with("Above 1, head takes longer."));
  EXPECT_EQ(of_gate["entries"][0]["words"]["remarks"][0]["words"], "losses identical to the bit");
}

TEST_F(Words, TellHowLongAPeerCompiled) {
  EXPECT_FALSE(report()["studies"][0]["words"]["rungs"][2].contains("compiling"));
  for (int64_t repeat = 0; repeat < 3; ++repeat) {
    Json compiled = good(run_of(2, repeat), 25);
    compiled["observations"] = {
        {"compilation", {{"compile_s", repeat == 0 ? 31.5 : 10.0 + static_cast<double>(repeat)}}}};
    write(run_of(2, repeat), compiled);
  }
  const Json made = report();
  EXPECT_EQ(made["studies"][0]["words"]["rungs"][2]["compiling"], "31.5 s, then 11.5 s");
  EXPECT_FALSE(made["studies"][0]["words"]["rungs"][1].contains("compiling"));
}

TEST_F(Words, TellOfPredictionsWhereRecordsCountTheLeastWork) {
  const Json older = report();
  EXPECT_FALSE(older["studies"][0].contains("predictions") || older["studies"][0]["words"].contains("prediction"));
  for (const PlannedRun& run : plan_.runs) {
    Json record = good(run, 100);
    record["least_work"] = {{"flops", 8.0}, {"bytes", 100.0 - 10.0 * static_cast<double>(run.rung)}};
    write(run, record);
  }
  const Json entry = report()["studies"][0];
  EXPECT_EQ(entry["study"]["rungs"][2]["least_work"], (Json{{"flops", 8.0}, {"bytes", 80.0}}));
  ASSERT_EQ(entry["predictions"].size(), 3U);
  EXPECT_EQ(entry["predictions"][0]["saved"], Json());
  EXPECT_EQ(entry["predictions"][2]["saved"], (Json{{"flops", 0.0}, {"bytes", 10.0}}));
  EXPECT_NE(entry["words"]["prediction"], "");
  const auto found = [&](const Json& document) {
    return std::ranges::count_if(verified(document), [](const Finding& finding) {
      return finding.field.find("predictions") != std::string::npos;
    });
  };
  Json edited = report();
  EXPECT_EQ(found(edited), 0);
  edited["studies"][0]["predictions"][2]["ratio"] = 2.0;
  EXPECT_EQ(found(edited), 1);
}

TEST_F(Words, AreVerifiedWhereTheyAre) {
  const auto is_of_words = [](const Finding& finding) { return finding.field.find("words") != std::string::npos; };
  const auto of_words = [&](const Json& document) { return std::ranges::count_if(verified(document), is_of_words); };
  Json document = report();
  EXPECT_EQ(of_words(document), 0);
  document["studies"][0]["words"]["headline"] = "100\u00d7 faster";
  EXPECT_EQ(of_words(document), 1);
  document = report();
  document["studies"][0]["words"].erase("origin");  // as older programs wrote them
  EXPECT_EQ(of_words(document), 0);
  document["studies"][0].erase("words");
  EXPECT_EQ(of_words(document), 0);
}

}  // namespace words_test
