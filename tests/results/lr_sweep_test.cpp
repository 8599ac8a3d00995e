// The document of a sweep of learning rates.
#include "results/lr_sweep.h"

#include "tests/study/planted_sweep.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace lr_sweep_test {

using namespace results;
using files::Json;

TEST(LearningRateSweep, ReadsAsItWasWritten) {
  LearningRateSweep sweep = planted::sweep();
  sweep.rates[2].end = LossesAtTheEnd{.mean = 6, .fall = -0.25, .swing = 0.5};
  sweep.rates[1].verdict = RateVerdict::too_low;
  sweep.rates[1].reason = RateReason::still_falling;
  sweep.best = 2;
  sweep.said.remarks = {{Severity::good, "best", "0.001", "`here`"}};
  const Json written = json_of(sweep);
  EXPECT_EQ(json_of(value_from<LearningRateSweep>(written, "file")), written);
  EXPECT_EQ(written.at("rates").at(1).at("reason"), "still falling");
  EXPECT_EQ(written.at("rates").at(7).at("losses").back(), Json());
  EXPECT_EQ(written.at("training").at("kind"), "training");
}

TEST(LearningRateSweep, RefusesWhatItDoesNotKnow) {
  const auto refusal_with = [](const char* pointer, Json value) {
    Json json = json_of(planted::sweep());
    json[Json::json_pointer(pointer)] = std::move(value);
    try {
      (void)value_from<LearningRateSweep>(json, "file");
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal_with("/margin", 0.1), "accepted");
  EXPECT_NE(refusal_with("/rates", Json::array()).find("rates"), std::string::npos);
  EXPECT_NE(refusal_with("/rates/0/verdict", "fine").find("verdict"), std::string::npos);
  EXPECT_NE(refusal_with("/rates/0/losses", Json::array()).find("losses"), std::string::npos);
  EXPECT_NE(refusal_with("/rates/0/learning_rate/max", 0).find("max"), std::string::npos);
  EXPECT_NE(refusal_with("/training/settings/seed", "one").find("seed"), std::string::npos);
}

}  // namespace lr_sweep_test
