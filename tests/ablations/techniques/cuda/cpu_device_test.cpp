// The device on the CPU finds the faults that it is for, in kernels that have one each.
#include "tests/ablations/techniques/cuda/kernel_test.h"

#include <gtest/gtest-spi.h>

#include <functional>
#include <string>

namespace kernels_cpu_device_test {

using namespace kernels;
using namespace kernel_tests;

template <class Kernel, class... Arguments>
std::string fault_of(cpu_device::Order order, Block block, Kernel kernel, Arguments... arguments) {
  const cpu_device::OrderScope scope(order);
  try {
    launch("faulty", kernel, grid_of(2), block, nullptr, arguments...);
  } catch (const cpu_device::Fault& fault) {
    return fault.what();
  }
  return "";
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// A block's values, each moved to its neighbour's place.
template <bool Barrier, bool SecondBarrier>
__global__ void rotate(int* values) {
  __shared__ Shared<int, 64> shared;
  const int thread = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x);
  for (int turn = 0; turn < 2; ++turn) {
    shared[thread] = values[thread];
    if constexpr (Barrier) __syncthreads();
    values[thread] = shared[(thread + 1) % n];
    if constexpr (SecondBarrier) __syncthreads();
  }
}

TEST(CpuDevice, RunsAKernelThatIsRight) {
  const auto result = in_both_orders([] {
    std::vector<int> values(64);
    for (size_t i = 0; i < 64; ++i) values[i] = static_cast<int>(i);
    launch("rotate", rotate<true, true>, grid_of(3), 64, nullptr, values.data());
    return Results{{values.begin(), values.end()}};
  });
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(result[0][i], static_cast<double>((i + 6) % 64));
}

__global__ void some_leave_before_the_barrier(int* values) {
  if (threadIdx.x == 40) return;
  __syncthreads();
  values[threadIdx.x] = 1;
}

__global__ void two_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void half_a_warp_shuffles(float* values) {
  if (lane() < 16) values[lane()] = __shfl_xor_sync(0xffffffffU, values[lane()], 1);
}

__global__ void reads_what_nobody_wrote(float* values) {
  __shared__ Shared<float, 32> shared;
  if (blockIdx.x == 0 && threadIdx.x < 31) shared[lane()] = 1;
  __syncthreads();
  values[threadIdx.x] = shared[lane()];
}

__global__ void past_the_end() {
  __shared__ Shared<float, 31> shared;
  shared[lane()] = 1;
}

__global__ void loads_from(const float* values) { static_cast<void>(load<4>(values)); }

// A block's vectors, each moved to its neighbour's place through dynamic shared memory from byte `begin` on.
template <bool Waits, bool Barrier>
__global__ void rotate_vectors(int* values, int begin) {
  const DynamicShared<int> shared(begin);
  const int thread = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x);
  begin_copy<4>(shared, 4 * thread, values + 4 * thread);
  if constexpr (Waits) wait_for_copies();
  if constexpr (Barrier) __syncthreads();
  Vector<int, 4> moved = load<4>(shared, 4 * ((thread + 1) % n));
  moved.values[3] = shared[4 * ((thread + 1) % n)];
  store(values + 4 * thread, moved);
}

TEST(CpuDevice, DynamicSharedMemoryHasVectorsAndWhatIsInThem) {
  const auto result = in_both_orders([] {
    Buffer<int> values(4 * 64);
    for (size_t i = 0; i < 4 * 64; ++i) values[i] = static_cast<int>(i);
    launch("rotate", rotate_vectors<true, true>, grid_of(1), {64, 16 + 64 * 16}, nullptr, values.data(), 16);
    return Results{{values.data(), values.data() + 4 * 64}};
  });
  for (size_t i = 0; i < 4 * 64; ++i) EXPECT_EQ(result[0][i], static_cast<double>((i % 4 == 3 ? i + 1 : i + 4) % 256));
}

TEST(CpuDevice, FindsFaultsInEitherOrder) {
  int ints[64] = {};
  float floats[32] = {};
  const Buffer<float> aligned = filled<float>(8, 1);
  Buffer<int> vectors = filled<int>(4 * 64, 0);
  const auto of = [](Block block, auto kernel, auto... arguments) {
    return [=](cpu_device::Order order) { return fault_of(order, block, kernel, arguments...); };
  };
  const auto dynamic = [&](int64_t bytes, auto kernel, int begin) {
    return of({64, bytes}, kernel, vectors.data(), begin);
  };
  struct Case {
    std::function<std::string(cpu_device::Order)> fault;
    const char* says;
    const char* also = "faulty, block (";
  };
  for (const auto& [fault, says, also] :
       std::vector<Case>{{of(64, rotate<false, true>, ints), "shared element"},
                         {of(64, rotate<true, false>, ints), "with no barrier between"},
                         {of(64, some_leave_before_the_barrier, ints),
                          "waits for the block at the barrier in cpu_device_test.cpp:", "but thread 40 has ended"},
                         {of(64, two_barriers), "but thread 32 waits for the block"},
                         {of(32, half_a_warp_shuffles, floats), "waits for its warp at the shuffle"},
                         {of(32, reads_what_nobody_wrote, floats), "nobody has written"},
                         {of(32, past_the_end), "element 31 of a shared array of 31 elements"},
                         {of(32, loads_from, aligned.data() + 1), "no multiple of 16"},
                         {dynamic(64 * 16, rotate_vectors<true, false>, 0), "shared element"},
                         {dynamic(64 * 16, rotate_vectors<false, true>, 0), "ends before its copies"},
                         {dynamic(64 * 16 - 4, rotate_vectors<true, true>, 0), "byte 1008 of 1020 bytes"},
                         {dynamic(64 * 16 + 4, rotate_vectors<true, true>, 4), "no multiple of 16"},
                         {dynamic(228 << 10, rotate_vectors<true, true>, 0), "a block of 233472 bytes", "faulty: "}}) {
    for (const auto order : {cpu_device::Order::ascending, cpu_device::Order::descending}) {
      EXPECT_HAS(fault(order), says);
      EXPECT_HAS(fault(order), also);
      EXPECT_EQ(of(32, loads_from, aligned.data())(order), "");
      EXPECT_EQ(dynamic(64 * 16, rotate_vectors<true, true>, 0)(order), "");
    }
  }
  EXPECT_EQ(ints[0], 0) << "a thread went on after a barrier that not all reach";
}

TEST(CpuDevice, ItRunsOnAfterAFault) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_HAS(fault_of(cpu_device::Order::ascending, 64, two_barriers), "barrier");
    int values[64] = {1};
    launch("rotate", rotate<true, true>, grid_of(1), 64, nullptr, values);
    EXPECT_EQ(values[62], 1);
  }
}

TEST(CpuDevice, AnImpossibleGridOrBlockIsRefused) {
  EXPECT_HAS(fault_of(cpu_device::Order::ascending, 48, two_barriers), "a block of 48 threads");
  EXPECT_THROW(launch("none", two_barriers, grid_of(0), 32, nullptr), cpu_device::Fault);
  EXPECT_THROW(launch("high", two_barriers, grid_of(1, 65536), 32, nullptr), cpu_device::Fault);
}

TEST(CpuDevice, ABufferSeesWhatIsWrittenBesideIt) {
  EXPECT_FALSE(testing::Test::HasFailure());
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(&failures);
    Buffer<float> values(5, /*shift=*/1);
    values.data()[5] = 1;
  }
  EXPECT_EQ(failures.size(), 1);
}

}  // namespace kernels_cpu_device_test
