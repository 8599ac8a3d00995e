// How batches come to be: each way is proven by a real step and by no other way's, and what is planted is found.
#include "ablations/gpt2/observe.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/techniques.h"
#include "files/files.h"
#include "model/trainer.h"
#include "tests/ablations/techniques/numbers.h"
#include "tests/harness/machines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace batches_test {

namespace fs = std::filesystem;
using namespace ablations;
using namespace model;

constexpr int64_t B = 4, T = 16, micro_steps = 2;

class BatchesTechnique : public testing::Test {
 protected:
  BatchesTechnique() {
    if (const char* vocabulary = std::getenv("LADDER_TEST_VOCAB")) {
      std::string text;
      while (text.size() < 20000)
        text += "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind\n";
      std::ofstream(folder_.path() / "text.txt") << text;
      in_memory_ = tokens_of_text(folder_.path() / "text.txt", vocabulary, folder_.path());
      has_text_ = true;
    } else {
      in_memory_ = numbers::text();
      in_memory_.file = folder_.path() / "tokens.bin";
      write_tokens(in_memory_.file, in_memory_.tokens);
    }
    in_file_ = in_memory_;
    in_file_.in_file = in_file_.tokens.size();
    in_file_.tokens.clear();
  }

  std::vector<Batches> ways() const {
    std::vector<Batches> all{Batches::read, Batches::mapped, Batches::preloaded, Batches::gather, Batches::prefetched};
    if (has_text_) all.push_back(Batches::tokenized);
    return all;
  }

  // What a run is seen to do: made once for all tests.
  const RunFacts& facts(Batches batches) const {
    static std::map<Batches, RunFacts> known;
    const auto found = known.find(batches);
    return found == known.end() ? known.emplace(batches, observed_facts(batches)).first->second : found->second;
  }

  RunFacts observed_facts(Batches batches, Windows windows = Windows::consecutive) const {
    const TokenStream& stream = kept_for(batches) == Keep::in_file ? in_file_ : in_memory_;
    Trainer trainer(preset("tiny"), {.batches = batches},
                    {.B = B, .T = T, .accumulation = micro_steps, .max_steps = 4 + observed_steps, .windows = windows},
                    stream, step_parts());
    for (int step = 0; step < 4; ++step) trainer.step();
    return {.observations = observe(trainer).observations, .attentions = 2 * micro_steps};
  }

  const files::TemporaryFolder folder_{"batches-test"};
  TokenStream in_memory_, in_file_;
  bool has_text_ = false;
};

Proof proof_of(Batches claimed, const RunFacts& facts) {
  return *std::ranges::find(techniques(), "batches", &Technique::field)->prove({.batches = claimed}, facts);
}

TEST_F(BatchesTechnique, EachWayIsProvenByItsOwnStepsOnly) {
  for (const Batches really : ways()) {
    const RunFacts run = facts(really);
    for (const Batches claimed : {Batches::tokenized, Batches::read, Batches::mapped, Batches::preloaded,
                                  Batches::gather, Batches::prefetched}) {
      const Proof proof = proof_of(claimed, run);
      EXPECT_EQ(proof.passed, really == claimed)
          << name_of(claimed) << " of a run that was " << name_of(really) << ": " << proof.observed;
    }
  }
}

TEST_F(BatchesTechnique, RandomWindowsLeaveTheProofsAsTheyAre) {
  for (const Batches batches : ways()) {
    const Proof proof = proof_of(batches, observed_facts(batches, Windows::random));
    EXPECT_TRUE(proof.passed) << proof.observed;
  }
}

TEST_F(BatchesTechnique, LossesAreTheSameToTheBit) {
  std::vector<std::vector<double>> expected;
  for (const Windows windows : {Windows::consecutive, Windows::random}) {
    std::vector<double> losses;
    for (const Batches batches : ways()) {
      const TokenStream& stream = kept_for(batches) == Keep::in_file ? in_file_ : in_memory_;
      Trainer trainer(preset("tiny"), {.batches = batches},
                      {.B = B, .T = T, .accumulation = micro_steps, .max_steps = 5, .windows = windows}, stream,
                      step_parts());
      for (int step = 0; step < 5; ++step) trainer.step();
      if (losses.empty()) losses = trainer.losses();
      EXPECT_EQ(trainer.losses(), losses) << name_of(batches);
    }
    expected.push_back(losses);
  }
  EXPECT_NE(expected[0], expected[1]);
}

