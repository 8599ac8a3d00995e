// The monitor on a real GPU: what NVML says while a kernel runs is possible and its parts agree.
#include "results/monitor.h"

#include "harness/machine/gpu_monitor.h"
#include "harness/machine/machine.h"
#include "tests/cuda/device.h"

#include <ATen/ATen.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>

namespace cuda_monitor_test {

using namespace device_tests;

TEST(Monitor, SeesTheGpuAtWork) {
  if (rehearsal()) GTEST_SKIP() << "a CPU has no NVML";
  harness::Monitor monitor(harness::current_bus_id());
  const at::Tensor a = at::randn({4096, 4096}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
  (void)at::mm(a, a);  // which loads cuBLAS, and the GPU waits
  cudaDeviceSynchronize();
  monitor.begin();
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::seconds(2)) {
    for (int i = 0; i < 20; ++i) (void)at::mm(a, a);
    cudaDeviceSynchronize();
  }
  const harness::GpuWatch watch = monitor.end();
  if (!watch.unavailable.empty()) GTEST_SKIP() << watch.unavailable;
  const results::MonitorSummary seen = results::summary_of(watch, 1000);
  SCOPED_TRACE(results::json_of(seen).dump());
  EXPECT_GE(seen.samples, 3);
  if (seen.sm_clock_mhz) {
    EXPECT_GT(seen.sm_clock_mhz->median, 200);
  }
  if (seen.power_w && seen.energy_j) {
    // Energy is power times two seconds, as far as a counter with steps and a window that begins idle can agree.
    EXPECT_NEAR(*seen.energy_j / 2, seen.power_w->median, 0.35 * seen.power_w->median);
  }
  if (seen.other_processes) {
    EXPECT_GE(*seen.other_processes, 0);
  }
}

}  // namespace cuda_monitor_test
