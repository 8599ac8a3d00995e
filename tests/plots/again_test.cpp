// The commands that make a study again.
#include "plots/again.h"

#include "tests/study/made_up_study.h"

#include <gtest/gtest.h>

namespace again_test {

using namespace plots;

Study typed(const std::vector<std::string>& flags) {
  Study study = made_up::study();
  study.typed = TypedLine{.flags = flags, .arguments = {}};
  return study;
}

TEST(Again, TheCommandIsWhatWasTyped) {
  Study study = typed({"--ladder", "gpt2", "--batch", "4", "--order-seed", "42"});
  study.rungs.front().command.emplace();
  study.typed->arguments = {"python a.py", "+ --compile"};
  EXPECT_EQ(command_again(study), "ladder measure --ladder gpt2 --batch 4 --order-seed 42 'python a.py' '+ --compile'");
  EXPECT_EQ(resume_command(*study.typed, "my study"),
            "ladder measure --resume --out 'my study' 'python a.py' '+ --compile'");
  study.typed->flags = {"--within", "ssh gpu-1 {command}", "--no-look", "--repeat", "3"};
  EXPECT_EQ(resume_command(*study.typed, "out"),
            "ladder measure --resume --out out --within 'ssh gpu-1 {command}' --no-look 'python a.py' '+ --compile'");
  EXPECT_EQ(command_again(made_up::study()), "");
}

TEST(Again, AQuickLookThatWentOnIsAWholeLadder) {
  Study study = typed({"--ladder", "gpt2", "--quick"});
  EXPECT_EQ(command_again(study), "ladder ablate --ladder gpt2");
  study.quick = true;
  EXPECT_EQ(command_again(study), "ladder ablate --ladder gpt2 --quick");
}

TEST(Again, ANameStaysOneWordOfTheShell) {
  EXPECT_EQ(command_again(typed({"--ladder", "'; rm -rf / `x` #\n"})),
            "ladder ablate --ladder ''\"'\"'; rm -rf / `x` # '");
}

TEST(Again, OfARungByItself) {
  Study study = typed({"--ladder", "gpt2", "--repeats", "5", "--batch", "4", "--deterministic", "--cold-cache",
                       "--with-peer", "pytorch"});
  EXPECT_EQ(commands_of_rung(study, study.rungs[0]).front(),
            "ladder run --rung start --ladder gpt2 --batch 4 --deterministic --cold-cache");
  study.rungs[1].status = RungStatus::not_applicable;
  EXPECT_TRUE(commands_of_rung(study, study.rungs[1]).empty());
  study.mode = Mode::leave_one_out;  // its rungs have no names
  EXPECT_TRUE(commands_of_rung(study, study.rungs[0]).empty());
}

}  // namespace again_test
