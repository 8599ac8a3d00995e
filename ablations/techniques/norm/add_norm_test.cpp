// Residual addition and LayerNorm against float64, forward and backward.
#include "ablations/techniques/norm/add_norm.h"

#include "ablations/techniques/products/column_sum.h"
#include "tests/ablations/techniques/cuda/fp8_test.h"

#include <optional>

namespace kernels_add_norm_test {

using namespace kernels;
using namespace kernel_tests;

template <class Stream, class Branch, class Weight>
struct Numbers {
  using T = Stream;
  using B = Branch;
  using W = Weight;
};

template <class P>
class AddNorm : public testing::Test {};
using Kinds = testing::Types<Numbers<float, float, float>, Numbers<float, bf16, float>, Numbers<bf16, bf16, float>>;
TYPED_TEST_SUITE(AddNorm, Kinds);

constexpr float eps = 1e-5F;

struct Shape {
  size_t N, C;
  size_t count() const { return N * C; }
};

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.N << " x " << shape.C; }

// One of each kind: a row shorter than a vector, rows that are no multiple of one, all lanes used or some, more
// registers, rows too long for registers or tiles. More rows than the backward pass has in a turn of its blocks (96).
constexpr Shape shapes[] = {{1, 1},   {3, 5},    {2, 8},    {9, 100},  {5, 264},  {101, 768}, {4, 776},
                            {1, 777}, {7, 1024}, {3, 1032}, {2, 1600}, {2, 2048}, {3, 2056}};

template <class P>
struct Inputs {
  using T = typename P::T;
  using B = typename P::B;
  using W = typename P::W;
  Inputs(Shape of, bool adds, size_t shifted = 0, double scale = 1)
      : shape(of),
        x(random<T>(of.count(), 1, scale, 0.5 * scale, shifted)),
        weight(random<W>(of.C, 3, 0.5, 1, shifted)),
        bias(random<W>(of.C, 4, 1, 0, shifted)),
        shift(shifted) {
    if (adds) y.emplace(random<B>(of.count(), 2, 2 * scale, 0, shifted));
  }
  Shape shape;
  Buffer<T> x;
  std::optional<Buffer<B>> y;
  Buffer<W> weight, bias;
  size_t shift;
};

struct Forward {
  std::vector<double> sum, normalized, mean, rstd, copy;
};

// copy_scale: of what is normalized a copy in fp8 is made, too.
template <class P>
Forward forward(const Inputs<P>& in, const float* copy_scale = nullptr) {
  using T = typename P::T;
  using B = typename P::B;
  const auto results = in_both_orders([&] {
    Buffer<T> sum(in.shape.count(), in.shift);
    Buffer<B> normalized(in.shape.count(), in.shift);
    Buffer<float> mean(in.shape.N), rstd(in.shape.N);
    Buffer<uint8_t> copy(in.shape.count());
    add_norm_forward<T, B, typename P::W>({.x = in.x.data(),
                                           .y = in.y ? in.y->data() : nullptr,
                                           .weight = in.weight.data(),
                                           .bias = in.bias.data(),
                                           .sum = in.y ? sum.data() : nullptr,
                                           .normalized = normalized.data(),
                                           .mean = mean.data(),
                                           .rstd = rstd.data(),
                                           .N = static_cast<int64_t>(in.shape.N),
                                           .C = static_cast<int64_t>(in.shape.C),
                                           .eps = eps,
                                           .copy = copy_scale != nullptr ? copy.data() : nullptr,
                                           .copy_scale = copy_scale},
                                          nullptr);
    return Results{in.y ? sum.doubles() : in.x.doubles(), normalized.doubles(), mean.doubles(), rstd.doubles(),
                   e4m3_values(copy)};
  });
  return {results[0], results[1], results[2], results[3], results[4]};
}

// In float64, of the sum that the kernel wrote: it normalizes what it has rounded.
template <class P>
Forward expected_forward(const Inputs<P>& in, const std::vector<double>& rounded_sum) {
  const auto [N, C] = in.shape;
  Forward result{in.x.doubles(), std::vector<double>(N * C), std::vector<double>(N), std::vector<double>(N), {}};
  for (size_t i = 0; in.y && i < N * C; ++i) result.sum[i] += in.y->at(i);
  for (size_t n = 0; n < N; ++n) {
    const double* s = rounded_sum.data() + n * C;
    double mean = 0, variance = 0;
    for (size_t c = 0; c < C; ++c) mean += s[c] / static_cast<double>(C);
    for (size_t c = 0; c < C; ++c) variance += (s[c] - mean) * (s[c] - mean) / static_cast<double>(C);
    result.mean[n] = mean;
    result.rstd[n] = 1 / std::sqrt(variance + double{eps});
    for (size_t c = 0; c < C; ++c)
      result.normalized[n * C + c] = (s[c] - mean) * result.rstd[n] * in.weight.at(c) + in.bias.at(c);
  }
  return result;
}

