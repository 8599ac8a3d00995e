// The document of a study of time to loss.
#include "results/to_loss.h"

#include "tests/study/planted_to_loss.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace to_loss_test {

using namespace results;
using files::Json;

TEST(TimeToLossDocument, ReadsAsItWasWritten) {
  TimeToLoss study = planted::to_loss();
  study.trainings[0].reached = LossReached{.step = 15, .seconds = 30};
  study.rungs[2].quality = harness::Quality::same;
  study.rungs[2].difference = OverSeeds{{.lo = -0.5, .hi = 0.5}, 0.25};
  study.rungs[2].speedup = OverSeeds{{}, 2};
  study.rungs[2].medians = study.trainings[1].curve;
  study.said.remarks = {{Severity::good, "margin", "0.05 nats", "`here`"}};
  const Json written = json_of(study);
  EXPECT_EQ(json_of(value_from<TimeToLoss>(written, "file")), written);
  EXPECT_EQ(written.at("rungs").at(2).at("quality"), "same quality");
  EXPECT_EQ(written.at("rungs").at(0).at("quality"), Json());
  EXPECT_EQ(study.planned(), 9);
}

TEST(TimeToLossDocument, RefusesWhatItDoesNotKnow) {
  const auto refusal_with = [](const char* pointer, Json value) {
    Json json = json_of(planted::to_loss());
    json[Json::json_pointer(pointer)] = std::move(value);
    try {
      (void)value_from<TimeToLoss>(json, "file");
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal_with("/margin", 0.1), "accepted");
  EXPECT_EQ(refusal_with("/trainings", Json::array()), "accepted");  // it has just begun
  EXPECT_NE(refusal_with("/margin", 0).find("margin"), std::string::npos);
  EXPECT_NE(refusal_with("/rungs/0/quality", "fine").find("quality"), std::string::npos);
  EXPECT_NE(refusal_with("/trainings/0/curve/0/seconds", 0).find("seconds"), std::string::npos);
  for (const int rung : {1, 4}) {  // skipped; not there
    EXPECT_NE(refusal_with("/trainings/0/rung", rung).find("which is not one that is trained"), std::string::npos);
  }
  EXPECT_NE(refusal_with("/training/settings/validation_every", 0).find("no validation loss"), std::string::npos);
}

}  // namespace to_loss_test
