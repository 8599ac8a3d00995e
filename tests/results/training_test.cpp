// A training's documents: they read as they were written, say what differs, and refuse what they do not know.
#include "results/training.h"

#include "results/to_loss.h"
#include "tests/study/planted_sweep.h"
#include "tests/study/planted_to_loss.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace training_test {

using namespace results;
using files::Json;

Training training() {
  Training training{.created = "2026-11-26T10:00:00Z", .recipe_from = "--recipe"};
  training.settings.B = 2;
  training.settings.T = 16;
  training.settings.positions = 64;
  training.settings.model = "tiny";
  training.settings.recipe["autocast"] = "bf16";
  training.settings.steps = 100;
  training.settings.clip = 1.0;
  training.settings.data = {.source = "book.txt", .sha256 = "ab", .tokens = 5000};
  training.settings.validation_share = 0.1;
  training.settings.validation_every = 10;
  training.settings.validation_batches = 3;
  training.settings.weights = FirstWeights{"w.safetensors", "cd"};
  training.parameters = 1000;
  training.flops_per_step = 1e9;
  training.files = {.data = "/text/book.txt", .vocabulary = "/text/gpt2.tiktoken", .weights = "/w.safetensors"};
  return training;
}

template <class T>
std::string refusal(const Json& json) {
  try {
    (void)value_from<T>(json, "file");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TrainingDocuments, ReadAsTheyWereWritten) {
  const Json written = json_of(training());
  EXPECT_EQ(json_of(value_from<Training>(written, "file")), written);
  EXPECT_EQ(written.at("settings").at("validation_data"), Json());
  EXPECT_EQ(written.at("settings").at("learning_rate").at("max"), 6e-4);
  const Checkpoint checkpoint{
      .step = 40, .position = 96, .loss = 4.25, .validation_loss = std::nullopt, .training = training()};
  const Json saved = json_of(checkpoint);
  EXPECT_EQ(json_of(value_from<Checkpoint>(saved, "file")), saved);
  EXPECT_EQ(saved.at("training").at("kind"), "training");
}

TEST(TrainingDocuments, SayWhatDiffers) {
  Training other = training();
  EXPECT_TRUE(differences(training().settings, other.settings).empty());
  other.files.data = "/elsewhere/book.txt";  // its place does not matter
  other.keep = 7;
  EXPECT_TRUE(differences(training().settings, other.settings).empty());
  other.settings.recipe["autocast"] = "off";
  other.settings.seed = 2;
  other.settings.data.sha256 = "ef";
  EXPECT_EQ(differences(training().settings, other.settings),
            (std::vector<std::string>{"data/sha256: ab against ef", "recipe/autocast: bf16 against off",
                                      "seed: 1 against 2"}));
}

TEST(TrainingDocuments, RefuseWhatTheyDoNotKnow) {
  Json json = json_of(training());
  json["settings"]["dropout"] = 0.1;
  EXPECT_NE(refusal<Training>(json).find("unknown field \"dropout\""), std::string::npos) << refusal<Training>(json);
  json = json_of(training());
  json["settings"]["steps"] = 0;
  EXPECT_NE(refusal<Training>(json), "accepted");
  json = json_of(Checkpoint{.step = 40, .loss = 4.25, .validation_loss = 4.5, .training = training()});
  json["training"]["settings"].erase("seed");
  EXPECT_NE(refusal<Checkpoint>(json).find("seed"), std::string::npos) << refusal<Checkpoint>(json);
  json = json_of(TrainingStep{.step = 3, .tokens = 96, .loss = 4.25});
  json["ms"] = "long";
  EXPECT_NE(refusal<TrainingStep>(json).find("ms"), std::string::npos);
}

}  // namespace training_test

namespace to_loss_test {

// The document of a study of time to loss.

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

namespace lr_sweep_test {

// The document of a sweep of learning rates.

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
