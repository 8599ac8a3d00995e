// Loss and gradient in the logits' place against float64.
#include "ablations/techniques/cross_entropy/cross_entropy.h"

#include "tests/ablations/techniques/cuda/fp8_test.h"

namespace kernels_cross_entropy_test {

using namespace kernels;
using namespace kernel_tests;

template <class T>
class CrossEntropyOf : public testing::Test {};
TYPED_TEST_SUITE(CrossEntropyOf, Types);

struct Shape {
  size_t N, V, stride;
};

struct Result {
  std::vector<double> losses, gradient, copy, copy_scale;
};

constexpr float scale = 1.0F / 64;

std::vector<int64_t> targets_of(const Shape& shape) {
  std::vector<int64_t> targets;
  for (size_t n = 0; n < shape.N; ++n) targets.push_back(static_cast<int64_t>((n * 37 + shape.V - 1) % shape.V));
  return targets;
}

template <class T>
Result pass(const Shape& shape, const Buffer<T>& logits, const std::vector<int64_t>& targets, bool copies = false) {
  const auto results = in_both_orders([&] {
    Buffer<T> in_place = logits;
    Buffer<float> losses(shape.N), copy_scale(1);
    Buffer<uint8_t> copy(logits.size());
    cross_entropy<T>({.logits = in_place.data(),
                      .targets = targets.data(),
                      .losses = losses.data(),
                      .N = static_cast<int64_t>(shape.N),
                      .V = static_cast<int64_t>(shape.V),
                      .stride = static_cast<int64_t>(shape.stride),
                      .scale = scale,
                      .copy = copies ? copy.data() : nullptr,
                      .copy_scale = copies ? copy_scale.data() : nullptr},
                     nullptr);
    return Results{losses.doubles(), in_place.doubles(), e5m2_values(copy), copy_scale.doubles()};
  });
  return {results[0], results[1], results[2], results[3]};
}

Result expected(const Shape& shape, const std::vector<double>& logits, const std::vector<int64_t>& targets) {
  Result result{std::vector<double>(shape.N), std::vector<double>(shape.N * shape.stride), {}, {}};
  for (size_t n = 0; n < shape.N; ++n) {
    const double* row = logits.data() + n * shape.stride;
    const double max = *std::max_element(row, row + shape.V);
    double sum = 0;
    for (size_t v = 0; v < shape.V; ++v) sum += std::exp(row[v] - max);
    const auto target = static_cast<size_t>(targets[n]);
    result.losses[n] = max + std::log(sum) - row[target];
    for (size_t v = 0; v < shape.V; ++v)
      result.gradient[n * shape.stride + v] =
          double{scale} * (std::exp(row[v] - max) / sum - (v == target ? 1.0 : 0.0));
  }
  return result;
}

// Padding holds what must not be read.
template <class T>
Buffer<T> logits_of(const Shape& shape, double spread = 3, size_t shift = 0) {
  Buffer<T> logits = random<T>(shape.N * shape.stride, 11, spread, 0, shift);
  for (size_t n = 0; n < shape.N; ++n) {
    for (size_t v = shape.V; v < shape.stride; ++v)
      logits[n * shape.stride + v] = from_float<T>(v % 2 == 0 ? NAN : 1e30F);
  }
  return logits;
}

template <class T>
void expect_right(const Shape& shape, const Buffer<T>& logits) {
  const auto targets = targets_of(shape);
  const Result found = pass(shape, logits, targets), right = expected(shape, logits.doubles(), targets);
  EXPECT_LT(relative_error(found.losses, right.losses), 2e-6);
  EXPECT_LT(relative_error(found.gradient, right.gradient), rounding<T>);
  for (size_t n = 0; n < shape.N; ++n) {
    for (size_t v = shape.V; v < shape.stride; ++v) EXPECT_EQ(found.gradient[n * shape.stride + v], 0);
  }
}

TYPED_TEST(CrossEntropyOf, RowsIsThatOfFloat64) {
  // Rows that begin at every place between two 16-byte boundaries, of fewer elements than lie before the first; more
  // vectors than threads; padding and none; rows that shared memory does not hold; one column, whose loss is 0.
  for (const Shape& shape :
       {Shape{1, 2, 2}, Shape{9, 3, 3}, Shape{9, 17, 17}, Shape{3, 257, 320}, Shape{2, 1000, 1001}, Shape{2, 1, 8},
        Shape{5, 9001, 9001}, Shape{2, 4100, 4608}, Shape{1, 16501, 16512}, Shape{3, 60001, 60001}}) {
    SCOPED_TRACE(testing::Message() << shape.N << " x " << shape.V << " of " << shape.stride);
    expect_right(shape, logits_of<TypeParam>(shape));
    expect_right(shape, logits_of<TypeParam>(shape, 3, /*shift=*/1));
  }
}

TYPED_TEST(CrossEntropyOf, HugeLogitsDoNotOverflow) {
  const Shape shape{3, 300, 304};
  expect_right(shape, logits_of<TypeParam>(shape, 1e4));
  expect_right(shape, logits_of<TypeParam>(shape, 1e30));
  // The maximum comes last, first, and everywhere.
  Buffer<TypeParam> logits = filled<TypeParam>(3 * 304, -1e37);
  logits[299] = logits[304] = from_float<TypeParam>(3e37F);
  expect_right(shape, logits);
  Buffer<TypeParam> impossible = logits_of<TypeParam>(shape);
  impossible[0] = impossible[120] = from_float<TypeParam>(-INFINITY);  // they take no part
  expect_right(shape, impossible);
}

TYPED_TEST(CrossEntropyOf, ALogitThatIsNoNumberIsSeenInItsRowOnly) {
  const Shape shape{3, 300, 304};
  for (const float bad : {NAN, INFINITY}) {
    Buffer<TypeParam> logits = logits_of<TypeParam>(shape);
    logits[304 + 123] = from_float<TypeParam>(bad);
    const Result found = pass(shape, logits, targets_of(shape));
    EXPECT_TRUE(std::isnan(found.losses[1]));
    EXPECT_EQ(nans(found.losses), 1U);
    EXPECT_GE(nans(found.gradient), 1U);
    for (size_t i = 0; i < found.gradient.size(); ++i) {
      EXPECT_TRUE(i / 304 == 1 || !std::isnan(found.gradient[i])) << i;
    }
  }
}

TYPED_TEST(CrossEntropyOf, ATargetThatIsNoColumnMakesItsRowNaN) {
  const Shape shape{3, 30, 32};
  for (const int64_t bad : {int64_t{-1}, int64_t{30}, int64_t{1} << 40}) {
    const Result found = pass(shape, logits_of<TypeParam>(shape), {3, bad, 29});
    EXPECT_TRUE(std::isnan(found.losses[1]));
    EXPECT_EQ(nans(found.losses), 1U);
    EXPECT_EQ(nans(found.gradient), 30U);
  }
}

TEST(MeanLoss, IsThatOfFloat64) {
  for (const size_t count : {1, 31, 1024, 5000}) {
    const Buffer<float> losses = random<float>(count, 1, 1, 11);
    const auto results = in_both_orders([&] {
      Buffer<float> mean(1);
      mean_loss(losses.data(), static_cast<int64_t>(count), mean.data(), nullptr);
      return Results{mean.doubles()};
    });
    double sum = 0;
    for (const double loss : losses.doubles()) sum += loss;
    EXPECT_NEAR(results[0][0], sum / static_cast<double>(count), 1e-5);
  }
}

// Rows that stay in shared memory, and rows that do not.
TEST(CrossEntropyCopies, AreTheGradientOverAScaleThatNoGradientExceeds) {
  for (const Shape& shape : {Shape{3, 89, 96}, Shape{3, 60000, 60016}}) {
    const auto V = static_cast<int64_t>(shape.V);
    const Result found = pass(shape, logits_of<bf16>(shape, 4), {5, V - 1, V}, /*copies=*/true);  // the last is none
    const double copy_scale = found.copy_scale[0];
    EXPECT_NEAR(copy_scale, double{scale} / 57344, 1e-13);
    for (size_t i = 0; i < 2 * shape.stride; ++i) {
      const double x = found.gradient[i];
      // Half a unit of e5m2, at least 2^-17, and of bfloat16, to which x was rounded.
      ASSERT_NEAR(found.copy[i] * copy_scale, x, std::abs(x) * (1.0 / 8 + 1.0 / 256) + copy_scale / 120000)
          << V << ", " << i;
    }
    EXPECT_EQ(nans(found.copy), shape.V);
  }
}

}  // namespace kernels_cross_entropy_test
