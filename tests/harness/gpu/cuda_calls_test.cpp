// What counts as a launch and what as a wait, and a machine without a driver. Real calls: tests/cuda.
#include "harness/gpu/cuda_calls.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace cuda_calls_test {

using harness::CudaCalls;

TEST(CudaCalls, TellsLaunchesFromWaits) {
  const CudaCalls seen{.calls = {{"__cudaLaunchKernel", 20},  // nvcc 13's <<<>>>
                                 {"cudaLaunchKernel", 5},
                                 {"cudaLaunchKernelExC", 2},
                                 {"cuLaunchKernelEx", 3},
                                 {"cudaLaunchHostFunc", 1},
                                 {"cudaGraphLaunch", 1},
                                 {"cudaMemcpyAsync", 7},
                                 {"cudaMemcpy", 1},
                                 {"cudaFree", 2},
                                 {"cuMemFree_v2", 1},
                                 {"cudaFreeAsync", 6},
                                 {"cudaStreamSynchronize", 2},
                                 {"cudaEventSynchronize", 1},
                                 {"cudaEventQuery", 9},
                                 {"cudaStreamWaitEvent", 4}},
                       .unavailable = ""};
  using Calls = std::map<std::string, int64_t>;
  EXPECT_EQ(
      seen.kernel_launches(),
      (Calls{
          {"__cudaLaunchKernel", 20}, {"cuLaunchKernelEx", 3}, {"cudaLaunchKernel", 5}, {"cudaLaunchKernelExC", 2}}));
  EXPECT_EQ(harness::sum(seen.kernel_launches()), 30);
  EXPECT_EQ(seen.graph_launches(), (Calls{{"cudaGraphLaunch", 1}}));
  EXPECT_EQ(seen.host_waits(), (Calls{{"cuMemFree_v2", 1},
                                      {"cudaEventSynchronize", 1},
                                      {"cudaFree", 2},
                                      {"cudaMemcpy", 1},
                                      {"cudaStreamSynchronize", 2}}));
}

TEST(CudaCalls, TheWorkIsDoneWithoutADriver) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess) GTEST_SKIP() << "there is a driver";
  bool done = false;
  const CudaCalls seen = harness::cuda_calls([&] { done = true; });
  EXPECT_TRUE(done);
  EXPECT_TRUE(seen.calls.empty());
  EXPECT_NE(seen.unavailable, "");
}

}  // namespace cuda_calls_test
