// What is printed of measured rates; the measuring itself is test_study.py's, which asserts no speed.
#include "ablations/profile/rates.h"

#include <gtest/gtest.h>

namespace rates_test {

using namespace ablations;

const Rates known{.device = "NVIDIA H200",
                  .source = "NVIDIA H200 datasheet, November 2023",
                  .reason = "",
                  .rates = {{"copy", "1024 MiB", 4.2e12, 4.8e12}, {"bf16", "8192^3", 791.6e12, 989.5e12}}};

TEST(Rates, StandBesideTheTables) {
  EXPECT_EQ(rates_text(known),
            "NVIDIA H200\n"
            "       size               measured            table  share\n"
            "copy   1024 MiB         4,200 GB/s       4,800 GB/s   88 %\n"
            "bf16   8192^3          792 TFLOP/s      990 TFLOP/s   80 %\n"
            "copy, update (in place): bytes read and written; the others: dense matrix products\n"
            "table: NVIDIA H200 datasheet, November 2023\n");
  const auto json = to_json(known);
  EXPECT_DOUBLE_EQ(json["rates"][0]["share"].get<double>(), 4.2 / 4.8);
  EXPECT_EQ(json["rates"][1]["unit"], "FLOP/s");
}

TEST(Rates, WithoutATableTheReasonStandsThere) {
  const Rates unknown{.device = "NVIDIA H300",
                      .source = "",
                      .reason = "\"NVIDIA H300\" is not in the table of peaks",
                      .rates = {{"fp32", "1024^3", 175.25e9, std::nullopt}}};
  const std::string text = rates_text(unknown);
  EXPECT_NE(text.find("fp32   1024^3          175 GFLOP/s                -      -\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\"NVIDIA H300\" is not in the table of peaks\n"), std::string::npos);
  EXPECT_TRUE(to_json(unknown)["source"].is_null());
  EXPECT_TRUE(to_json(unknown)["rates"][0]["table"].is_null() && to_json(unknown)["rates"][0]["share"].is_null());
}

TEST(Rates, EachRecipeHasItsOwn) {
  using model::Autocast, model::Device, model::MatmulPrecision;
  EXPECT_EQ(rate_of({}), "fp32");
  EXPECT_EQ(rate_of({.matmul_precision = MatmulPrecision::medium}), "oneDNN");
  EXPECT_EQ(rate_of({.products = model::Products::packed}), "packed");
  EXPECT_EQ(rate_of({.autocast = Autocast::bf16, .products = model::Products::packed}), "packed bf16");
  EXPECT_EQ(rate_of({.matmul_precision = MatmulPrecision::medium, .autocast = Autocast::bf16}), "bf16");
  EXPECT_EQ(rate_of({.device = Device::cuda, .matmul_precision = MatmulPrecision::high}), "TF32");
  EXPECT_EQ(rate_of({.device = Device::cuda, .autocast = Autocast::fp16}), "fp16");
}

}  // namespace rates_test

namespace utilization_test {

// MFU: which peak counts, and when there is none.

using namespace ablations;
using harness::NumberType;

model::Recipe on_gpu(model::Autocast autocast, model::MatmulPrecision precision = model::MatmulPrecision::highest) {
  model::Recipe recipe;
  recipe.device = model::Device::cuda;
  recipe.autocast = autocast;
  recipe.matmul_precision = precision;
  return recipe;
}

// An H200's float32 rung and its last: by the peak of each one's own type the faster one would use less.
TEST(Mfu, MeasuresAllRungsByOnePeak) {
  const auto percent = [](const model::Recipe& recipe, double ms) {
    return 100 * mfu(recipe, "NVIDIA H200", 13.14e12, ms).value.value();
  };
  EXPECT_NEAR(percent(on_gpu(model::Autocast::off), 367), 3.6, 0.05);
  EXPECT_NEAR(percent(on_gpu(model::Autocast::off, model::MatmulPrecision::high), 155), 8.6, 0.05);
  EXPECT_NEAR(percent(on_gpu(model::Autocast::bf16, model::MatmulPrecision::high), 29.1), 45.6, 0.05);
  const Mfu bf16 = mfu(on_gpu(model::Autocast::bf16), "NVIDIA A100-SXM4-80GB", 200e9, 1.0);
  EXPECT_EQ(bf16.type, NumberType::bf16);
  EXPECT_EQ(bf16.peak_source, "NVIDIA A100 datasheet, June 2021");
  EXPECT_EQ(bf16.formula, "6 N + 6 L C T FLOPs per token, N without padding rows, over the dense bf16 peak");
  EXPECT_EQ(bf16.reason, "");
  const Mfu without_bf16 = mfu(on_gpu(model::Autocast::fp16), "Tesla T4", 6.5e9, 1.0);
  EXPECT_NEAR(without_bf16.value.value(), 0.1, 1e-12);
  EXPECT_EQ(without_bf16.type, NumberType::fp16);
}

TEST(Mfu, IsNoneWithItsReasonWhereThePeakIsNotKnown) {
  const Mfu cpu = mfu(model::Recipe{}, "", 1e12, 100);
  EXPECT_FALSE(cpu.value || cpu.peak_flops || cpu.peak_source);
  EXPECT_EQ(cpu.reason, "there is no table of peaks for CPUs");
  // A CPU recipe on a machine that has a GPU.
  EXPECT_FALSE(mfu(model::Recipe{}, "NVIDIA H200", 1e12, 100).value);
  const Mfu unknown = mfu(on_gpu(model::Autocast::bf16), "NVIDIA H300", 1e12, 100);
  EXPECT_FALSE(unknown.value);
  EXPECT_EQ(unknown.reason, "\"NVIDIA H300\" is not in the table of peaks");
}

}  // namespace utilization_test