// A run as it was seen, with one thing otherwise.
TEST_F(BatchesTechnique, WhatIsPlantedIsFound) {
  using Seen = Observations::Batches;
  using Plant = void (*)(Seen&);
  const Plant read = [](Seen& seen) { seen.process_bytes_read = 1 << 20; };
  const Plant made = [](Seen& seen) { seen.tokenized = 5; };
  const Plant mapped = [](Seen& seen) { seen.mapping = "7f0000000000"; };
  const auto gather = Batches::gather, preloaded = Batches::preloaded, ahead = Batches::prefetched;
  const auto from_file = Batches::read, of_mapping = Batches::mapped, tokenized = Batches::tokenized;
  for (const auto& [batches, what, plant] : std::vector<std::tuple<Batches, const char*, Plant>>{
           {preloaded, "the process read a file, which the loader does not tell", read},
           {gather, "the process read a file", read},
           {ahead, "the process read a file", read},
           {preloaded, "text was tokenized", made},
           {gather, "text was tokenized", made},
           {ahead, "text was tokenized", made},
           {preloaded, "the file was mapped", mapped},
           {gather, "the file was mapped", mapped},
           {ahead, "the file was mapped", mapped},
           {gather, "sequence by sequence", [](Seen& seen) { seen.copies = seen.sequences; }},
           {gather, "by a thread", [](Seen& seen) { seen.by_a_thread = seen.steps; }},
           {gather, "stacked", [](Seen& seen) { seen.operations["aten::stack"] = 4; }},
           {preloaded, "in one pass", [](Seen& seen) { seen.copies = 2 * seen.micro_steps; }},
           {preloaded, "not stacked", [](Seen& seen) { seen.operations.erase("aten::stack"); }},
           {ahead, "one batch by the step itself", [](Seen& seen) { --seen.by_a_thread; }},
           {ahead, "one batch begun when it was asked for", [](Seen& seen) { --seen.ready; }},
           {from_file, "one sequence not read", [](Seen& seen) { --seen.reads; }},
           {from_file, "one byte not read", [](Seen& seen) { --seen.bytes_read; }},
           {from_file, "the kernel saw less", [](Seen& seen) { seen.process_bytes_read = 10; }},
           {from_file, "mapped", mapped},
           {from_file, "tokenized", made},
           {of_mapping, "not mapped", [](Seen& seen) { seen.mapping.reset(); }},
           {of_mapping, "read", read},
           {tokenized, "no token made", [](Seen& seen) { seen.tokenized = 0; }},
           {tokenized, "no text read", [](Seen& seen) { seen.process_bytes_read = 0; }}}) {
    if (batches == tokenized && !has_text_) continue;
    RunFacts run = facts(batches);
    EXPECT_TRUE(proof_of(batches, run).passed) << proof_of(batches, run).observed;
    plant(*run.observations.batches);
    EXPECT_FALSE(proof_of(batches, run).passed) << name_of(batches) << ": " << what;
  }
}

TEST_F(BatchesTechnique, WhatTheKernelDoesNotCountIsNoProofAgainstIt) {
  for (const Batches batches : {Batches::read, Batches::gather}) {
    RunFacts run = facts(batches);
    run.observations.batches->process_bytes_read.reset();
    EXPECT_TRUE(proof_of(batches, run).passed);
    EXPECT_NE(proof_of(batches, run).observed.find("which the kernel does not count"), std::string::npos);
  }
  RunFacts older;  // whose record does not say
  EXPECT_FALSE(proof_of(Batches::gather, older).passed);
}

TEST(BatchesOptimizations, GoOnlyForwards) {
  const char* order[] = {"token_file", "mapped_file", "preloaded", "gather", "prefetch"};
  for (size_t i = 0; i < std::size(order); ++i) {
    const Optimization* one = find_optimization(order[i]);
    ASSERT_NE(one, nullptr) << order[i];
    for (size_t j = 0; j < std::size(order); ++j) {
      EXPECT_EQ(std::ranges::count(one->excludes, order[j]) == 1, j > i) << order[i] << " after " << order[j];
    }
    EXPECT_EQ(one->obstacle({}, machines::cpu), "");
  }
  EXPECT_TRUE(find_optimization("gather")->is_on({}, machines::cpu)) << "what recipes have without a word";
}

}  // namespace batches_test
