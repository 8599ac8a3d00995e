// The commands that make a study again.
#include "plots/again.h"

#include "tests/study/made_up_study.h"

#include <gtest/gtest.h>

namespace again_test {

using namespace plots;

const std::string sizes = "--model gpt2-124m -B 4 -T 256 --warmup 5 --steps 20";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Again, ACommandSaysWhatALadderDoesNot) {
  Study study = made_up::study();
  EXPECT_EQ(command_again(study), "ladder ablate --ladder gpt2 " + sizes + " --repeats 5 --order-seed 42");
  study.workload.accumulation = 2;
  study.workload.positions = 4096;
  study.workload.seed = 7;
  study.workload.data.source = "my text.txt";
  study.environment.threads = 1;
  study.environment.cpu.logical_cores = 8;
  for (StudyRung& rung : study.rungs) rung.recipe["deterministic"] = true;
  EXPECT_EQ(command_again(study),
            "ladder ablate --ladder gpt2 --model gpt2-124m -B 4 -T 256 --accumulation 2 --positions 4096 --seed 7 "
            "--warmup 5 --steps 20 --threads 1 --data 'my text.txt' --deterministic --repeats 5 --order-seed 42");
  study.quick = true;
  EXPECT_TRUE(command_again(study).ends_with(" --deterministic --quick --order-seed 42"));
}

TEST(Again, ATextOfCopiesAndAColdCacheAreMadeAgain) {
  Study study = made_up::study();
  study.workload.data.source = "play-3-times-0123abcd.txt";
  study.plan.repeated = RepeatedText{.source = "play.txt", .bytes = 500000000};
  study.plan.cold_cache = true;
  EXPECT_TRUE(
      contains(command_again(study), sizes + " --data play.txt --repeat-to 500000000 --cold-cache --repeats 5"));
  const std::vector<std::string> of_rung = commands_of_rung(study, study.rungs[0]);
  EXPECT_TRUE(of_rung[0].ends_with(sizes + " --data play.txt --repeat-to 500000000 --cold-cache")) << of_rung[0];
  EXPECT_TRUE(of_rung[1].ends_with(sizes + " --data play.txt")) << of_rung[1];  // it has no such flags
  study.plan.repeated->source = "shakespeare.txt";
  study.plan.cold_cache = false;
  EXPECT_TRUE(contains(command_again(study), sizes + " --repeat-to 500000000 --repeats 5"));
}

TEST(Again, ANameStaysOneWordOfTheShell) {
  Study study = made_up::study();
  study.ladder.name = "'; rm -rf / `x` #\n";
  EXPECT_TRUE(command_again(study).starts_with("ladder ablate --ladder ''\"'\"'; rm -rf / `x` # ' --model"))
      << command_again(study);
  study.ladder.file = "own/ladder.json";
  EXPECT_TRUE(command_again(study).starts_with("ladder ablate --ladder own/ladder.json --model"));
}

TEST(Again, OfARungByItself) {
  Study study = made_up::study();
  EXPECT_EQ(commands_of_rung(study, study.rungs[0]),
            (std::vector<std::string>{"ladder run --ladder gpt2 --rung start " + sizes,
                                      "ladder profile --trace --ladder gpt2 --rung start " + sizes}));
  EXPECT_TRUE(commands_of_rung(study, study.rungs[1])[0].starts_with("ladder run --ladder gpt2 --rung bf16 "));
  study.rungs[1].status = RungStatus::not_applicable;
  EXPECT_TRUE(commands_of_rung(study, study.rungs[1]).empty());
  study.mode = Mode::leave_one_out;  // its rungs have no names
  EXPECT_TRUE(commands_of_rung(study, study.rungs[0]).empty());
}

TEST(Again, OfTheOtherModes) {
  Study study = made_up::study();
  study.mode = Mode::factorial;
  for (const char* name : {"flash", "bf16", "flash"}) {
    study.attribution.emplace_back();
    study.attribution.back().optimization = name;
  }
  EXPECT_TRUE(contains(command_again(study), " --mode factorial --factors flash,bf16 --model "));
  study.mode = Mode::sweep;
  study.swept = Swept::batch;
  for (StudyRung& rung : study.rungs) {
    rung.workload.emplace();
    rung.workload->B = rung.index == 2 ? 32 : 16;
  }
  EXPECT_TRUE(contains(command_again(study),
                       " --sweep batch=16,32 --rung start --rung bf16 --rung flash --model gpt2-124m -T 256 --warmup"))
      << command_again(study);
}

// One of PyTorch beside a rung of ours.
void add_peer(Study& study, size_t against, const std::string& mode, const char* execution) {
  study.rungs[against].recipe["execution"] = execution;
  StudyRung peer = study.rungs[against];
  peer.index = study.rungs.size();
  peer.peer = mode;
  peer.against = against;
  peer.peers.reset();
  study.rungs.push_back(peer);
  if (!study.rungs[against].peers) study.rungs[against].peers.emplace();
  study.rungs[against].peers->emplace_back();
  study.rungs[against].peers->back().rung = peer.index;
}

TEST(Again, TheRungsBesideWhichPyTorchCompilesAreNamed) {
  Study last = made_up::study();
  add_peer(last, 0, "pytorch-eager", "eager");
  add_peer(last, 2, "pytorch-compile", "graph");
  EXPECT_TRUE(contains(command_again(last), " --with-peer pytorch --peer-modes eager,compile --model "))
      << command_again(last);
  Study inner = made_up::study();
  add_peer(inner, 1, "pytorch-compile", "graph");
  EXPECT_TRUE(contains(command_again(inner), " --peer-modes compile --peer-rung bf16 --model "));
  add_peer(inner, 2, "pytorch-eager", "graph");
  EXPECT_TRUE(
      contains(command_again(inner), " --peer-modes compile,eager --peer-rung bf16 --peer-rung flash --model "));
  Study eager = made_up::study();
  add_peer(eager, 1, "pytorch-eager", "eager");
  EXPECT_FALSE(contains(command_again(eager), "--peer-rung"));
}

}  // namespace again_test
