// The CUDA that the kernels are written in, on the CPU: for tests without a GPU. What g++ includes instead of
// cuda_runtime.h.
//
// The threads of a block are fibers of one thread of the CPU. Each runs until it waits: at __syncthreads() for the
// block, at a shuffle for its warp. Blocks run one after the other. A kernel that is right gives the same result in
// whatever order the lanes run, so tests run each in two: ascending and descending. What is found beside wrong results,
// and thrown as a Fault by the launch:
// - a barrier or a shuffle that not all threads reach, or that they reach at different lines;
// - shared memory that one thread writes and another reads or writes with no barrier between, that is read before
//   anything was written, or that ends before the index;
// - a copy to shared memory that nobody waits for: until then the memory holds NaN;
// - a 16-byte access to an address that is no multiple of 16.
// Not seen: races in global memory that neither order shows, what the memory model allows beyond that, blocks that run
// at the same time, and speed. There is one such device, for one thread of the CPU.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>

// Variables, so that kernels may write threadIdx.x. The device sets them before it runs a thread.
inline uint3 threadIdx, blockIdx;  // NOLINT(readability-identifier-naming)
inline dim3 blockDim, gridDim;     // NOLINT(readability-identifier-naming)

#define __launch_bounds__(...)
#undef __shared__
#define __shared__ static  // blocks run one after the other

namespace cpu_device {

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Of threads in their block, and of blocks in their grid.
enum class Order { ascending, descending };

// The order of all launches while it lives.
class OrderScope {
 public:
  explicit OrderScope(Order order);
  ~OrderScope();
  OrderScope(const OrderScope&) = delete;  // puts back what it found
  OrderScope& operator=(const OrderScope&) = delete;

 private:
  Order before_;
};

// Few, so that a block has more than one turn of work in a small test.
constexpr int multiprocessors = 3;

// Of a block, static and dynamic; as an H100 has.
constexpr int most_shared_bytes = 227 << 10;

// One launch; `threads` is a multiple of 32. `shared_bytes`: the dynamic ones.
void run(const char* kernel, dim3 grid, int threads, int shared_bytes, const std::function<void()>& body);

// Ends the launch with a Fault. For what runs inside a kernel.
[[noreturn]] void fault(const std::string& what);

void barrier(std::source_location site);
// Hands the other lane's bits over.
uint32_t exchange(uint32_t bits, int lane_mask, std::source_location site);

inline void expect_aligned(const void* pointer) {
  if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) fault("a 16-byte access to an address that is no multiple of 16");
}

// device.h's, for this device.
inline int4 load_16_bytes(const int4* from) {
  expect_aligned(from);
  return *from;
}
inline void store_16_bytes(int4* to, int4 bits) {
  expect_aligned(to);
  *to = bits;
}
inline float approximate_exp2(float x) { return std::exp2(x); }

// Who touched two bytes of shared memory since the last barrier.
class Watch {
 public:
  void on_read(int element);
  void on_write(int element);

 private:
  uint64_t written_ = 0, read_ = 0;  // when last: counts barriers, of all launches
  int writer_ = 0, reader_ = 0;
  bool several_readers_ = false;
};

// A value in shared memory: element i of an array.
template <class T>
class Element {
 public:
  Element(void* bytes, Watch* watches, int i) : bytes_(bytes), watches_(watches), i_(i) {}
  operator T() const {  // NOLINT(google-explicit-constructor): as device code reads a T&
    for (size_t w = 0; w < sizeof(T) / 2; ++w) watches_[w].on_read(i_);
    T value;
    std::memcpy(&value, bytes_, sizeof value);
    return value;
  }
  Element& operator=(T value) {
    for (size_t w = 0; w < sizeof(T) / 2; ++w) watches_[w].on_write(i_);
    std::memcpy(bytes_, &value, sizeof value);
    return *this;
  }

 private:
  void* const bytes_;  // const: one element is not assigned to another
  Watch* const watches_;
  const int i_;
};

template <class T, int N>
class Shared {
 public:
  Element<T> operator[](int i) {
    if (i < 0 || i >= N)
      fault("element " + std::to_string(i) + " of a shared array of " + std::to_string(N) + " elements");
    return {&values_[static_cast<size_t>(i)], &watches_[static_cast<size_t>(i) * sizeof(T) / 2], i};
  }

 private:
  std::array<T, N> values_{};
  std::array<Watch, N * sizeof(T) / 2> watches_{};
};

// Bytes of the launch's dynamic shared memory, and who watches them.
struct DynamicBytes {
  unsigned char* bytes;
  Watch* watches;
};
DynamicBytes dynamic_bytes(int begin, size_t count);

// Begins to copy 16 bytes.
void begin_copy(Element<int4> to, const void* from);
// Ends the copies that this thread has begun.
void wait_for_copies();

template <class T>
class DynamicShared {
 public:
  explicit DynamicShared(int begin) : begin_(begin) {}
  Element<T> operator[](int i) const { return at<T>(i); }
  Element<int4> vector(int i) const { return at<int4>(i); }
  void copy_vector(int i, const T* from) const {
    expect_aligned(from);
    begin_copy(vector(i), from);
  }

 private:
  template <class V>
  Element<V> at(int i) const {
    const auto [bytes, watches] = dynamic_bytes(begin_ + i * static_cast<int>(sizeof(T)), sizeof(V));
    return {bytes, watches, i};
  }

  int begin_;
};

}  // namespace cpu_device

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names

inline void __syncthreads(std::source_location site = std::source_location::current()) { cpu_device::barrier(site); }

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, std::source_location site = std::source_location::current()) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  if (mask != 0xffffffffU) cpu_device::fault("a shuffle of less than a warp");
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = cpu_device::exchange(bits, lane_mask, site);
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

inline float __fdividef(float a, float b) { return a / b; }
// NOLINTEND(bugprone-reserved-identifier)
