// MFU: which peak counts, and when there is none.
#include "ablations/profile/utilization.h"

#include <gtest/gtest.h>

namespace utilization_test {

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
