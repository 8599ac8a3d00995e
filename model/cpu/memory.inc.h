// What all the loops share, vectors or not: memory at cache lines, and shares of work. For files that are compiled for
// one instruction set: everything here is the including file's alone (kernels.inc.h says why).
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

// Where share `part` of `size` begins, in whole units.
[[maybe_unused]] int64_t share(int64_t size, int64_t unit, int64_t part, int64_t parts) {
  const int64_t units = (size + unit - 1) / unit;
  return least(size, units * part / parts * unit);
}

}  // namespace
}  // namespace model::cpu
