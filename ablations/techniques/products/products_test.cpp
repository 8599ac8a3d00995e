// Packed products against float64: sizes around the tiles' and the panels', either matrix transposed, with a bias,
// added to what is there, in shares, with the loops of every instruction set that this machine has.
#include "ablations/techniques/products/products.h"

#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/operations.h"
#include "model/ops.h"
#include "model/precision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <vector>

namespace products_test {

using at::Tensor;
using namespace model;

double error_of(const Tensor& found, const Tensor& expected) {
  return (found.to(at::kDouble) - expected).norm().item<double>() / expected.norm().item<double>();
}

Tensor matrix(int64_t rows, int64_t columns, bool transposed) {
  return transposed ? at::randn({columns, rows}).t() : at::randn({rows, columns});
}

class PackedLoops : public testing::TestWithParam<std::pair<const char*, const cpu::Kernels*>> {};

TEST_P(PackedLoops, FollowFloat64) {
  const auto [name, kernels] = GetParam();
  const std::array sets{&cpu::plain_kernels, &cpu::avx2_kernels, &cpu::avx512_kernels};  // each includes those before
  if (std::ranges::find(sets, kernels) > std::ranges::find(sets, &cpu::kernels())) {
    GTEST_SKIP() << "this machine has no " << name;
  }
  at::manual_seed(1);
  const std::vector<std::array<int64_t, 3>> sizes{{1, 1, 1},    {6, 16, 8},    {14, 32, 16},    {5, 3, 769},
                                                  {29, 65, 31}, {2049, 33, 5}, {64, 100, 1600}, {7, 250, 768}};
  for (const auto& [M, N, K] : sizes) {
    for (const bool a_t : {false, true}) {
      for (const bool b_t : {false, true}) {
        const Tensor a = matrix(M, K, a_t), b = matrix(K, N, b_t), bias = at::randn({N}),
                     before = at::randn({M, N + 3});
        const Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
        for (const bool accumulate : {false, true}) {
          for (const int64_t parts : {1, 3}) {
            const Tensor wide = before.clone(), c = wide.narrow(1, 0, N);  // rows further apart than they are long
            for (int64_t part = 0; part < parts; ++part) {
              kernels->product({.c_type = cpu::Number::f32,
                                .M = M,
                                .N = N,
                                .K = K,
                                .a = a.const_data_ptr<float>(),
                                .a_row = a.stride(0),
                                .a_column = a.stride(1),
                                .b = b.const_data_ptr<float>(),
                                .b_row = b.stride(0),
                                .b_column = b.stride(1),
                                .c = c.mutable_data_ptr<float>(),
                                .c_row = c.stride(0),
                                .bias = accumulate ? nullptr : bias.const_data_ptr<float>(),
                                .accumulate = accumulate},
                               part, parts);
            }
            const Tensor expected = exact + (accumulate ? before.narrow(1, 0, N) : bias).to(at::kDouble);
            ASSERT_LT(error_of(c, expected), 1e-6)
                << M << "x" << N << "x" << K << (a_t ? " a transposed" : "") << (b_t ? " b transposed" : "")
                << (accumulate ? " added" : "") << " in " << parts;
            ASSERT_TRUE(at::equal(wide.narrow(1, N, 3), before.narrow(1, N, 3)));  // nothing beside it is written
          }
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Sets, PackedLoops,
                         testing::Values(std::pair{"plain", &cpu::plain_kernels}, std::pair{"avx2", &cpu::avx2_kernels},
                                         std::pair{"avx512", &cpu::avx512_kernels}),
                         [](const auto& test) { return test.param.first; });

// Sums are float32's, so they are as near to float64 as those above; what is written as bfloat16 is rounded once.
TEST(PackedBfloat16, FollowsFloat64) {
  if (!has_packed_bf16()) GTEST_SKIP() << "this machine has no packed products of bfloat16";
  at::manual_seed(3);
  const std::vector<std::array<int64_t, 3>> sizes{{1, 1, 1},       {1, 48, 18},   {16, 64, 16},  {128, 128, 18},
                                                  {5, 3, 769},     {29, 65, 31},  {130, 49, 33}, {2049, 33, 5},
                                                  {64, 100, 2050}, {7, 250, 1024}};
  for (const auto& [M, N, K] : sizes) {
    for (const bool a_t : {false, true}) {
      for (const bool b_t : {false, true}) {
        const Tensor a = matrix(M, K, a_t).to(at::kBFloat16), b = matrix(K, N, b_t).to(at::kBFloat16),
                     bias = at::randn({N});
        const Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
        for (const auto type : {at::kFloat, at::kBFloat16}) {
          for (const bool accumulate : {false, true}) {
            if (accumulate && type == at::kBFloat16) continue;
            for (const int64_t parts : {1, 3}) {
              const Tensor before = at::randn({M, N + 3}).to(type);
              const Tensor wide = before.clone(), c = wide.narrow(1, 0, N);
              for (int64_t part = 0; part < parts; ++part) {
                cpu::product_bf16({.c_type = type == at::kFloat ? cpu::Number::f32 : cpu::Number::bf16,
                                   .M = M,
                                   .N = N,
                                   .K = K,
                                   .a = a.const_data_ptr(),
                                   .a_row = a.stride(0),
                                   .a_column = a.stride(1),
                                   .b = b.const_data_ptr(),
                                   .b_row = b.stride(0),
                                   .b_column = b.stride(1),
                                   .c = c.mutable_data_ptr(),
                                   .c_row = c.stride(0),
                                   .bias = accumulate ? nullptr : bias.const_data_ptr<float>(),
                                   .accumulate = accumulate},
                                  part, parts);
              }
              const Tensor expected = exact + (accumulate ? before.narrow(1, 0, N) : bias).to(at::kDouble);
              ASSERT_LT(error_of(c, expected), type == at::kFloat ? 2e-6 : 4e-3)
                  << M << "x" << N << "x" << K << (a_t ? " a transposed" : "") << (b_t ? " b transposed" : "")
                  << (accumulate ? " added" : "") << " in " << parts;
              ASSERT_TRUE(at::equal(wide.narrow(1, N, 3), before.narrow(1, N, 3)));  // nothing beside it is written
            }
          }
        }
      }
    }
  }
}

// A large result goes past the caches; sums that go on with the next chunk of k are shared out by rows.
TEST(PackedBfloat16, FollowsFloat64WhereItWritesPastTheCaches) {
  if (!has_packed_bf16()) GTEST_SKIP() << "this machine has no packed products of bfloat16";
  at::manual_seed(5);
  for (const auto& [M, N, K, type] : {std::tuple{256, 283, 40, at::kFloat}, std::tuple{100, 59, 2050, at::kBFloat16}}) {
    const Tensor a = matrix(M, K, true).to(at::kBFloat16), b = matrix(K, N, false).to(at::kBFloat16);
    const Tensor c = at::empty({M, N + 5}, type).narrow(1, 0, N);  // rows begin at cache lines
    product_into(Products::packed, c, a, b, /*accumulate=*/false);
    EXPECT_LT(error_of(c, at::mm(a.to(at::kDouble), b.to(at::kDouble))), type == at::kFloat ? 2e-6 : 4e-3) << M;
  }
}

TEST(PackedBfloat16, WhatIsNoNumberStaysNone) {
  if (!has_packed_bf16()) GTEST_SKIP() << "this machine has no packed products of bfloat16";
  const Tensor a = at::zeros({9, 41}, at::kBFloat16), b = at::ones({41, 50}, at::kBFloat16);
  a[3][0] = std::numeric_limits<float>::quiet_NaN();
  a[8][0] = std::numeric_limits<float>::infinity();
  const Tensor c = product(Products::packed, a, b);
  EXPECT_TRUE(c[3].isnan().all().item<bool>());
  EXPECT_TRUE(c[8].isposinf().all().item<bool>());
  EXPECT_EQ(c.isfinite().sum().item<int64_t>(), 7 * 50);
}

TEST(PackedBfloat16, ALinearLayerHasAtensResultAndGradients) {
  if (!has_packed_bf16()) GTEST_SKIP() << "this machine has no packed products of bfloat16";
  at::manual_seed(4);
  const Tensor x = at::randn({2, 19, 24}), weight = at::randn({70, 24}), bias = at::randn({70});
  const auto pass = [&](Products products) {
    const AutocastScope autocast(at::kCPU, Autocast::bf16);
    std::vector<Tensor> in;
    for (const Tensor& t : {x, weight, bias}) in.push_back(t.detach().clone().requires_grad_(true));
    const Tensor y = ops_for({.autocast = Autocast::bf16, .products = products}).linear(in[0], in[1], in[2]);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    (y.to(at::kFloat) * at::arange(70, x.options())).sum().backward();
    return std::vector<Tensor>{y.detach(), in[0].grad(), in[1].grad(), in[2].grad()};
  };
  const auto expected = pass(Products::aten), seen = pass(Products::packed);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_LT(error_of(seen[i], expected[i].to(at::kDouble)), 6e-3) << i;
}

TEST(Products, ALinearLayerHasAtensResultAndGradients) {
  at::manual_seed(2);
  const Tensor x = at::randn({2, 19, 24}), weight = at::randn({70, 24}), bias = at::randn({70});
  const auto pass = [&](const Ops& ops, at::ScalarType type) {
    std::vector<Tensor> in;
    for (const Tensor& t : {x, weight, bias}) in.push_back(t.to(type).detach().clone().requires_grad_(true));
    const Tensor y = ops.linear(in[0], in[1], in[2]);
    (y * at::arange(70, y.options())).sum().backward();
    return std::vector<Tensor>{y.detach(), in[0].grad(), in[1].grad(), in[2].grad()};
  };
  const auto expected = pass(reference_ops(), at::kDouble),
             seen = pass(ops_for({.products = Products::packed}), at::kFloat);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_LT(error_of(seen[i], expected[i]), 1e-6) << i;
}

TEST(Products, WhatIsNoNumberStaysNone) {
  Tensor a = at::zeros({7, 40}), b = at::ones({40, 17});
  a[3][39] = std::numeric_limits<float>::quiet_NaN();
  const Tensor c = product(Products::packed, a, b);
  EXPECT_TRUE(c[3].isnan().all().item<bool>());
  EXPECT_EQ(c.isnan().sum().item<int64_t>(), 17);
}

TEST(Products, OtherTypesAreRefused) {
  const Tensor half = at::ones({4, 4}, at::kHalf);
  EXPECT_THROW((void)product(Products::packed, half, half), c10::Error);
}

}  // namespace products_test
