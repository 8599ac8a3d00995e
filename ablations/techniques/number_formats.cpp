#include "ablations/techniques/number_formats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ablations {
namespace {

// The exponent of 1 is in the middle of its range; the smallest one belongs to subnormal numbers.
int largest_exponent(const NumberFormat& format) {
  const int middle = (1 << (format.exponent_bits - 1)) - 1;
  return format.has_infinity ? middle : middle + 1;
}

int smallest_exponent(const NumberFormat& format) { return 2 - (1 << (format.exponent_bits - 1)); }

}  // namespace

double NumberFormat::largest() const {
  const double unused = has_infinity ? 0 : epsilon();  // the NaN among the largest numbers
  return std::ldexp(2 - epsilon() - unused, largest_exponent(*this));
}

double NumberFormat::smallest_normal() const { return std::ldexp(1.0, smallest_exponent(*this)); }

double NumberFormat::smallest() const { return std::ldexp(1.0, smallest_exponent(*this) - mantissa_bits); }

double NumberFormat::epsilon() const { return std::ldexp(1.0, -mantissa_bits); }

double NumberFormat::rounded(double value) const {
  if (value == 0 || !std::isfinite(value)) return value;
  const double step = std::ldexp(1.0, std::max(std::ilogb(value), smallest_exponent(*this)) - mantissa_bits);
  const double nearest = std::nearbyint(value / step) * step;
  if (std::abs(nearest) <= largest()) return nearest;
  return has_infinity ? std::copysign(std::numeric_limits<double>::infinity(), value)
                      : std::numeric_limits<double>::quiet_NaN();
}

const std::vector<NumberFormat>& number_formats() {
  static const std::vector<NumberFormat> formats{
      {.name = "float32", .exponent_bits = 8, .mantissa_bits = 23, .bytes = 4, .where = "weights, gradients, moments"},
      {.name = "TF32", .exponent_bits = 8, .mantissa_bits = 10, .bytes = 4, .where = "`tf32`"},
      {.name = "bfloat16", .exponent_bits = 8, .mantissa_bits = 7, .bytes = 2, .where = "`bf16`, `residual16`"},
      {.name = "float16", .exponent_bits = 5, .mantissa_bits = 10, .bytes = 2, .where = "`fp16`, `residual16`"},
      {.name = "fp8 e4m3",
       .exponent_bits = 4,
       .mantissa_bits = 3,
       .bytes = 1,
       .has_infinity = false,
       .where = "`fp8_head`, `fp8`"},
      {.name = "fp8 e5m2", .exponent_bits = 5, .mantissa_bits = 2, .bytes = 1, .where = "`fp8_head`, `fp8`"}};
  return formats;
}

}  // namespace ablations
