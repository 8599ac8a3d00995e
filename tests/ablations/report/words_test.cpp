// The sentences in a report's document, and what verifying a study says of them.
#include "ablations/report/words.h"

#include "ablations/report/report.h"
#include "ablations/report/verify_exports.h"
#include "tests/ablations/planted_study.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

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
}

TEST_F(Words, AreVerifiedWhereTheyAre) {
  const auto is_of_words = [](const Finding& finding) { return finding.field.find("words") != std::string::npos; };
  const auto of_words = [&](const Json& document) { return std::ranges::count_if(verified(document), is_of_words); };
  Json document = report();
  EXPECT_EQ(of_words(document), 0);
  document["studies"][0]["words"]["headline"] = "100\u00d7 faster";
  EXPECT_EQ(of_words(document), 1);
  document = report();
  document["studies"][0]["words"].erase("findings");  // as older programs wrote them
  EXPECT_EQ(of_words(document), 0);
  document["studies"][0].erase("words");
  EXPECT_EQ(of_words(document), 0);
}

}  // namespace
