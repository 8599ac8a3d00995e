// A training's log: what is written is read again, what a killed writer left is cut off, and what a terminal shows.
#include "study/training/training_log.h"

#include "files/files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace training_log_test {

using namespace study;
namespace fs = std::filesystem;

TrainingStep step(int64_t number) {
  return {.step = number,
          .tokens = 32 * number,
          .loss = 0.1 + 1.0 / 3.0 * static_cast<double>(number),  // needs all digits
          .learning_rate = 6e-4,
          .norm = 2.5,
          .clip = 0.4,
          .ms = 12.5,
          .tokens_per_s = 2560};
}

class Log : public testing::Test {
 protected:
  const files::TemporaryFolder temporary_{"log-test"};
  const fs::path folder_ = temporary_.path();

  [[nodiscard]] std::string text(const char* name) const { return files::read_file(folder_ / name); }
  [[nodiscard]] std::string refusal() const {
    try {
      (void)logged_steps(folder_);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(Log, IsReadAsItWasWritten) {
  TrainingStep full = step(2), bad = step(3);
  full.validation_loss = 4.75;
  full.mfu = 0.5;
  full.spike = 6.25;
  bad.loss = bad.norm = bad.clip = std::nullopt;
  {
    TrainingLog log(folder_, {});
    for (const TrainingStep& one : {step(1), full, bad}) log.add(one);
    log.sync();
  }
  const auto read = logged_steps(folder_);
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(json_of(read[0]), json_of(step(1)));
  EXPECT_EQ(json_of(read[1]), json_of(full));
  EXPECT_EQ(json_of(read[2]), json_of(bad));
  EXPECT_EQ(text(table_file),
            "step,tokens,loss,validation_loss,learning_rate,norm,clip,ms,tokens_per_s,mfu,spike\r\n"
            "1,32,0.43333333333333335,,0.0006,2.5,0.4,12.5,2560.0,,\r\n"
            "2,64,0.7666666666666666,4.75,0.0006,2.5,0.4,12.5,2560.0,0.5,6.25\r\n"
            "3,96,,,0.0006,,,12.5,2560.0,,\r\n");
}

TEST_F(Log, GoesOnFromAStep) {
  {
    TrainingLog log(folder_, {});
    for (int64_t i = 1; i <= 6; ++i) log.add(step(i));
  }
  const std::string lines = text(log_file), table = text(table_file);
  std::ofstream(folder_ / log_file, std::ios::app) << R"({"kind": "training_st)";  // killed meanwhile
  const auto before = logged_steps(folder_, 4);
  ASSERT_EQ(before.size(), 4U);
  {
    TrainingLog log(folder_, before);
    EXPECT_EQ(logged_steps(folder_).size(), 4U);
    for (int64_t i = 5; i <= 6; ++i) log.add(step(i));
  }
  EXPECT_EQ(text(log_file), lines);
  EXPECT_EQ(text(table_file), table);
  fs::remove(folder_ / log_file);
  EXPECT_TRUE(logged_steps(folder_).empty());
}

TEST_F(Log, RefusesWhatIsNoStep) {
  const std::string good = json_of(step(1)).dump() + "\n";
  const auto put = [&](const std::string& content) { std::ofstream(folder_ / log_file) << content; };
  const std::string file = (folder_ / log_file).string();
  put(good + "garbage\n");
  EXPECT_TRUE(refusal().starts_with(file + ": line 2: not valid JSON")) << refusal();
  put(good + "{}\n");
  EXPECT_TRUE(refusal().starts_with(file + ": line 2: not a training_step")) << refusal();
  put(good + good);
  EXPECT_EQ(refusal(), file + ": line 2: step 1 must come after step 1");
}

TEST(StepLine, ShowsWhatAPersonWantsToSee) {
  TrainingStep one = step(12);
  EXPECT_EQ(step_line(one, 500, 192),
            "step  12/500  loss  4.1000  lr 6.00e-04  norm   2.5   12.5 ms  2,560 tokens/s  3:12 left");
  one.validation_loss = 4.25;
  EXPECT_TRUE(step_line(one, 500, 192).ends_with(" tokens/s  3:12 left  validation 4.2500")) << "the columns stay";
  one.mfu = 0.412;
  one.spike = 7.04;
  one.norm = std::nullopt;
  EXPECT_EQ(step_line(one, 12, 0),
            "step 12/12  loss  4.1000  lr 6.00e-04  norm not finite   12.5 ms  2,560 tokens/s  MFU 41.2 %  validation "
            "4.2500  "
            "SPIKE: 7.0 standard deviations above the losses before it");
}

}  // namespace training_log_test
