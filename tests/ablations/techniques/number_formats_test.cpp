// The table of number types against the types that PyTorch has.
#include "ablations/techniques/number_formats.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace number_formats_test {

using namespace ablations;

const NumberFormat& format(const std::string& name) {
  for (const NumberFormat& one : number_formats()) {
    if (one.name == name) return one;
  }
  throw std::runtime_error("no number type " + name);
}

template <typename T>
void expect_is(const std::string& name) {
  const NumberFormat& table = format(name);
  using Limits = std::numeric_limits<T>;
  EXPECT_EQ(table.bytes, sizeof(T)) << name;
  EXPECT_EQ(table.largest(), static_cast<double>(static_cast<float>(Limits::max()))) << name;
  EXPECT_EQ(table.smallest_normal(), static_cast<double>(static_cast<float>(Limits::min()))) << name;
  EXPECT_EQ(table.smallest(), static_cast<double>(static_cast<float>(Limits::denorm_min()))) << name;
  EXPECT_EQ(table.epsilon(), static_cast<double>(static_cast<float>(Limits::epsilon()))) << name;
  // Normal and subnormal numbers, halves between two of them, and what is too large.
  for (const float value :
       {1.0F / 3, 0.1F, 1e-5F, 1e-8F, 3e-8F, -0.7F, 1.00390625F, 1.01171875F, 300.0F, 65519.0F, 65520.0F, 1e6F}) {
    const auto expected = static_cast<double>(static_cast<float>(static_cast<T>(value)));
    const double rounded = table.rounded(value);
    EXPECT_TRUE(rounded == expected || (std::isnan(rounded) && std::isnan(expected)))
        << name << ": " << value << " becomes " << rounded << ", not " << expected;
  }
}

TEST(NumberFormats, AreThoseOfPyTorch) {
  expect_is<float>("float32");
  expect_is<c10::BFloat16>("bfloat16");
  expect_is<c10::Half>("float16");
  expect_is<c10::Float8_e4m3fn>("fp8 e4m3");
  expect_is<c10::Float8_e5m2>("fp8 e5m2");
}

TEST(NumberFormats, Tf32HasTheRangeOfFloat32AndThePrecisionOfFloat16) {
  const NumberFormat &tf32 = format("TF32"), &float32 = format("float32"), &float16 = format("float16");
  EXPECT_EQ(tf32.smallest_normal(), float32.smallest_normal());
  EXPECT_EQ(tf32.epsilon(), float16.epsilon());
  EXPECT_EQ(1 + tf32.exponent_bits + tf32.mantissa_bits, 19);
}

// Figures that texts and claims state.
TEST(NumberFormats, GiveTheFiguresOfTheTexts) {
  EXPECT_NEAR(format("TF32").rounded(1.0 / 3), 0.33325195, 6e-9);
  EXPECT_NEAR(format("bfloat16").rounded(1.0 / 3), 0.33398438, 6e-9);
  EXPECT_NEAR(format("float16").rounded(1e-5), 1.0014e-5, 5e-10);
  EXPECT_EQ(format("float16").rounded(1e-8), 0);
  EXPECT_NEAR(format("float16").rounded(1e-8 * 65536), 6.6e-4, 5e-6);
  EXPECT_EQ(format("float16").rounded(2.98e-8), 0);
  EXPECT_GT(format("float16").rounded(2.99e-8), 0);
  EXPECT_EQ(format("float16").largest(), 65504);
  EXPECT_EQ(format("bfloat16").rounded(1 + 1.0 / 512), 1);
}

}  // namespace number_formats_test
