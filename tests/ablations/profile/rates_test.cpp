// What is printed of measured rates; the measuring itself is test_study.py's, which asserts no speed.
#include "ablations/profile/rates.h"

#include "tests/refusal.h"

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
  EXPECT_TRUE(has(rates_text(unknown), "fp32   1024^3          175 GFLOP/s                -      -\n"));
  EXPECT_TRUE(has(rates_text(unknown), "\"NVIDIA H300\" is not in the table of peaks\n"));
  const auto json = to_json(unknown), rate = json["rates"][0];
  EXPECT_TRUE(json["source"].is_null() && rate["table"].is_null() && rate["share"].is_null());
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

TEST(Rates, LimitsAreOfTheTypeThatTheRecipeMultipliesIn) {
  const Rates rates{.rates = {{"copy", "256 MiB", 2e10, {}},
                              {"update", "256 MiB", 3e10, {}},
                              {"fp32", "1024^3", 1e11, {}},
                              {"oneDNN", "1536^3", 3e11, {}}}};
  EXPECT_DOUBLE_EQ(limits_from_rates({}, rates)->flops_per_s, 1e11);
  const auto onednn = limits_from_rates({.matmul_precision = model::MatmulPrecision::medium}, rates);
  EXPECT_DOUBLE_EQ(onednn->flops_per_s, 3e11);
  EXPECT_DOUBLE_EQ(onednn->bytes_per_s, 3e10);  // the higher one
  EXPECT_EQ(onednn->source, "measured: oneDNN 1536^3, update of 256 MiB");
  EXPECT_FALSE(limits_from_rates({.autocast = model::Autocast::bf16}, rates));
}

TEST(Rates, TheDataSheetStandsInForARefutedLimit) {
  model::Recipe recipe;
  recipe.device = model::Device::cuda;
  recipe.autocast = model::Autocast::bf16;
  const auto h200 = limits_from_data_sheet(recipe, "NVIDIA H200");
  EXPECT_DOUBLE_EQ(h200.value().flops_per_s, 989.5e12);
  EXPECT_DOUBLE_EQ(h200->bytes_per_s, 4800e9);
  EXPECT_EQ(h200->source, "NVIDIA H200 datasheet, November 2023");
  EXPECT_FALSE(limits_from_data_sheet(recipe, "NVIDIA H300"));
  EXPECT_FALSE(limits_from_data_sheet(model::Recipe{}, "NVIDIA H200"));
}

}  // namespace rates_test
