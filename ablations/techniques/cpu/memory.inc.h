// What all the loops share, vectors or not: memory at cache lines, bfloat16, and shares of work. For files that are
// compiled for one instruction set: everything here is the including file's alone (kernels.inc.h says why).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace model::cpu {
namespace {

// `size` numbers at the beginning of a cache line. Freed at the end of the scope.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t size)
      : data_(static_cast<T*>(std::aligned_alloc(64, (static_cast<size_t>(size) * sizeof(T) + 63) / 64 * 64))) {
    if (data_ == nullptr) std::abort();
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;  // frees once
  Buffer& operator=(const Buffer&) = delete;
  T* data() { return data_; }

 private:
  T* data_;
};
using Row = Buffer<float>;

[[maybe_unused]] int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

// c10::BFloat16's arithmetic, in functions that are this file's alone.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  // To the nearest, of two as near to the even one; a NaN stays one.
  explicit BFloat16(float value) {
    const auto from = __builtin_bit_cast(uint32_t, value);
    const uint32_t rounded = (from + 0x7FFF + ((from >> 16) & 1)) >> 16;
    bits = static_cast<uint16_t>(value == value ? rounded : 0x7FC0);
  }
  explicit operator float() const { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
};

// Where share `part` of `size` begins, in whole units.
[[maybe_unused]] int64_t share(int64_t size, int64_t unit, int64_t part, int64_t parts) {
  const int64_t units = (size + unit - 1) / unit;
  return least(size, units * part / parts * unit);
}

// Rows and columns of a result, from `..._begin` to before `..._end`.
struct Block {
  int64_t row_begin, row_end, column_begin, column_end;
  [[nodiscard]] bool is_empty() const { return row_begin == row_end || column_begin == column_end; }
};

// The block of a product M x N that is share `part`, in whole tiles of MR x NR.
[[maybe_unused]] Block block_of(int64_t M, int64_t N, int64_t MR, int64_t NR, int64_t part, int64_t parts) {
  if (N >= M) return {0, M, share(N, NR, part, parts), share(N, NR, part + 1, parts)};
  return {share(M, MR, part, parts), share(M, MR, part + 1, parts), 0, N};
}

}  // namespace
}  // namespace model::cpu
