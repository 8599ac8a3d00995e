// Sums of columns against float64.
#include "ablations/techniques/products/column_sum.h"

#include "tests/ablations/techniques/cuda/kernel_test.h"

namespace kernels_column_sum_test {

using namespace kernels;
using namespace kernel_tests;

template <class T>
class ColumnSums : public testing::Test {};
TYPED_TEST_SUITE(ColumnSums, Types);

template <class T>
std::vector<double> sums_of(const Buffer<T>& values, int64_t N, int64_t C, bool accumulate) {
  const auto result = in_both_orders([&] {
    Buffer<float> sums = random<float>(static_cast<size_t>(C), 7);
    const int64_t strips = column_strips<T>(N, C);
    Buffer<float> partials(static_cast<size_t>(strips * C));
    column_sum<T>({values.data(), partials.data(), N, C}, nullptr);
    const FinishColumns finish{partials.data(), sums.data(), static_cast<int>(strips), static_cast<int>(C), accumulate};
    finish_columns({&finish, 1}, nullptr);
    return Results{sums.doubles()};
  });
  return result[0];
}

TYPED_TEST(ColumnSums, AreThoseOfFloat64) {
  for (const int64_t C : {1, 7, 8, 33, 100, 264, 768, 2304}) {
    for (const int64_t N : {0, 1, 5, 64, 301}) {
      for (const size_t shift : {0, 1}) {  // also where rows begin anywhere
        if (shift > 0 && N != 5) continue;
        SCOPED_TRACE(testing::Message() << N << " x " << C << ", shifted by " << shift);
        const Buffer<TypeParam> values = random<TypeParam>(static_cast<size_t>(N * C), 3, 1, 0.5, shift);
        for (const bool accumulate : {false, true}) {
          const auto expected = column_sums(values.doubles(), static_cast<size_t>(C), accumulate);
          EXPECT_LT(relative_error(sums_of(values, N, C, accumulate), expected), 1e-6);
        }
      }
    }
  }
}

TYPED_TEST(ColumnSums, ANumberThatIsNoneStaysInItsColumn) {
  Buffer<TypeParam> values = random<TypeParam>(20 * 40, 3, 1e30);
  values[5 * 40 + 17] = from_float<TypeParam>(NAN);
  const std::vector<double> sums = sums_of(values, 20, 40, false);
  EXPECT_TRUE(std::isnan(sums[17]));
  EXPECT_EQ(nans(sums), 1U);
}

// More than one launch takes, of different sizes.
TEST(FinishColumns, AddsUpEachOfMany) {
  std::vector<Buffer<float>> partials;
  for (size_t i = 0; i < 130; ++i) partials.push_back(random<float>((i % 5) * (1 + i), static_cast<unsigned>(i)));
  const Results results = in_both_orders([&] {
    std::vector<Buffer<float>> sums;
    for (size_t i = 0; i < partials.size(); ++i) sums.push_back(random<float>(1 + i, 7));
    std::vector<FinishColumns> all;
    for (size_t i = 0; i < partials.size(); ++i)
      all.push_back({partials[i].data(), sums[i].data(), static_cast<int>(i % 5), static_cast<int>(1 + i), i % 2 == 0});
    finish_columns(all, nullptr);
    Results found;
    for (const Buffer<float>& one : sums) found.push_back(one.doubles());
    return found;
  });
  for (size_t i = 0; i < partials.size(); ++i)
    EXPECT_LT(relative_error(results[i], column_sums(partials[i].doubles(), 1 + i, i % 2 == 0)), 1e-6) << i;
}

}  // namespace kernels_column_sum_test
