// Multiplication by a number of the device's, against float64.
#include "ablations/techniques/cross_entropy/scale.h"

#include "tests/ablations/techniques/cuda/kernel_test.h"

namespace kernels_scale_test {

using namespace kernels;
using namespace kernel_tests;

template <class T>
class Scale : public testing::Test {};
TYPED_TEST_SUITE(Scale, Types);

template <class T>
std::vector<double> scaled(const Buffer<T>& x, double factor) {
  const auto by = filled<float>(1, factor);
  return in_both_orders([&] {
    Buffer<T> result = x;
    scale<T>(result.data(), static_cast<int64_t>(x.size()), by.data(), nullptr);
    return Results{result.doubles()};
  })[0];
}

TYPED_TEST(Scale, IsThatOfFloat64) {
  const double third = static_cast<float>(1.0 / 3);  // which bf16 does not hold
  for (const size_t n : {1, 2, 7, 8, 9, 255, 1000, 2048, 4099}) {
    for (const size_t shift : {0, 1}) {
      SCOPED_TRACE(testing::Message() << n << " elements, shifted by " << shift);
      const auto x = random<TypeParam>(n, 1, 2, 0, shift);
      std::vector<double> expected = x.doubles();
      for (double& value : expected) value *= third;
      EXPECT_LT(relative_error(scaled(x, third), expected), rounding<TypeParam>);
    }
  }
}

TYPED_TEST(Scale, ByOneChangesNothing) {
  auto x = random<TypeParam>(300, 1);
  x[7] = from_float<TypeParam>(INFINITY);
  EXPECT_EQ(scaled(x, 1), x.doubles());
}

TYPED_TEST(Scale, ByWhatIsNoNumberLeavesNone) { EXPECT_EQ(nans(scaled(random<TypeParam>(77, 1), NAN)), 77U); }

}  // namespace kernels_scale_test
