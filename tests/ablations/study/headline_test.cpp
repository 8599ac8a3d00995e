// What a study leads with, by name and against what, and the sentences beside its table.
#include "ablations/study/headline.h"

#include "ablations/run/run.h"
#include "tests/ablations/planted_study.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headline_test {

namespace fs = std::filesystem;

using namespace ablations;
using files::Json;

class Headline : public planted::PlantedStudy {
 protected:
  // The rung's runs, each repeat a tenth slower than the one before, which all rungs share.
  void takes(size_t rung, double ms) {
    for (int64_t repeat = 0; repeat < 3; ++repeat) {
      write(run_of(rung, repeat), good(run_of(rung, repeat), ms * (1.0 + 0.1 * static_cast<double>(repeat))));
    }
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
  EXPECT_TRUE(s["notes"].empty()) << s["notes"];
  EXPECT_TRUE(says(s, " 4.00x [4.00-4.00] faster than \"float32\" at \"fused AdamW\". ")) << planted::table_of(s);
}

TEST_F(Headline, LeadsWithAnEarlierRungThatIsClearlyFasterAndSaysWhatCostsTime) {
  takes(2, 200);
  const Json s = study();
  EXPECT_EQ(s["headline"]["fastest"], 1);
  EXPECT_EQ(s["headline"]["last"], 2);
  EXPECT_TRUE(says(s, " 2.00x [2.00-2.00] faster than \"float32\" at \"bf16 autocast\". ")) << planted::table_of(s);
  ASSERT_EQ(s["notes"].size(), 1U);
  EXPECT_EQ(s["notes"][0],
            "What costs time here: \"fused AdamW\" (0.25x). At the ladder's last rung, \"fused AdamW\", 0.50x is left. "
            "`ladder ablate --mode leave-one-out` says what each is worth.");
  EXPECT_TRUE(says(s, "What costs time here: \"fused AdamW\" (0.25x). At the ladder's")) << planted::table_of(s);
  write(run_of(2, 0), good(run_of(2, 0), 40));  // in one repeat it was the last that was faster: nothing is clear
  EXPECT_FALSE(study()["headline"].contains("fastest"));
}

TEST_F(Headline, ARungThatIsSlowerThanTheReferenceIsNoBest) {
  takes(1, 125);
  takes(2, 250);
  const Json s = study();
  EXPECT_FALSE(s["headline"].contains("fastest")) << s["headline"];
  EXPECT_TRUE(says(s, " Slower: \"fused AdamW\" has 0.40x [0.40-0.40] the speed of \"float32\". "))
      << planted::table_of(s);
  EXPECT_TRUE(says(s, "What costs time here: \"bf16 autocast\" (0.80x), \"fused AdamW\" (0.50x). `ladder"))
      << planted::table_of(s);
}

TEST_F(Headline, WithoutAnIntervalOrAClearChangeItClaimsNothing) {
  for (size_t rung = 0; rung < 3; ++rung) {
    for (int64_t repeat = 1; repeat < 3; ++repeat) fs::remove(record_file(folder_, run_of(rung, repeat).id));
  }
  EXPECT_TRUE(says(study(), " 4.00x from \"float32\" to \"fused AdamW\", without an interval. "))
      << planted::table_of(study());
  takes(0, 100);
  takes(2, 100);
  write(run_of(2, 1), good(run_of(2, 1), 90));
  EXPECT_TRUE(says(study(), " No clear change from \"float32\" to \"fused AdamW\": ")) << planted::table_of(study());
}

TEST_F(Headline, NamesTheReferenceThatTookThePlannedOnesPlace) {
  EXPECT_FALSE(study()["headline"].contains("planned"));
  for (int64_t repeat = 0; repeat < 3; ++repeat) {
    write(run_of(0, repeat),
          failed_record(run_of(0, repeat).id, FailureKind::out_of_memory, "asked 9 GiB of 8", planted::begun, 1.0));
  }
  const Json s = study();
  EXPECT_EQ(s["headline"]["planned"], 0);
  EXPECT_EQ(s["headline"]["first"], 1);
  EXPECT_TRUE(says(s, " 2.00x [2.00-2.00] faster than \"bf16 autocast\" at \"fused AdamW\". ")) << planted::table_of(s);
  const std::string table = planted::table_of(s);
  const size_t row = table.find("\n+ bf16 autocast");
  EXPECT_EQ(table.substr(row, table.find('\n', row + 1) - row).find("1.00x"), std::string::npos) << table;
  EXPECT_NE(table.substr(row, table.find('\n', row + 1) - row).find(" reference "), std::string::npos) << table;
}

TEST_F(Headline, SaysWhyRatiosDoNotMultiplyOnlyWhereTheyDoNot) {
  const double middle[] = {50, 55, 90}, last[] = {25, 40, 60};
  for (int64_t repeat = 0; repeat < 3; ++repeat) {
    write(run_of(1, repeat), good(run_of(1, repeat), middle[repeat]));
    write(run_of(2, repeat), good(run_of(2, repeat), last[repeat]));
  }
  const Json s = study();
  const auto shown = [&](size_t rung, const char* which) {
    return fmt::format("{:.2f}", s["rungs"][rung][which]["ratio"].get<double>());
  };
  ASSERT_EQ(s["notes"].size(), 1U) << s["notes"];
  EXPECT_TRUE(s["notes"][0].get<std::string>().starts_with(
      fmt::format("\"fused AdamW\" is at {}x so far, not at {} x {} = ", shown(2, "speedup_first"),
                  shown(1, "speedup_first"), shown(2, "speedup_previous"))))
      << s["notes"];
  EXPECT_TRUE(says(s, "each ratio is the middle of its own pairs of runs")) << planted::table_of(s);
}

}  // namespace headline_test