template <class P>
void expect_forward_is_right(const Inputs<P>& in) {
  const Forward found = forward(in);
  const Forward expected = expected_forward(in, found.sum);
  EXPECT_LT(relative_error(found.sum, expected.sum), rounding<typename P::T>);
  EXPECT_LT(relative_error(found.normalized, expected.normalized), rounding<typename P::B>);
  EXPECT_LT(relative_error(found.mean, expected.mean), 1e-5);
  EXPECT_LT(relative_error(found.rstd, expected.rstd), 1e-5);
}

TYPED_TEST(AddNorm, ForwardIsThatOfFloat64) {
  for (const Shape& shape : shapes) {
    for (const bool adds : {true, false}) {
      SCOPED_TRACE(testing::Message() << shape << (adds ? "" : ", nothing added"));
      expect_forward_is_right(Inputs<TypeParam>(shape, adds));
    }
  }
  expect_forward_is_right(Inputs<TypeParam>({5, 264}, true, /*shift=*/1));  // rows that begin anywhere
  expect_forward_is_right(Inputs<TypeParam>({5, 264}, true, 0, /*scale=*/1e15));
}

TYPED_TEST(AddNorm, ForwardOfARowOfOneValueIsTheBias) {
  using T = typename TypeParam::T;
  Inputs<TypeParam> in({3, 264}, false);
  for (size_t i = 0; i < in.shape.count(); ++i) in.x[i] = from_float<T>(4);
  const Forward found = forward(in);
  for (size_t i = 0; i < in.shape.count(); ++i)
    EXPECT_EQ(found.normalized[i],
              to_double(from_float<typename TypeParam::B>(static_cast<float>(in.bias.at(i % 264)))));
}

TYPED_TEST(AddNorm, ForwardKeepsANumberThatIsNoneInItsRow) {
  Inputs<TypeParam> in({4, 264}, true);
  (*in.y)[2 * 264 + 263] = from_float<typename TypeParam::B>(NAN);
  const Forward found = forward(in);
  EXPECT_EQ(nans(found.normalized), 264U);
  EXPECT_TRUE(std::isnan(found.normalized[2 * 264]));
  EXPECT_EQ(nans(found.sum), 1U);
}

struct Backward {
  std::vector<double> gradient, weight_gradient, bias_gradient, branch_gradient, added_bias_gradient;
  std::vector<double> copy, copy_scales;
};

template <class P>
struct Upstream {
  using T = typename P::T;
  using B = typename P::B;
  Upstream(Shape shape, bool passes, size_t shift = 0) : of_normalized(random<B>(shape.count(), 5, 1, 0.2, shift)) {
    if (passes) of_sum.emplace(random<T>(shape.count(), 6, 1, 0, shift));
  }
  Buffer<B> of_normalized;
  std::optional<Buffer<T>> of_sum;
};

enum class Place { own, of_sum, of_normalized };

