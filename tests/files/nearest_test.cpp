#include "files/nearest.h"

#include <gtest/gtest.h>

namespace nearest_test {

using files::nearest;
using Names = std::vector<std::string>;

TEST(Nearest, NamesComeInTheOrderOfTheirDistance) {
  const Names commands = {"ablate", "run", "report", "gate"};
  EXPECT_EQ(nearest("abalte", commands), (Names{"ablate", "gate"}));                       // 2, 3
  EXPECT_EQ(nearest("repor", commands), (Names{"report"}));                                // 1
  EXPECT_EQ(nearest("gates", {"rates", "gate", "gat"}), (Names{"gate", "rates", "gat"}));  // 1, 1, 2
}

TEST(Nearest, NoneOfWhatHasHardlyALetterInCommon) {
  EXPECT_TRUE(nearest("qqqqqq", {"ablate", "report"}).empty());
  EXPECT_TRUE(nearest("warp", {"start", "memory", "flash"}).empty());  // 3 of 4 letters
  EXPECT_TRUE(nearest("run", {}).empty());
  EXPECT_TRUE(nearest("--wait", {"--clip", "--data"}).empty());  // dashes are no letters
}

TEST(Nearest, AnAbbreviationIsNear) {
  const Names flags = {"--base", "--batch", "--repeats", "--seed", "--steps"};
  EXPECT_EQ(nearest("--batch-size", flags).front(), "--batch");
  EXPECT_EQ(nearest("--reps", flags).front(), "--repeats");
  EXPECT_EQ(nearest("--step", flags).front(), "--steps");
  EXPECT_EQ(nearest("--sed", flags).front(), "--seed");
}

TEST(Nearest, TheCaseOfLettersDoesNotMatter) {
  EXPECT_EQ(nearest("GTP2", {"gpt2", "gpt2-cpu", "tiny"}).front(), "gpt2");
  EXPECT_EQ(nearest("Flash", {"FLASH", "vocab"}), (Names{"FLASH"}));
}

TEST(Nearest, FiveAreEnough) {
  EXPECT_EQ(nearest("a0", {"a6", "a5", "a4", "a3", "a2", "a1"}), (Names{"a1", "a2", "a3", "a4", "a5"}));
}

}  // namespace nearest_test
