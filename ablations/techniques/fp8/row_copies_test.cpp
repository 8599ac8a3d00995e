// Rows in fp8 and what they are copies of, against float64: GELU, its gradient, three matrices side by side.
#include "ablations/techniques/fp8/row_copies.h"

#include "tests/ablations/techniques/cuda/fp8_test.h"

namespace kernels_row_copies_test {

using namespace kernels;
using namespace kernel_tests;

// The last has more rows than its blocks take at once.
constexpr std::pair<int64_t, int64_t> sizes[] = {{1, 8}, {2, 48}, {5, 768}, {37, 264}, {23, 2728}};

struct Copies {
  Buffer<uint8_t> values;
  Buffer<float> scales;
  Copies(int64_t N, int64_t C) : values(static_cast<size_t>(N * C)), scales(static_cast<size_t>(N)) {}
  [[nodiscard]] RowCopies to() { return {values.data(), scales.data()}; }
};

TEST(RowCopies, OfGeluAndItsGradient) {
  for (const auto& [N, C] : sizes) {
    const auto n = static_cast<size_t>(N * C), c = static_cast<size_t>(C);
    const Buffer<bf16> fc = random<bf16>(n, 1, 2), bias = random<bf16>(c, 2, 1, 0.5), upstream = random<bf16>(n, 3);
    const Results results = in_both_orders([&] {
      Buffer<bf16> hidden(n), gradient = upstream;
      Copies copies(N, C), of_gradient(N, C);
      Buffer<float> partials(static_cast<size_t>(row_copies_strips(N, C)) * c);
      gelu_forward_fp8(fc.data(), bias.data(), hidden.data(), copies.to(), N, C, nullptr);
      gelu_backward_fp8(
          {fc.data(), bias.data(), gradient.data(), gradient.data(), of_gradient.to(), partials.data(), N, C}, nullptr);
      return Results{hidden.doubles(),
                     e4m3_values(copies.values),
                     copies.scales.doubles(),
                     gradient.doubles(),
                     e4m3_values(of_gradient.values),
                     of_gradient.scales.doubles(),
                     column_sums(partials.doubles(), c)};
    });
    std::vector<double> expected(n), expected_gradient(n);
    for (size_t i = 0; i < n; ++i) {
      expected[i] = gelu(fc.at(i) + bias.at(i % c));
      expected_gradient[i] = upstream.at(i) * gelu_slope(fc.at(i) + bias.at(i % c));
    }
    EXPECT_LT(relative_error(results[0], expected), rounding<bf16>);
    expect_copies(results[1], results[2], results[0], c);
    EXPECT_LT(relative_error(results[3], expected_gradient), rounding<bf16>);
    expect_copies(results[4], results[5], results[3], c);
    EXPECT_LT(relative_error(results[6], column_sums(results[3], c)), 1e-6);
  }
}

TEST(RowCopies, OfThreeMatricesSideBySide) {
  for (const auto& [N, C] : sizes) {
    const auto n = static_cast<size_t>(N * C), c = static_cast<size_t>(C);
    const std::vector<Buffer<bf16>> parts{random<bf16>(n, 1), random<bf16>(n, 2, 10), random<bf16>(n, 3, 0.1)};
    const Results results = in_both_orders([&] {
      Buffer<bf16> joined(3 * n);
      Copies copies(N, 3 * C);
      Buffer<float> partials(static_cast<size_t>(row_copies_strips(N, 3 * C)) * 3 * c);
      join_fp8({{parts[0].data(), parts[1].data(), parts[2].data()}, joined.data(), copies.to(), partials.data(), N, C},
               nullptr);
      return Results{joined.doubles(), e4m3_values(copies.values), copies.scales.doubles(),
                     column_sums(partials.doubles(), 3 * c)};
    });
    std::vector<double> expected(3 * n);
    for (size_t i = 0; i < 3 * n; ++i) expected[i] = parts[i % (3 * c) / c].at(i / (3 * c) * c + i % c);
    EXPECT_EQ(results[0], expected);
    expect_copies(results[1], results[2], results[0], 3 * c);
    EXPECT_LT(relative_error(results[3], column_sums(results[0], 3 * c)), 1e-6);
  }
}

// As many blocks as run at once: more than 3 of 384 threads find no registers, and 12 of 96 do.
TEST(RowCopies, HaveAsManyBlocksAsRunAtOnce) {
  const int64_t many = 1 << 20, processors = cpu_device::multiprocessors;
  EXPECT_EQ(row_copies_strips(many, 3072), 3 * processors);
  EXPECT_EQ(row_copies_strips(many, 2304), 4 * processors);
  EXPECT_EQ(row_copies_strips(many, 768), 12 * processors);
  EXPECT_EQ(row_copies_strips(many, 8192), 1 * processors);
  EXPECT_EQ(row_copies_strips(3, 768), 2);
}

// Rows whose numbers are too small for a scale become 0, and no number becomes none.
TEST(RowCopies, OfNumbersThatAreTooSmallAreZero) {
  const int64_t N = 3, C = 24;
  const Buffer<bf16> zeros = filled<bf16>(static_cast<size_t>(N * C / 3), 0);
  Buffer<bf16> x = zeros, joined(static_cast<size_t>(N * C));
  for (const auto& [row, greatest] : {std::pair(0, 1e-30F), std::pair(1, 1e-36F), std::pair(2, 1e-38F)}) {
    x[static_cast<size_t>(row * C / 3 + 1)] = from_float<bf16>(greatest);
    x[static_cast<size_t>(row * C / 3 + 2)] = from_float<bf16>(-greatest / 2);
  }
  Copies copies(N, C);
  join_fp8({{x.data(), zeros.data(), zeros.data()}, joined.data(), copies.to(), nullptr, N, C / 3}, nullptr);
  const std::vector<double> values = e4m3_values(copies.values);
  EXPECT_EQ(nans(values), 0U);
  EXPECT_EQ(values[1], 448);
  EXPECT_NEAR(copies.scales.at(0), 1e-30 / 448, 1e-34);
  for (const size_t row : {1, 2}) {
    EXPECT_EQ(copies.scales.at(row), 1);
    EXPECT_EQ(values[row * C + 1], 0);
  }
}

// Rows of zeros have the scale 1; what is no number stays none, and takes no other number with it.
TEST(RowCopies, OfWhatIsZeroOrNoNumber) {
  const int64_t N = 3, C = 24;
  Buffer<bf16> parts = filled<bf16>(static_cast<size_t>(N * C), 0);
  parts[C + 5] = from_float<bf16>(NAN);
  parts[C + 6] = from_float<bf16>(2);
  Buffer<bf16> joined(static_cast<size_t>(3 * N * C));
  Copies copies(N, 3 * C);
  join_fp8({{parts.data(), parts.data(), parts.data()}, joined.data(), copies.to(), nullptr, N, C}, nullptr);
  EXPECT_EQ(copies.scales.at(0), 1);
  EXPECT_NEAR(copies.scales.at(1), 2 / 448.0, 1e-8);
  const std::vector<double> values = e4m3_values(copies.values);
  EXPECT_EQ(nans(values), 3U);
  EXPECT_EQ(values[3 * C + 6], 448);
}

TEST(RowCopies, OfRowsThatAreTooLongAreRefused) {
  EXPECT_THROW(gelu_forward_fp8(nullptr, nullptr, nullptr, {}, 1, 8200, nullptr), std::invalid_argument);
  EXPECT_THROW(gelu_forward_fp8(nullptr, nullptr, nullptr, {}, 1, 12, nullptr), std::invalid_argument);
}

}  // namespace kernels_row_copies_test
