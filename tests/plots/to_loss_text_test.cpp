// What is said of a study of time to loss, and its table.
#include "plots/to_loss_text.h"

#include "files/printable.h"
#include "study/training/quality.h"
#include "tests/study/planted_to_loss.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>

namespace to_loss_text_test {

using namespace plots;

TimeToLoss told_study(TimeToLoss study = planted::to_loss()) { return with_said(with_verdicts(std::move(study))); }

TEST(TimeToLossSaid, SayWhatEachRungDoes) {
  const TimeToLoss study = told_study();
  EXPECT_EQ(study.rungs[0].words, "the others are compared with it");
  EXPECT_EQ(study.rungs[1].words, "skipped: no CUDA device");
  EXPECT_EQ(study.rungs[2].words, "95 % [2.00\u20132.00]; at the end +0.0200 nats [-0.0048, +0.0448]");
  EXPECT_EQ(study.rungs[3].words, "the loss was not reached; at the end +2.5200 nats [+2.4952, +2.5448]");
  EXPECT_EQ(study.said.headline, "2.00\u00d7 faster to loss 5");
  EXPECT_EQ(study.said.lines.front(),
            "\u201cbf16 autocast\u201d against \u201cfloat32\u201d: 95 % [2.00\u20132.00]; same quality: +0.0200 nats "
            "[-0.0048, +0.0448] at the end, margin 0.05.");
  EXPECT_TRUE(study.said.lines.back().starts_with("1 of 2 rungs learn as well as the reference; "))
      << study.said.lines.back();
  EXPECT_TRUE(study.said.remarks.empty());
}

TEST(TimeToLossSaid, ASpeedupWithoutTheQualityDoesNotCount) {
  TimeToLoss study = planted::to_loss();
  study.margin = 0.03;
  study = told_study(std::move(study));
  EXPECT_EQ(study.rungs[2].words,
            "2.00\u00d7 as fast [2.00\u20132.00], which does not count; at the end +0.0200 nats [-0.0048, +0.0448]");
  EXPECT_EQ(study.said.headline, "No rung is clearly faster to loss 5");
  EXPECT_EQ(study.said.remarks.back().code, "unclear-quality");
}

TEST(TimeToLossSaid, SayWhatIsMissing) {
  TimeToLoss study = planted::to_loss();
  study.trainings[1].not_finite = "the loss of step 12";
  study.trainings[2].failure = "killed by signal 9 (Killed)";
  study.trainings.resize(3);
  study = told_study(std::move(study));
  EXPECT_EQ(study.rungs[2].words, "diverged with seed 1: the loss of step 12 is not finite");
  EXPECT_EQ(study.rungs[3].words, "failed with seed 1: killed by signal 9 (Killed)");
  EXPECT_EQ(study.said.remarks.front().text, "Interrupted: 3 of 9 trainings were made.");
  EXPECT_EQ(study.said.remarks.front().fix, "`ladder ablate --resume` makes the others.");

  study.trainings.clear();
  EXPECT_EQ(told_study(study).said.headline, "No training has ended yet");

  study = planted::to_loss();
  study.loss = 2;
  study.seeds = 1;
  study.trainings.resize(3);
  study = told_study(std::move(study));
  EXPECT_EQ(study.said.headline, "No training reached loss 2");
  ASSERT_EQ(study.said.remarks.size(), 2U);
  EXPECT_EQ(study.said.remarks[0].code, "one-seed");
  EXPECT_TRUE(study.said.remarks[1].text.starts_with("The reference ends at 3.0000"));
}

TEST(TimeToLossTable, HasTwoRowsForEachRung) {
  TimeToLoss study = told_study();
  study.device.name = "a name\n\x1b[31m";
  const std::string table = to_loss_table(study);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(files::length(line), 80U) << line;
    EXPECT_EQ(files::printable(line), line);
  }
  EXPECT_NE(table.find("\nfloat32                                 30.0        -   3.0000  reference\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("\n+ bf16 autocast                         15.0    2.00x   3.0200  same quality\n"
                       "  95 % [2.00-2.00]; at the end +0.0200 nats [-0.0048, +0.0448]\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("\n+ GPU                                      -        -        -  skipped\n"),
            std::string::npos)
      << table;
}

}  // namespace to_loss_text_test
