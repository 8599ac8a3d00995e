// The fixed model: sizes and initial weights. What it computes: test_parity.py, sampler_test.cpp.
#include "model/gpt2.h"

#include "ablations/techniques/operations.h"
#include "tests/model/parameter.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

namespace gpt2_test {

using at::Tensor;
using namespace model;

Tensor some_tokens(int64_t B, int64_t T) {
  return at::arange(B * T, at::kLong).mul(7919).remainder(50257).view({B, T});
}

TEST(Gpt2, PresetsHaveThePublishedSizes) {
  EXPECT_EQ(preset("gpt2-124m").parameters(), 124439808);
  EXPECT_EQ(preset("gpt2-355m").parameters(), 354823168);
  EXPECT_EQ(preset("gpt2-774m").parameters(), 774030080);
  EXPECT_EQ(preset("gpt2-1558m").parameters(), 1557611200);
  EXPECT_EQ(preset("gpt2-18m").parameters(), 17867008);
  EXPECT_THROW((void)preset("gpt3"), std::invalid_argument);
  // llm.c's count for T=1024 with its padded vocabulary is 803.5 MFLOP per token; without the 47 padding rows a little
  // less.
  EXPECT_NEAR(preset("gpt2-124m").flops_per_token(1024) / 1e6, 803.5 - 6 * 47 * 768 / 1e6, 0.5);
}

TEST(Gpt2, InitialWeightsHaveTheirStandardDeviations) {
  const GPT2 gpt2(preset("tiny"), 50257, 1, at::kCPU);
  const auto std_of = [&](const char* name) { return parameter(gpt2, name).std().item<double>(); };
  EXPECT_NEAR(std_of("wte.weight"), 0.02, 0.0002);
  EXPECT_NEAR(std_of("h.0.attn.c_attn.weight"), 0.02, 0.001);
  EXPECT_NEAR(std_of("h.1.attn.c_proj.weight"), 0.02 / std::sqrt(4.0), 0.001);
  EXPECT_NEAR(std_of("h.1.mlp.c_proj.weight"), 0.02 / std::sqrt(4.0), 0.0005);
  EXPECT_TRUE(parameter(gpt2, "ln_f.weight").eq(1).all().item<bool>());
  EXPECT_TRUE(parameter(gpt2, "h.0.mlp.c_fc.bias").eq(0).all().item<bool>());
}

TEST(Gpt2, PaddingChangesNoOtherWeightAndRaisesTheFirstLossByAKnownAmount) {
  const at::NoGradGuard no_grad;
  const GPT2 plain(preset("tiny"), 50257, 1, at::kCPU);
  const GPT2 padded(preset("tiny"), 50304, 1, at::kCPU);
  for (const Parameter& p : plain.parameters()) {
    const Tensor other = parameter(padded, p.name).narrow(0, 0, p.tensor.size(0));
    EXPECT_TRUE(at::equal(p.tensor, other)) << p.name;
  }
  const Ops ops = reference_ops();
  const Tensor tokens = some_tokens(4, 33);
  const Tensor x = tokens.narrow(1, 0, 32), y = tokens.narrow(1, 1, 32);
  const double difference = padded.loss(ops, x, y).item<double>() - plain.loss(ops, x, y).item<double>();
  EXPECT_NEAR(difference, std::log(50304.0 / 50257.0), 2e-5);
  EXPECT_THROW(GPT2(preset("tiny"), 50000, 1, at::kCPU), std::invalid_argument);
}

TEST(Gpt2, MorePositionsChangeNoOtherWeight) {
  const Config longer = with_positions(preset("tiny"), 200);
  const GPT2 plain(preset("tiny"), 50304, 1, at::kCPU), extended(longer, 50304, 1, at::kCPU);
  int64_t count = 0;
  for (const Parameter& p : plain.parameters()) {
    const Tensor other = parameter(extended, p.name);
    EXPECT_TRUE(at::equal(p.tensor, other.narrow(0, 0, p.tensor.size(0)))) << p.name;
    count += other.numel();
  }
  EXPECT_EQ(count - 47 * 32, longer.parameters());
  const Tensor more = parameter(extended, "wpe.weight").narrow(0, 64, 136);
  EXPECT_NEAR(more.std().item<double>(), 0.02, 0.001);
  const Tensor padding = parameter(extended, "wte.weight").narrow(0, 50257, 47);
  EXPECT_FALSE(at::equal(more.narrow(0, 0, 47), padding));  // a generator of their own
  const at::NoGradGuard no_grad;
  const Tensor tokens = some_tokens(1, 201);
  const Tensor x = tokens.narrow(1, 0, 200), y = tokens.narrow(1, 1, 200);
  EXPECT_NEAR(extended.loss(reference_ops(), x, y).item<double>(), std::log(50304.0), 0.1);
  EXPECT_EQ(longer.flops_per_token(32), preset("tiny").flops_per_token(32));  // rows that are in no product
  EXPECT_EQ(with_positions(preset("tiny"), 10).n_positions, 64);
  EXPECT_EQ(with_positions(longer, 300).extra_positions, 236);
}

}  // namespace gpt2_test
