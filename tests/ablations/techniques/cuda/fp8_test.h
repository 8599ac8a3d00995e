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

}  // namespace kernel_tests
