// A training's documents: they read as they were written, say what differs, and refuse what they do not know.
#include "results/training.h"

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
