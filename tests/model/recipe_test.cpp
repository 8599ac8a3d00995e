// Recipes as values: JSON there and back, edits, and what is refused.
#include "model/recipe.h"

#include "model/schedule.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

using model::Recipe;

TEST(Recipe, SurvivesJson) {
  Recipe recipe;
  recipe.autocast = model::Autocast::bf16;
  recipe.attention = model::Attention::cudnn;
  recipe.cross_entropy = model::CrossEntropy::in_place;
  recipe.residual = model::Residual::autocast;
  recipe.vocabulary_rows = 50304;
  recipe.deterministic = true;
  EXPECT_EQ(model::recipe_from_json(model::to_json(recipe), "here"), recipe);
  EXPECT_EQ(model::recipe_from_json(nlohmann::json::object(), "here", recipe), recipe);
}

TEST(Recipe, TakesASubsetOfFields) {
  const Recipe recipe = model::recipe_from_json({{"optimizer", "fused"}}, "here");
  Recipe expected;
  expected.optimizer = model::Optimizer::fused;
  EXPECT_EQ(recipe, expected);
}

TEST(Recipe, DiffNamesWhatChanged) {
  Recipe after;
  after.optimizer = model::Optimizer::fused;
  EXPECT_EQ(model::recipe_diff({}, after), (nlohmann::json{{"optimizer", {"loop", "fused"}}}));
  EXPECT_TRUE(model::recipe_diff(after, after).empty());
}

TEST(Recipe, RefusesWhatItDoesNotKnow) {
  const auto message = [](const nlohmann::json& json) {
    return refusal_of([&] { return model::recipe_from_json(json, "file.json"); });
  };
  EXPECT_NE(message({{"colour", "red"}}).find("file.json: unknown recipe field \"colour\""), std::string::npos);
  EXPECT_NE(message({{"autocast", "bf8"}}).find("one of off, bf16, fp16"), std::string::npos);
  EXPECT_NE(message({{"autocast", 3}}).find("\"autocast\" must be one of off, bf16, fp16, got 3"), std::string::npos);
  EXPECT_NE(message({{"vocabulary_rows", -1}}).find("a whole number between 1 and"), std::string::npos);
  EXPECT_NE(message({{"vocabulary_rows", 1.5}}).find("got 1.5"), std::string::npos);
  EXPECT_NE(message({{"deterministic", 1}}).find("must be true or false, got 1"), std::string::npos);
  EXPECT_NE(message(nlohmann::json::array()).find("a recipe must be a JSON object"), std::string::npos);
}

namespace schedule_test {

// The learning rate over the steps.

using namespace model;

TEST(Schedule, WarmsUpThenFallsToATenth) {
  const Schedule schedule{.peak = 1.0, .floor = 0.1, .warmup_steps = 4, .decay_steps = 14};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.at(3), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1.0);
  EXPECT_NEAR(schedule.at(9), 0.55, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.at(14), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(1000), 0.1);
}

}  // namespace schedule_test
