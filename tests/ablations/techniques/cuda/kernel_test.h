// What the tests of kernels share. A kernel runs on the CPU (tests/ablations/techniques/cuda/cpu_device.h), in both
// orders of lanes and blocks, and gives the same bits in both. What it gives is compared with float64 by norm.
#pragma once

#include "ablations/techniques/cuda/device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <random>
#include <vector>

namespace kernel_tests {

using kernels::bf16;

// The most that one rounding to T, 2^-8 for bf16, and what float32 loses before it can come to.
template <class T>
constexpr double rounding = std::is_same_v<T, float> ? 2e-6 : 4e-3;

inline double to_double(float x) { return x; }
inline double to_double(bf16 x) { return __bfloat162float(x); }
inline double to_double(int16_t x) { return x; }

// An array between two margins of bits that are NaN: what is written beside the array is found, and what is read there
// and used makes the result NaN. It begins at a multiple of 16 bytes, and `shift` elements later.
template <class T>
class Buffer {
 public:
  explicit Buffer(size_t size, size_t shift = 0) : size_(size), shift_(shift) {
    bytes_.resize(2 * margin + (size + shift) * sizeof(T) + 16, 0xff);
    begin_ = margin + (16 - reinterpret_cast<uintptr_t>(bytes_.data() + margin) % 16) % 16 + shift * sizeof(T);
  }
  Buffer(const Buffer& other) : Buffer(other.size_, other.shift_) {
    if (size_ > 0) std::memcpy(data(), other.data(), size_ * sizeof(T));
  }
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    const auto written = [](unsigned char byte) { return byte != 0xff; };
    const auto begin = bytes_.begin() + static_cast<ptrdiff_t>(begin_);
    const auto end = begin + static_cast<ptrdiff_t>(size_ * sizeof(T));
    const auto before = std::find_if(bytes_.begin(), begin, written), after = std::find_if(end, bytes_.end(), written);
    EXPECT_TRUE(before == begin) << "written " << begin - before << " bytes before " << size_ << " elements";
    EXPECT_TRUE(after == bytes_.end()) << "written " << after - end << " bytes after " << size_ << " elements";
  }

  T* data() { return reinterpret_cast<T*>(bytes_.data() + begin_); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data() + begin_); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  double at(size_t i) const { return to_double(data()[i]); }

  std::vector<double> doubles() const {
    std::vector<double> values(size_);
    for (size_t i = 0; i < size_; ++i) values[i] = at(i);
    return values;
  }

 private:
  static constexpr size_t margin = 32768;  // some rows
  size_t size_, shift_, begin_ = 0;
  std::vector<unsigned char> bytes_;
};

template <class T>
Buffer<T> filled(size_t size, double value, size_t shift = 0) {
  Buffer<T> buffer(size, shift);
  for (size_t i = 0; i < size; ++i) buffer[i] = kernels::from_float<T>(static_cast<float>(value));
  return buffer;
}

// Normally distributed.
template <class T>
Buffer<T> random(size_t size, unsigned seed, double scale = 1, double mean = 0, size_t shift = 0) {
  Buffer<T> buffer(size, shift);
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, scale);
  for (size_t i = 0; i < size; ++i) buffer[i] = kernels::from_float<T>(static_cast<float>(normal(generator)));
  return buffer;
}

// ||found - expected|| / ||expected||; NaN where one of them is.
inline double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

template <class T>
double relative_error(const Buffer<T>& found, const std::vector<double>& expected) {
  return relative_error(found.doubles(), expected);
}

using Results = std::vector<std::vector<double>>;

// Calls run(), which returns a list of arrays, in each order, and compares the bits. Returns the first's.
template <class Run>
Results in_both_orders(Run run) {
  const auto in = [&](cpu_device::Order order) -> Results {
    const cpu_device::OrderScope scope(order);
    return run();
  };
  const Results up = in(cpu_device::Order::ascending);
  const Results down = in(cpu_device::Order::descending);
  EXPECT_EQ(up.size(), down.size());
  for (size_t i = 0; i < std::min(up.size(), down.size()); ++i) {
    const bool same =
        up[i].size() == down[i].size() && std::memcmp(up[i].data(), down[i].data(), up[i].size() * sizeof(double)) == 0;
    EXPECT_TRUE(same) << "result " << i << " depends on the order of threads";
  }
  return up;
}

// Sums of the columns of rows of C numbers, in float64; accumulate: on top of random<float>(C, 7), or of another seed.
inline std::vector<double> column_sums(const std::vector<double>& values, size_t C, bool accumulate = false,
                                       unsigned seed = 7) {
  std::vector<double> sums = accumulate ? random<float>(C, seed).doubles() : std::vector<double>(C);
  for (size_t i = 0; i < values.size(); ++i) sums[i % C] += values[i];
  return sums;
}

// GELU by tanh, and its derivative.
inline double gelu(double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
inline double gelu_slope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

// How many are NaN.
inline size_t nans(const std::vector<double>& values) {
  size_t count = 0;
  for (const double value : values) count += std::isnan(value) ? 1 : 0;
  return count;
}

using Types = testing::Types<float, bf16>;

}  // namespace kernel_tests
