// GELU, its gradient and the sums of that against float64.
#include "ablations/techniques/mlp/gelu.h"

#include "ablations/techniques/products/column_sum.h"
#include "tests/ablations/techniques/cuda/kernel_test.h"

namespace kernels_gelu_test {

using namespace kernels;
using namespace kernel_tests;

template <class T>
class Gelu : public testing::Test {};
TYPED_TEST_SUITE(Gelu, Types);

// x (N, C) -> GELU, its gradient and this one's column sums; the first two once more, in place.
template <class T>
Results both_passes(const Buffer<T>& x, const Buffer<T>& upstream, size_t C, size_t shift = 0) {
  return in_both_orders([&] {
    const auto count = static_cast<int64_t>(x.size()), columns = static_cast<int64_t>(C), N = count / columns;
    const int64_t strips = column_strips<T>(N, columns);
    Buffer<T> y(x.size(), shift), gradient(x.size(), shift), x_in_place = x, upstream_in_place = upstream;
    Buffer<float> partials(static_cast<size_t>(strips * columns)), sums(C);
    gelu_forward<T>(x.data(), y.data(), count, nullptr);
    gelu_forward<T>(x_in_place.data(), x_in_place.data(), count, nullptr);
    const auto backward = [&](const T* from, T* to) {
      gelu_backward<T>({x.data(), from, to, partials.data(), N, columns}, nullptr);
    };
    backward(upstream_in_place.data(), upstream_in_place.data());
    backward(upstream.data(), gradient.data());
    const FinishColumns finish{partials.data(), sums.data(), static_cast<int>(strips), static_cast<int>(C), false};
    finish_columns({&finish, 1}, nullptr);
    return Results{y.doubles(), gradient.doubles(), sums.doubles(), x_in_place.doubles(), upstream_in_place.doubles()};
  });
}

TYPED_TEST(Gelu, IsThatOfFloat64) {
  for (const size_t C : {1, 7, 8, 33, 264, 768}) {
    for (const size_t N : {0, 1, 5, 64, 301}) {
      for (const size_t shift : {0, 1}) {
        SCOPED_TRACE(testing::Message() << N << " x " << C << ", shifted by " << shift);
        const auto x = random<TypeParam>(N * C, 1, 2, 0, shift), upstream = random<TypeParam>(N * C, 2, 1, 0.5, shift);
        const auto results = both_passes(x, upstream, C, shift);
        std::vector<double> y, gradient;
        for (size_t i = 0; i < N * C; ++i) {
          y.push_back(gelu(x.at(i)));
          gradient.push_back(upstream.at(i) * gelu_slope(x.at(i)));
        }
        EXPECT_LT(relative_error(results[0], y), rounding<TypeParam>);
        EXPECT_LT(relative_error(results[1], gradient), rounding<TypeParam>);
        EXPECT_LT(relative_error(results[2], column_sums(results[1], C)), 1e-6);  // of what was written, rounded
        EXPECT_EQ(results[3], results[0]);
        EXPECT_EQ(results[4], results[1]);
      }
    }
  }
}

TYPED_TEST(Gelu, HugeValuesAreTheLimits) {
  const double huge[] = {1e30, -1e30, 50, -50, 0};
  Buffer<TypeParam> x(5);
  for (size_t i = 0; i < 5; ++i) x[i] = from_float<TypeParam>(static_cast<float>(huge[i]));
  const auto results = both_passes(x, filled<TypeParam>(5, 3), 5);
  EXPECT_EQ(results[0], (std::vector<double>{x.at(0), 0, x.at(2), 0, 0}));
  const double slopes[] = {1, 0, 1, 0, 0.5};
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(results[1][i], 3 * slopes[i], 1e-30);
}

TYPED_TEST(Gelu, ANumberThatIsNoneStaysOne) {
  auto x = random<TypeParam>(30, 1), upstream = random<TypeParam>(30, 2);
  x[11] = upstream[12] = from_float<TypeParam>(NAN);
  const auto results = both_passes(x, upstream, 10);
  EXPECT_TRUE(std::isnan(results[0][11]) && std::isnan(results[1][11]) && std::isnan(results[1][12]));
  EXPECT_TRUE(std::isnan(results[2][1]) && std::isnan(results[2][2]));
  EXPECT_EQ(nans(results[0]), 1U);
  EXPECT_EQ(nans(results[1]), 2U);
  EXPECT_EQ(nans(results[2]), 2U);
}

}  // namespace kernels_gelu_test
