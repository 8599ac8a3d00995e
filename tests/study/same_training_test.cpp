// The verdict on two commands' first steps, from sketches whose distances are known.
#include "study/same_training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace same_training_test {

using namespace study;
using files::Json;

constexpr double rounding = 1e-3;

// A sketch of vectors that are `noise` of their length off, in random directions.
class Trainings {
 public:
  Sketch sketch(double noise) {
    Sketch made = exact();
    for (SketchedParameter& one : made.parameters) {
      for (Sums& gradient : one.gradients) disturb(gradient, noise * gradient[0]);
      for (Sums& change : one.changes) disturb(change, noise * length);
    }
    return made;
  }
  SameTraining beside(const Sketch& other, double known = 0, const std::string& type = "bfloat16") {
    return same_training(first_, again_, other, type, known);
  }

 private:
  static constexpr double length = 0.1;

  // A vector's random sums are normal, with its length.
  void disturb(Sums& sums, double size) {
    for (size_t i = 1; i < sums.size(); ++i) sums[i] += size * std::normal_distribution<double>{}(random_);
  }
  Sums sums_of(double size) {
    Sums sums{size};
    disturb(sums, size);
    return sums;
  }
  // The same each time.
  Sketch exact() {
    std::mt19937_64 kept(7);
    std::swap(kept, random_);
    Sketch made;
    for (const char* name : {"embedding", "first.weight", "first.bias", "second.weight", "second.bias"}) {
      SketchedParameter& one = made.parameters.emplace_back();
      one.name = name;
      one.shape = {1000, 10};
      one.type = "float32";
      one.weights = sums_of(1);
      for (int step = 0; step < 3; ++step) {
        one.gradients.push_back(sums_of(2));
        one.changes.push_back(sums_of(length));
      }
    }
    std::swap(kept, random_);
    return made;
  }

  std::mt19937_64 random_{1};

 public:
  Sketch first_ = exact();
  std::vector<Sketch> again_{sketch(rounding), sketch(rounding)};
};

TEST(SameTraining, IsAsFarApartAsRounding) {
  Trainings trainings;
  for (int i = 0; i < 100; ++i) {
    const SameTraining verdict = trainings.beside(trainings.sketch(rounding));
    EXPECT_EQ(verdict.verdict, Sameness::same) << verdict.words;
  }
  const SameTraining equal = trainings.beside(trainings.first_);
  EXPECT_TRUE(equal.words.starts_with("the same training: 5 of 5 gradients agree to 0 (bfloat16 allows 0.0"))
      << equal.words;
}

TEST(SameTraining, NamesTheFirstParameterThatDiffers) {
  Trainings trainings;
  Sketch frozen = trainings.first_;
  for (const size_t i : {1, 3}) frozen.parameters[i].gradients.assign(3, Sums{});
  const SameTraining verdict = trainings.beside(frozen);
  EXPECT_EQ(verdict.verdict, Sameness::another);
  EXPECT_TRUE(verdict.words.starts_with("another training: its gradient at step 1 is ")) << verdict.words;
  EXPECT_NE(verdict.words.find(" of its norm off in first.weight (bfloat16 allows 0.0"), std::string::npos)
      << verdict.words;
  EXPECT_TRUE(verdict.words.ends_with("3 of 5 gradients agree")) << verdict.words;
}

// As where a parameter is not given to the optimizer.
TEST(SameTraining, AParameterWithoutStepsHasNoGradient) {
  Trainings trainings;
  Sketch frozen = trainings.first_;
  frozen.parameters[2].gradients.clear();
  frozen.parameters[2].changes.clear();
  EXPECT_NE(trainings.beside(frozen).words.find("off in first.bias"), std::string::npos);
}

TEST(SameTraining, ASmallDifferenceOfMostParametersIsFound) {
  Trainings trainings;
  Sketch other = trainings.first_;
  for (SketchedParameter& one : other.parameters) {
    for (size_t i = 1; i < one.gradients[0].size(); ++i) one.gradients[0][i] *= 1 + 5 * rounding;
  }
  const SameTraining verdict = trainings.beside(other);
  EXPECT_EQ(verdict.verdict, Sameness::another);
  EXPECT_NE(verdict.words.find("in a quarter of all parameters"), std::string::npos) << verdict.words;
}

TEST(SameTraining, AnotherStepIsFoundWhereGradientsAgree) {
  Trainings trainings;
  Sketch other = trainings.first_;
  for (size_t i = 1; i < other.parameters[4].changes[1].size(); ++i) other.parameters[4].changes[1][i] *= 2;
  EXPECT_NE(trainings.beside(other).words.find("what it changes at step 2 is 1 of its norm off in second.bias"),
            std::string::npos)
      << trainings.beside(other).words;
}

