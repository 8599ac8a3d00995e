// fp8 numbers in tests of kernels.
#pragma once

#include "tests/ablations/techniques/cuda/kernel_test.h"

#include <cuda_fp8.h>

namespace kernel_tests {

inline double to_double(uint8_t x) { return x; }

inline std::vector<double> e4m3_values(const Buffer<uint8_t>& bytes) {
  std::vector<double> values;
  for (size_t i = 0; i < bytes.size(); ++i) {
    __nv_fp8_e4m3 value;
    value.__x = bytes[i];
    values.push_back(static_cast<float>(value));
  }
  return values;
}

inline std::vector<double> e5m2_values(const Buffer<uint8_t>& bytes) {
  std::vector<double> values;
  for (size_t i = 0; i < bytes.size(); ++i) {
    __nv_fp8_e5m2 value;
    value.__x = bytes[i];
    values.push_back(static_cast<float>(value));
  }
  return values;
}

}  // namespace kernel_tests
