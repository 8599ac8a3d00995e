// A study most of whose runs were disturbed claims nothing, wherever it is shown.
#include "ablations/report/unusable.h"

#include "ablations/report/findings.h"
#include "ablations/report/sentences.h"
#include "ablations/report/table.h"
#include "ablations/report/trust.h"
#include "tests/ablations/made_up_study.h"

#include <gtest/gtest.h>

#include <string>

namespace unusable_test {

using namespace ablations;

// Of its 15 runs so many were disturbed.
Study disturbed(size_t runs, const std::string& flag = "shared: 1 other process on the GPU") {
  Study study = made_up::study();
  study.rungs[1].speedup_first = study.rungs[1].speedup_against = made_up::ratio(0.5, 0.4, 0.6);
  study.rungs[1].peak_memory_bytes = 1;
  study.notes = std::vector<std::string>{"What costs time here: \"bf16\" (0.50x)."};
  study.rungs[1].flags = std::vector<std::string>(runs, "r1-01-bf16 " + flag);
  return study;
}

TEST(Unusable, IsAStudyWithMoreThanHalfOfItsRunsDisturbed) {
  EXPECT_EQ(unusable_words(disturbed(7)), "");
  EXPECT_EQ(remedy_words(disturbed(7)), "");
  EXPECT_EQ(headline_words(disturbed(7)), "2.50\u00d7 faster");
  EXPECT_EQ(unusable_words(disturbed(8)), "Not usable: other work ran during 8 of 15 runs");
  EXPECT_EQ(remedy_words(disturbed(8)), "Stop the other work and begin a new study.");
  const Study hot = disturbed(15, "throttled: HwThermalSlowdown in 3 of 11 samples");
  EXPECT_EQ(unusable_words(hot), "Not usable: the GPU was throttled during 15 of 15 runs");
  EXPECT_EQ(remedy_words(hot), "Let the GPU cool and begin a new study.");
  EXPECT_EQ(remedy_for({"r1-00 paused: a step took 10 s among steps of 0.02 s"}), "let it run without a pause");
  EXPECT_EQ(remedy_for({"r1-00 memory: the allocator went to the device"}), "take a smaller batch");
  Study both = hot;
  both.rungs[2].flags = std::vector<std::string>(2, "r1-02-flash shared: 1 other process on the GPU");
  EXPECT_EQ(unusable_words(both), "Not usable: 17 of 15 runs were disturbed");
  EXPECT_EQ(remedy_words(both), "Stop the other work and begin a new study.");
}

TEST(Unusable, ItsTableAndChartsClaimNothing) {
  const Study study = without_claims(disturbed(8));
  for (const auto& [chart, words] : findings_of(study, {}, {})) EXPECT_EQ(words, unusable_words(study)) << chart;
  EXPECT_TRUE(findings_of(study, {}, {}).contains("ladder"));
  EXPECT_EQ(evidence_words(study) + change_words(study), "");
  const std::string table = study_table(disturbed(8)), usable = study_table(disturbed(7));
  EXPECT_NE(
      table.find("\nNot usable: other work ran during 8 of 15 runs. Stop the other work and begin a\nnew study.\n"),
      std::string::npos)
      << table;
  for (const char* claim : {"0.50x", "What costs time", "faster"}) {
    EXPECT_EQ(table.find(claim), std::string::npos) << claim << table;
    EXPECT_NE(usable.find(claim), std::string::npos) << claim << usable;
  }
  const Card first = trust_cards(study, {}, {}).front();
  EXPECT_EQ(first.what, "Disturbed runs");
}

TEST(Unusable, NeitherWorthsNorPeersAreToldOfIt) {
  Study study = disturbed(8);
  study.rungs[2].peers = std::vector<PeerRatio>(1);
  study.rungs[2].peers->front().ratio = 1.2;
  study.attribution = std::vector<Worth>(1);
  study.attribution->front().ratio = 1.5;
  study = without_claims(study);
  EXPECT_FALSE(study.rungs[2].peers->front().ratio);
  EXPECT_FALSE(study.attribution->front().ratio);
  EXPECT_EQ(study.attribution->front().reason, "other work ran during 8 of 15 runs");
}

}  // namespace unusable_test