// Adam's step is as large for a gradient that is rounding alone.
TEST(SameTraining, SignsThatRoundingTurnsAreNoDifference) {
  Trainings trainings;
  Sketch other = trainings.first_;
  for (Sketch* one : {&trainings.first_, &trainings.again_[0], &trainings.again_[1], &other}) {
    for (SketchedParameter& parameter : one->parameters) parameter.shape = {32};
  }
  // One of 32 numbers changes by 0.1 / sqrt(32), the other way.
  for (size_t i = 1; i < 9; ++i) other.parameters[0].changes[0][i] += (i % 2 == 0 ? 2 : -2) * 0.1 / std::sqrt(32);
  EXPECT_EQ(trainings.beside(other).verdict, Sameness::same) << trainings.beside(other).words;
}

TEST(SameTraining, OtherWeightsAtTheBeginningAreNamed) {
  Trainings trainings;
  Sketch other = trainings.first_;
  other.parameters[3].weights[1] *= 1.1;
  EXPECT_NE(trainings.beside(other).words.find("begins with other weights: second.weight"), std::string::npos);
  trainings.again_[1].parameters[0].weights[1] *= 1.1;
  EXPECT_EQ(trainings.beside(other).verdict, Sameness::unknown);
  EXPECT_NE(trainings.beside(other).words.find("seed it"), std::string::npos);
}

// Beside bfloat16 three steps do not show a weight decay.
TEST(SameTraining, AnotherSettingOfTheOptimizerIsNamed) {
  Trainings trainings;
  Sketch other = trainings.first_;
  const OptimizerSettings settings{.optimizer = "AdamW", .numbers = {{"betas", {0.9, 0.95}}, {"weight_decay", {0.1}}}};
  for (Sketch* one : {&trainings.first_, &trainings.again_[0], &trainings.again_[1], &other}) {
    for (SketchedParameter& parameter : one->parameters) parameter.settings = settings;
  }
  EXPECT_EQ(trainings.beside(other).verdict, Sameness::same);
  for (const size_t i : {1, 3}) other.parameters[i].settings.numbers["weight_decay"] = {0.1 * (1 + 1e-9)};
  EXPECT_EQ(trainings.beside(other).verdict, Sameness::same) << "by other arithmetic";
  for (const size_t i : {1, 3}) other.parameters[i].settings.numbers["weight_decay"] = {0};
  const SameTraining verdict = trainings.beside(other);
  EXPECT_EQ(verdict.verdict, Sameness::another);
  EXPECT_EQ(verdict.words,
            "another training: its optimizer has weight_decay 0 in place of 0.1 for first.weight and 1 more; 5 of 5 "
            "gradients agree");
  trainings.again_[0].has_dropout = true;
  EXPECT_EQ(trainings.beside(other).verdict, Sameness::another) << "dropout changes no setting";
  other.skipped_steps = 1;
  EXPECT_EQ(trainings.beside(other).verdict, Sameness::same) << "a schedule may have gone on";
  other.skipped_steps = 0;
  trainings.again_[1].parameters[1].settings.numbers["weight_decay"] = {0.2};
  EXPECT_NE(trainings.beside(other).words.find("for second.weight;"), std::string::npos)
      << "the other's changes by itself";
  for (SketchedParameter& parameter : other.parameters) parameter.settings.optimizer = "Lion";
  EXPECT_EQ(trainings.beside(other).verdict, Sameness::same) << "which may mean something else by it";
}

// A padded vocabulary changes every gradient by a known share.
TEST(SameTraining, AKnownShareIsNoDifference) {
  Trainings trainings;
  Sketch other = trainings.first_;
  for (SketchedParameter& one : other.parameters) {
    for (size_t i = 1; i < one.gradients[0].size(); ++i) one.gradients[0][i] *= 1 + 5 * rounding;
  }
  ASSERT_EQ(trainings.beside(other).verdict, Sameness::another);
  EXPECT_EQ(trainings.beside(other, 5 * rounding).verdict, Sameness::same);
}

TEST(SameTraining, Fp8IsToldByProduct) {
  Trainings trainings;
  for (Sketch* one : {&trainings.first_, &trainings.again_[0], &trainings.again_[1]}) {
    const char* const names[] = {"wte.weight", "h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.bias", "h.1.mlp.c_fc.weight", "b"};
    for (size_t i = 0; i < 5; ++i) one->parameters[i].name = names[i];
    for (const size_t bias : {2, 4}) one->parameters[bias].shape = {1000};
  }
  Sketch other = trainings.first_;
  const auto words = [&] { return trainings.beside(other, 0, "float8_e4m3fn").words; };
  EXPECT_TRUE(words().ends_with("; by product: mlp.c_fc 2 of 2; wte 1 of 1")) << words();
  other.parameters[3].gradients.assign(3, Sums{});
  EXPECT_TRUE(words().ends_with("4 of 5 gradients agree; by product: mlp.c_fc 1 of 2; wte 1 of 1")) << words();
}

