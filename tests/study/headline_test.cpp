// What a study leads with, by name and against what.
#include "ablations/gpt2/run.h"
#include "study/judge.h"
#include "tests/study/planted_study.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headline_test {

namespace fs = std::filesystem;

using namespace study;
using files::Json;

class Headline : public planted::PlantedStudy {
 protected:
  Headline() { repeats_ = 4; }
  // The rung's runs, each repeat a tenth slower than the one before, which all rungs share.
  void takes(size_t rung, double ms) {
    for (int64_t repeat = 0; repeat < 4; ++repeat) plant(rung, repeat, ms * (1.0 + 0.1 * static_cast<double>(repeat)));
  }

  static bool says(const Json& study, const std::string& text) {
    std::string table = planted::table_of(study);
    std::ranges::replace(table, '\n', ' ');  // wherever it was broken
    return table.find(text) != std::string::npos;
  }
};

TEST_F(Headline, IsTheLastRungsWhereThatIsTheFastest) {
  const Json s = study();
  EXPECT_EQ(s["headline"], (Json{{"first", 0}, {"last", 2}, {"speedup", s["rungs"][2]["speedup_first"]}}));
  EXPECT_TRUE(says(s, " 4.00x faster than \"float32\" ")) << planted::table_of(s);
}

TEST_F(Headline, LeadsWithAnEarlierRungThatIsClearlyFasterAndSaysWhatCostsTime) {
  takes(2, 200);
  const Json s = study();
  EXPECT_EQ(s["headline"]["fastest"], 1);
  EXPECT_EQ(s["headline"]["last"], 2);
  EXPECT_TRUE(says(s, " 2.00x faster than \"float32\", at \"bf16 autocast\" ")) << planted::table_of(s);
  EXPECT_TRUE(says(s, " Slower here: fused AdamW 0.25x. At the ladder's last rung, \"fused AdamW\", 0.50x is left."))
      << planted::table_of(s);
  plant(2, 0, 40);  // in one repeat it was the last that was faster: nothing is clear
  EXPECT_FALSE(study()["headline"].contains("fastest"));
}

TEST_F(Headline, ARungThatIsSlowerThanTheReferenceIsNoBest) {
  takes(1, 125);
  takes(2, 250);
  const Json s = study();
  EXPECT_FALSE(s["headline"].contains("fastest")) << s["headline"];
  EXPECT_TRUE(says(s, " Slower: 0.40x the speed of \"float32\" ")) << planted::table_of(s);
  EXPECT_TRUE(says(s, " Slower here: fused AdamW 0.50x | bf16 autocast 0.80x.")) << planted::table_of(s);
}

TEST_F(Headline, WithoutAnIntervalOrAClearChangeItClaimsNothing) {
  for (size_t rung = 0; rung < 3; ++rung) {
    for (int64_t repeat = 1; repeat < plan_.repeats; ++repeat)
      fs::remove(record_file(folder_, run_of(rung, repeat).id));
  }
  EXPECT_TRUE(says(study(), " Not usable: 1 pair of runs, and a verdict needs 4 ")) << planted::table_of(study());
  takes(0, 100);
  takes(2, 100);
  plant(2, 1, 90);
  EXPECT_TRUE(says(study(), " No clear change from \"float32\" ")) << planted::table_of(study());
}

TEST_F(Headline, NamesTheReferenceThatTookThePlannedOnesPlace) {
  EXPECT_FALSE(study()["headline"].contains("planned"));
  lose(0);
  const Json s = study();
  EXPECT_EQ(s["headline"]["planned"], 0);
  EXPECT_EQ(s["headline"]["first"], 1);
  EXPECT_TRUE(says(s, " 2.00x faster than \"bf16 autocast\" ")) << planted::table_of(s);
  const std::string table = planted::table_of(s);
  const size_t row = table.find("\n+ bf16 autocast");
  EXPECT_EQ(table.substr(row, table.find('\n', row + 1) - row).find("1.00x"), std::string::npos) << table;
  EXPECT_NE(table.substr(row, table.find('\n', row + 1) - row).find(" reference "), std::string::npos) << table;
}

}  // namespace headline_test
