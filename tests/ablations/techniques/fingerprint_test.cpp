// In which number type a product was made, told by its error.
#include "ablations/techniques/fingerprint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace fingerprint_test {

using namespace ablations;

TEST(Precision, IsReadOffTheError) {
  EXPECT_EQ(precision_of(4e-7), "float32");
  EXPECT_EQ(precision_of(3e-4), "tf32 or float16");
  EXPECT_EQ(precision_of(2.9e-3), "bfloat16");
  EXPECT_EQ(precision_of(0.5), "wrong");
  EXPECT_EQ(precision_of(std::nan("")), "wrong");
  // Against products of factors that were really rounded, at both sizes at which it is asked.
  at::manual_seed(5);
  for (const int64_t terms : {512, 2048}) {
    const at::Tensor a = at::randn({128, terms}), b = at::randn({terms, 512});
    const at::Tensor exact = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
    const auto error = [&](const at::Tensor& product) {
      return ((product.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
    };
    const auto product = [&](const auto& reduced) {
      return at::matmul(reduced(a).to(at::kDouble), reduced(b).to(at::kDouble));
    };
    const auto rounded = [&](at::ScalarType type) { return product([&](const at::Tensor& x) { return x.to(type); }); };
    // A tensor core may cut float32 off to the upper bits of its mantissa instead of rounding it.
    const auto cut_off = [&](int bits) {
      return product([&](const at::Tensor& x) {
        return x.view(at::kInt).bitwise_and(~((1 << (23 - bits)) - 1)).view(at::kFloat);
      });
    };
    at::Tensor chain = at::zeros({128, 512});  // one sum after the other, in float32
    for (int64_t k = 0; k < terms; ++k) chain.add_(at::outer(a.select(1, k), b.select(0, k)));
    struct Case {
      at::Tensor product;
      const char* precision;
      double error;
    };
    const Case cases[] = {{chain, "float32", terms == 512 ? 4.1e-7 : 8.1e-7},
                          {rounded(at::kHalf), "tf32 or float16", 2.9e-4},
                          {rounded(at::kHalf).to(at::kHalf), "tf32 or float16", 3.6e-4},
                          {cut_off(10), "tf32 or float16", 7.7e-4},
                          {rounded(at::kBFloat16), "bfloat16", 2.4e-3},
                          {rounded(at::kBFloat16).to(at::kBFloat16), "bfloat16", 2.9e-3},
                          {cut_off(7), "bfloat16", 6.2e-3},
                          {rounded(at::kFloat8_e4m3fn), "wrong", 3.7e-2}};
    for (const Case& each : cases) {
      const double found = error(each.product);
      EXPECT_NEAR(found, each.error, 0.05 * each.error) << terms;
      for (const double factor : {1 / 1.7, 1.0, 1.7}) {  // so much room
        EXPECT_EQ(precision_of(found * factor), each.precision) << terms << " " << found * factor;
      }
    }
  }
}

}  // namespace fingerprint_test
