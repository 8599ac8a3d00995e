// The number types that techniques compute in, from their bits.
#pragma once

#include <string>
#include <vector>

namespace ablations {

struct NumberFormat {
  std::string name;
  int exponent_bits, mantissa_bits;  // and one of sign
  int bytes;                         // in memory
  bool has_infinity = true;          // else its largest exponent belongs to numbers, all but one NaN
  std::string where;                 // it is met here

  [[nodiscard]] double largest() const;
  [[nodiscard]] double smallest_normal() const;  // with all bits of the mantissa
  [[nodiscard]] double smallest() const;         // above 0
  [[nodiscard]] double epsilon() const;          // from 1 to the next number
  // To the nearest, of two as near the even one. Beyond the largest: infinity, or NaN where there is none.
  [[nodiscard]] double rounded(double value) const;
};

const std::vector<NumberFormat>& number_formats();

}  // namespace ablations