template <class P>
Backward backward(const Inputs<P>& in, const Upstream<P>& upstream, bool accumulate, Place place = Place::own,
                  bool copies = false) {
  using T = typename P::T;
  using B = typename P::B;
  constexpr bool mixed = !std::is_same_v<T, B>;
  const auto [N, C] = in.shape;
  const Forward saved = expected_forward(in, in.x.doubles());
  const auto results = in_both_orders([&] {
    Upstream<P> up = upstream;
    Buffer<T> own(N * C, in.shift);
    Buffer<B> of_branch(mixed ? N * C : 0, in.shift);
    Buffer<float> mean(N), rstd(N);
    for (size_t n = 0; n < N; ++n) {
      mean[n] = static_cast<float>(saved.mean[n]);
      rstd[n] = static_cast<float>(saved.rstd[n]);
    }
    Buffer<float> weight_gradient = random<float>(C, 8), bias_gradient = random<float>(C, 9),
                  added_bias_gradient = random<float>(C, 10);
    const auto rows = static_cast<int64_t>(N), columns = static_cast<int64_t>(C);
    const int64_t strips = add_norm_backward_strips<T, B>(rows, columns);
    Buffer<float> partials(static_cast<size_t>(3 * strips * columns)), copy_scales(copies ? N : 0);
    Buffer<uint8_t> copy(copies ? N * C : 0);
    Buffer<T>* gradient = place == Place::of_sum ? &*up.of_sum : &own;
    if constexpr (!mixed) gradient = place == Place::of_normalized ? &up.of_normalized : gradient;
    const bool all =
        add_norm_backward<T, B, typename P::W>({.of_sum = up.of_sum ? up.of_sum->data() : nullptr,
                                                .of_normalized = up.of_normalized.data(),
                                                .sum = in.x.data(),
                                                .weight = in.weight.data(),
                                                .mean = mean.data(),
                                                .rstd = rstd.data(),
                                                .gradient = gradient->data(),
                                                .branch_gradient = mixed ? of_branch.data() : nullptr,
                                                .partials = partials.data(),
                                                .sums_branch = true,
                                                .N = rows,
                                                .C = columns,
                                                .copies = {copies ? copy.data() : nullptr, copy_scales.data()}},
                                               nullptr);
    std::vector<FinishColumns> finish;
    for (float* const sums : {weight_gradient.data(), bias_gradient.data(), added_bias_gradient.data()}) {
      if (finish.size() == 2 && !all) break;
      const float* const from = partials.data() + std::ssize(finish) * strips * columns;
      finish.push_back({from, sums, static_cast<int>(strips), static_cast<int>(columns), accumulate});
    }
    finish_columns(finish, nullptr);
    return Results{gradient->doubles(),
                   weight_gradient.doubles(),
                   bias_gradient.doubles(),
                   mixed ? of_branch.doubles() : gradient->doubles(),
                   all ? added_bias_gradient.doubles() : std::vector<double>(),
                   e4m3_values(copy),
                   copy_scales.doubles()};
  });
  return {results[0], results[1], results[2], results[3], results[4], results[5], results[6]};
}

template <class P>
Backward expected_backward(const Inputs<P>& in, const Upstream<P>& upstream, bool accumulate) {
  const auto [N, C] = in.shape;
  const Forward saved = expected_forward(in, in.x.doubles());
  Backward result{.gradient = std::vector<double>(N * C),
                  .weight_gradient = std::vector<double>(C),
                  .bias_gradient = std::vector<double>(C)};
  if (accumulate) {
    result.weight_gradient = random<float>(C, 8).doubles();
    result.bias_gradient = random<float>(C, 9).doubles();
  }
  for (size_t n = 0; n < N; ++n) {
    const auto h = [&](size_t c) { return (in.x.at(n * C + c) - saved.mean[n]) * saved.rstd[n]; };
    const auto g = [&](size_t c) { return upstream.of_normalized.at(n * C + c) * in.weight.at(c); };
    double g_mean = 0, gh_mean = 0;
    for (size_t c = 0; c < C; ++c) {
      g_mean += g(c) / static_cast<double>(C);
      gh_mean += g(c) * h(c) / static_cast<double>(C);
    }
    for (size_t c = 0; c < C; ++c) {
      const size_t i = n * C + c;
      result.gradient[i] =
          (upstream.of_sum ? upstream.of_sum->at(i) : 0) + saved.rstd[n] * (g(c) - g_mean - h(c) * gh_mean);
      result.weight_gradient[c] += upstream.of_normalized.at(i) * h(c);
      result.bias_gradient[c] += upstream.of_normalized.at(i);
    }
  }
  result.branch_gradient = result.gradient;
  return result;
}

// passes: a gradient comes down the stream.
template <class P>
void expect_backward_is_right(const Shape& shape, bool passes, size_t shift = 0) {
  SCOPED_TRACE(testing::Message() << shape << (passes ? "" : ", nothing comes down the stream"));
  const Inputs<P> in(shape, false, shift);
  const Upstream<P> upstream(shape, passes, shift);
  const bool accumulate = !passes;
  const Backward found = backward(in, upstream, accumulate), expected = expected_backward(in, upstream, accumulate);
  EXPECT_LT(relative_error(found.gradient, expected.gradient), 2 * rounding<typename P::T>);
  EXPECT_LT(relative_error(found.branch_gradient, expected.branch_gradient), 2 * rounding<typename P::B>);
  EXPECT_LT(relative_error(found.weight_gradient, expected.weight_gradient), 1e-5);
  EXPECT_LT(relative_error(found.bias_gradient, expected.bias_gradient), 1e-5);
  // Of the branch's gradient as it was rounded, where the kernel makes it.
  if (found.added_bias_gradient.empty()) return;
  const auto sums = column_sums(found.branch_gradient, shape.C, accumulate, /*seed=*/10);
  EXPECT_LT(relative_error(found.added_bias_gradient, sums), 1e-5);
}

