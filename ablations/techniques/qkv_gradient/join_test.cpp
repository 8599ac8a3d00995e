// Three matrices side by side and the sums of their columns, against float64.
#include "ablations/techniques/qkv_gradient/join.h"

#include "ablations/techniques/products/column_sum.h"
#include "tests/ablations/techniques/cuda/kernel_test.h"

namespace kernels_join_test {

using namespace kernels;
using namespace kernel_tests;

template <class T>
class JoinKernel : public testing::Test {};
TYPED_TEST_SUITE(JoinKernel, Types);

template <class T>
struct Parts {
  int64_t N, C;
  std::vector<Buffer<T>> parts;

  Parts(int64_t rows, int64_t columns, size_t shift = 0) : N(rows), C(columns) {
    for (unsigned i = 0; i < 3; ++i) {
      parts.push_back(random<T>(static_cast<size_t>(N * C), 3 + i, 1, 0.5, shift));
    }
  }
  [[nodiscard]] std::vector<double> together() const {
    std::vector<double> values;
    for (int64_t row = 0; row < N; ++row) {
      for (const Buffer<T>& part : parts) {
        for (int64_t c = 0; c < C; ++c) values.push_back(part.at(static_cast<size_t>(row * C + c)));
      }
    }
    return values;
  }
};

// The matrix and the sums.
template <class T>
Results joined(const Parts<T>& of, bool accumulate) {
  return in_both_orders([&] {
    Buffer<T> together(static_cast<size_t>(3 * of.N * of.C));
    Buffer<float> sums = random<float>(static_cast<size_t>(3 * of.C), 7);
    const int64_t strips = column_strips<T>(of.N, 3 * of.C);
    Buffer<float> partials(static_cast<size_t>(strips * 3 * of.C));
    join<T>({.parts = {of.parts[0].data(), of.parts[1].data(), of.parts[2].data()},
             .joined = together.data(),
             .partials = partials.data(),
             .N = of.N,
             .C = of.C},
            nullptr);
    const FinishColumns finish{partials.data(), sums.data(), static_cast<int>(strips), static_cast<int>(3 * of.C),
                               accumulate};
    finish_columns({&finish, 1}, nullptr);
    return Results{together.doubles(), sums.doubles()};
  });
}

TYPED_TEST(JoinKernel, CopiesAndSumsAsFloat64Does) {
  for (const int64_t C : {1, 7, 8, 33, 264, 768}) {
    for (const int64_t N : {0, 1, 5, 64, 301}) {
      for (const size_t shift : {0, 1}) {  // also where rows begin anywhere
        if (shift > 0 && N != 5) continue;
        SCOPED_TRACE(testing::Message() << N << " x " << C << ", shifted by " << shift);
        const Parts<TypeParam> parts(N, C, shift);
        for (const bool accumulate : {false, true}) {
          const Results found = joined(parts, accumulate);
          EXPECT_EQ(found[0], parts.together());
          const auto sums = column_sums(parts.together(), static_cast<size_t>(3 * C), accumulate);
          EXPECT_LT(relative_error(found[1], sums), 1e-6);
        }
      }
    }
  }
}

TYPED_TEST(JoinKernel, ANumberThatIsNoneStaysInItsColumn) {
  Parts<TypeParam> parts(20, 40);
  parts.parts[1][5 * 40 + 17] = from_float<TypeParam>(NAN);
  const Results found = joined(parts, false);
  EXPECT_TRUE(std::isnan(found[0][5 * 120 + 40 + 17]));
  EXPECT_TRUE(std::isnan(found[1][40 + 17]));
  EXPECT_EQ(nans(found[0]) + nans(found[1]), 2U);
}

}  // namespace kernels_join_test
