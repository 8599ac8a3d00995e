// MFU: which peak counts for a recipe, and when there is none.
#include "ablations/profile/mfu.h"

#include <gtest/gtest.h>

namespace mfu_test {

using namespace ablations;
using harness::NumberType;

model::Recipe on_gpu(model::Autocast autocast, model::MatmulPrecision precision = model::MatmulPrecision::highest) {
  model::Recipe recipe;
  recipe.device = model::Device::cuda;
  recipe.autocast = autocast;
  recipe.matmul_precision = precision;
  return recipe;
}

TEST(Mfu, TakesThePeakOfTheTypeThatTheRecipeMultipliesIn) {
  // 200e9 FLOPs in 1 ms are 200 TFLOP/s.
  const auto of = [](const model::Recipe& recipe) { return mfu(recipe, "NVIDIA A100-SXM4-80GB", 200e9, 1.0); };
  const Mfu bf16 = of(on_gpu(model::Autocast::bf16));
  EXPECT_NEAR(bf16.value.value(), 200.0 / 312, 1e-12);
  EXPECT_EQ(bf16.type, NumberType::bf16);
  EXPECT_EQ(bf16.peak_source, "NVIDIA A100 datasheet, June 2021");
  EXPECT_EQ(bf16.formula, "6 N + 6 L C T FLOPs per token, N without padding rows, over the dense bf16 peak");
  EXPECT_EQ(bf16.reason, "");
  EXPECT_EQ(of(on_gpu(model::Autocast::fp16)).type, NumberType::fp16);
  EXPECT_EQ(of(on_gpu(model::Autocast::bf16, model::MatmulPrecision::high)).type, NumberType::bf16);
  const Mfu tf32 = of(on_gpu(model::Autocast::off, model::MatmulPrecision::high));
  EXPECT_NEAR(tf32.value.value(), 200.0 / 156, 1e-12);
  EXPECT_EQ(tf32.type, NumberType::tf32);
  EXPECT_NEAR(of(on_gpu(model::Autocast::off)).value.value(), 200.0 / 19.5, 1e-12);
}

TEST(Mfu, IsNoneWithItsReasonWhereThePeakIsNotKnown) {
  const Mfu cpu = mfu(model::Recipe{}, "", 1e12, 100);
  EXPECT_FALSE(cpu.value || cpu.peak_flops || cpu.peak_source);
  EXPECT_EQ(cpu.reason, "there is no table of peaks for CPUs");
  EXPECT_EQ(cpu.type, NumberType::fp32);
  model::Recipe onednn;
  onednn.matmul_precision = model::MatmulPrecision::medium;
  EXPECT_EQ(mfu(onednn, "", 1e12, 100).type, NumberType::fp32);  // whatever oneDNN makes of it: no TF32
  // A CPU recipe on a machine that has a GPU.
  EXPECT_FALSE(mfu(model::Recipe{}, "NVIDIA H200", 1e12, 100).value);
  const Mfu unknown = mfu(on_gpu(model::Autocast::bf16), "NVIDIA H300", 1e12, 100);
  EXPECT_FALSE(unknown.value);
  EXPECT_EQ(unknown.reason, "\"NVIDIA H300\" is not in the table of peaks");
  EXPECT_EQ(mfu(on_gpu(model::Autocast::bf16), "Tesla T4", 1e12, 100).reason,
            "the table has no bf16 peak for \"Tesla T4\"");
}

}  // namespace mfu_test