TYPED_TEST(AddNorm, BackwardIsThatOfFloat64) {
  for (const Shape& shape : shapes) {
    if (shape.C == 1) continue;  // its gradient is 0, and float32 leaves the rounding
    for (const bool passes : {true, false}) expect_backward_is_right<TypeParam>(shape, passes);
  }
  expect_backward_is_right<TypeParam>({70, 264}, true, /*shift=*/1);  // rows that begin anywhere
  expect_backward_is_right<TypeParam>({0, 8}, true);
}

TYPED_TEST(AddNorm, BackwardMayOverwriteWhatItReads) {
  constexpr bool mixed = !std::is_same_v<typename TypeParam::T, typename TypeParam::B>;
  for (const Shape shape : {Shape{5, 264}, Shape{3, 1032}, Shape{3, 77}}) {
    const Inputs<TypeParam> in(shape, false);
    const Upstream<TypeParam> upstream(shape, true);
    const Backward own = backward(in, upstream, false);
    for (const Place place : {Place::of_sum, Place::of_normalized}) {
      if (mixed && place == Place::of_normalized) continue;
      const Backward found = backward(in, upstream, false, place);
      EXPECT_EQ(found.gradient, own.gradient);
      EXPECT_EQ(found.weight_gradient, own.weight_gradient);
      EXPECT_EQ(found.bias_gradient, own.bias_gradient);
      EXPECT_EQ(found.added_bias_gradient, own.added_bias_gradient);
    }
  }
}

TYPED_TEST(AddNorm, BackwardKeepsANumberThatIsNoneInItsRowAndColumn) {
  for (const Shape shape : {Shape{5, 264}, Shape{5, 77}}) {
    const Inputs<TypeParam> in(shape, false);
    Upstream<TypeParam> upstream(shape, true);
    upstream.of_normalized[2 * shape.C + 7] = from_float<typename TypeParam::B>(NAN);
    const Backward found = backward(in, upstream, false);
    EXPECT_EQ(nans(found.gradient), shape.C);
    EXPECT_TRUE(std::isnan(found.gradient[2 * shape.C]));
    EXPECT_TRUE(std::isnan(found.weight_gradient[7]) && std::isnan(found.bias_gradient[7]));
    EXPECT_EQ(nans(found.weight_gradient) + nans(found.bias_gradient), 2U);
  }
}

TEST(AddNormCopies, AreTheNormalizedRowsOverTheScale) {
  const float scale = 0.03F;
  const Forward found = forward(Inputs<Numbers<bf16, bf16, float>>({5, 264}, false), &scale);
  for (size_t i = 0; i < found.copy.size(); ++i) {
    const double x = found.normalized[i];
    ASSERT_NEAR(found.copy[i] * double{scale}, x, std::abs(x) / 15 + 0.03 / 1024) << i;
  }
}

// In tiles, and in rows that are too long for them; all that is written besides stays the same.
template <class P>
void expect_copies_of_branch_gradients() {
  for (const Shape shape : {Shape{1, 8}, Shape{5, 264}, Shape{70, 768}, Shape{9, 1024}, Shape{5, 1032}}) {
    const Inputs<P> in(shape, false);
    for (const bool passes : {true, false}) {
      SCOPED_TRACE(testing::Message() << shape << (passes ? "" : ", nothing comes down the stream"));
      const Upstream<P> upstream(shape, passes);
      const Backward plain = backward(in, upstream, false), found = backward(in, upstream, false, Place::own, true);
      EXPECT_EQ(found.gradient, plain.gradient);
      EXPECT_EQ(found.branch_gradient, plain.branch_gradient);
      EXPECT_EQ(found.weight_gradient, plain.weight_gradient);
      EXPECT_EQ(found.added_bias_gradient, plain.added_bias_gradient);
      expect_copies(found.copy, found.copy_scales, found.branch_gradient, shape.C);
    }
  }
}

TEST(AddNormCopies, AreTheBranchsGradientByRows) {
  expect_copies_of_branch_gradients<Numbers<bf16, bf16, float>>();
  expect_copies_of_branch_gradients<Numbers<float, bf16, float>>();
}

TEST(AddNormCopies, OfOtherRowsAreRefused) {
  const auto copies_of = [](auto numbers, const Shape& shape) {
    using P = decltype(numbers);
    const Inputs<P> in(shape, false);
    backward(in, Upstream<P>(shape, true), false, Place::own, true);
  };
  EXPECT_THROW(copies_of(Numbers<bf16, bf16, float>(), {5, 77}), std::invalid_argument);
  EXPECT_THROW(copies_of(Numbers<float, float, float>(), {5, 264}), std::invalid_argument);
}

}  // namespace kernels_add_norm_test
