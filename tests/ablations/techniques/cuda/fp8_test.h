// fp8 numbers in tests of kernels.
#pragma once

#include "tests/ablations/techniques/cuda/kernel_test.h"

#include <cuda_fp8.h>

namespace kernel_tests {

// Number: __nv_fp8_e4m3 or __nv_fp8_e5m2.
template <class Number>
std::vector<double> values_of(const Buffer<uint8_t>& bytes) {
  std::vector<double> values;
  for (size_t i = 0; i < bytes.size(); ++i) {
    Number value;
    value.__x = bytes[i];
    values.push_back(static_cast<float>(value));
  }
  return values;
}

inline std::vector<double> e4m3_values(const Buffer<uint8_t>& bytes) { return values_of<__nv_fp8_e4m3>(bytes); }
inline std::vector<double> e5m2_values(const Buffer<uint8_t>& bytes) { return values_of<__nv_fp8_e5m2>(bytes); }

// Copies of rows by their own greatest number; each number is off by half a unit of e4m3 at most.
inline void expect_copies(const std::vector<double>& values, const std::vector<double>& scales,
                          const std::vector<double>& of, size_t C) {
  for (size_t row = 0; row < scales.size(); ++row) {
    double greatest = 0;
    for (size_t c = 0; c < C; ++c) greatest = std::max(greatest, std::abs(of[row * C + c]));
    ASSERT_NEAR(scales[row], greatest > 0 ? greatest / 448 : 1, 1e-6 * greatest) << "row " << row;
    for (size_t c = 0; c < C; ++c) {
      const double x = of[row * C + c];
      ASSERT_NEAR(values[row * C + c] * scales[row], x, std::max(std::abs(x) / 16, greatest / 448 / 1024) * 1.001)
          << row << ", " << c;
    }
  }
}

}  // namespace kernel_tests