TEST(SameTraining, AGradientThatIsNotFiniteIsFound) {
  Trainings trainings;
  Sketch other = trainings.first_;
  other.parameters[0].gradients[0][3] = NAN;
  EXPECT_NE(trainings.beside(other).words.find("not a finite number"), std::string::npos)
      << trainings.beside(other).words;
}

TEST(SameTraining, MatchesByNameThenByShapeAndOrder) {
  Trainings trainings;
  Sketch other = trainings.first_;
  std::swap(other.parameters[1], other.parameters[3]);
  EXPECT_EQ(trainings.beside(other).verdict, Sameness::same);
  std::swap(other.parameters[1], other.parameters[3]);
  for (SketchedParameter& one : other.parameters) one.name = "";
  EXPECT_EQ(trainings.beside(other).verdict, Sameness::same);
  other.parameters[2].shape = {10, 1000};
  EXPECT_EQ(trainings.beside(other).verdict, Sameness::unknown) << trainings.beside(other).words;
  other = trainings.first_;
  other.parameters[2].shape = {10, 1000};
  const SameTraining verdict = trainings.beside(other);
  EXPECT_EQ(verdict.verdict, Sameness::unknown);
  EXPECT_NE(verdict.words.find("no counterpart has first.bias"), std::string::npos) << verdict.words;
}

TEST(SameTraining, IsNotJudgedWhereItCannotBe) {
  Trainings trainings;
  Sketch other = trainings.first_;
  other.parameters[0].gradients[0][1] += 10;
  ASSERT_EQ(trainings.beside(other).verdict, Sameness::another);
  other.skipped_steps = 1;
  EXPECT_NE(trainings.beside(other).words.find("skipped a step"), std::string::npos);
  other.skipped_steps = 0;
  trainings.again_[0].has_dropout = true;
  EXPECT_NE(trainings.beside(other).words.find("dropout"), std::string::npos);
  EXPECT_EQ(trainings.beside(trainings.first_).verdict, Sameness::same);
  trainings.again_ = {trainings.sketch(1), trainings.sketch(1)};
  EXPECT_NE(trainings.beside(trainings.first_).words.find("seed it"), std::string::npos);
}

std::string least(const Json& one, const Json& other = Json::object()) {
  const auto type = least_exact_type(one, other);
  return type ? type->name : "";
}

TEST(SameTraining, TheLeastExactTypeDecides) {
  const Json float32 = {{"products", {{"float32", 5}}}, {"parameter_types", {{"float32", 2}}}};
  Json mixed = float32;
  mixed["products"]["bfloat16"] = 1;
  EXPECT_EQ(least(float32), "float32");
  EXPECT_EQ(least(float32, mixed), "bfloat16");
  EXPECT_EQ(least(mixed, float32), "bfloat16");
  Json tf32 = float32;
  tf32["settings"] = {{"float32_matmul_precision", "high"}};
  tf32["float32_made_in"] = {{"products", "float32"}, {"convolutions", "tf32"}};
  EXPECT_EQ(least(tf32), "float32") << "nothing convolves, and this processor has no TF32";
  tf32["operations"] = {{"aten::conv2d", 1}};
  EXPECT_EQ(least(tf32), "tf32");
  tf32["float32_made_in"]["products"] = "bfloat16";
  EXPECT_EQ(least(tf32), "bfloat16");
  mixed["products"]["int8"] = 1;
  EXPECT_EQ(least(mixed), "");
}

TEST(SameTraining, ASketchIsReadOrRefused) {
  const Json numbers = {1, 1, 1, 1, 1, 1, 1, 1, nullptr};
  Json one = {{"name", "a"},        {"shape", {2, 3}},        {"type", "float32"},
              {"weights", numbers}, {"gradients", {numbers}}, {"changes", Json::array()}};
  const Sketch read = sketch_of({{"parameters", {one}}, {"skipped_steps", 2}, {"has_dropout", true}});
  EXPECT_EQ(read.skipped_steps, 2);
  EXPECT_TRUE(read.has_dropout);
  ASSERT_EQ(read.parameters.size(), 1);
  EXPECT_EQ(read.parameters[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(std::isnan(read.parameters[0].gradients.at(0)[8]));
  for (const Json& wrong : {Json{1, 2}, Json("text"), Json()}) {
    one["weights"] = wrong;
    EXPECT_THROW(sketch_of({{"parameters", {one}}}), std::invalid_argument);
  }
  EXPECT_THROW(sketch_of({{"failure", "RuntimeError"}}), std::invalid_argument);
}

}  // namespace same_training_test
