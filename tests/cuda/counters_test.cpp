// Counters against work whose traffic is known: a copy, a matrix product, and the same kernels launched one by one and
// as a graph. Skipped where the driver does not permit counters, with what it says.
#include "harness/gpu/gpu_counters.h"
#include "harness/process/unfit.h"
#include "tests/cuda/device.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace cuda_counters_test {

using namespace device_tests;
using Values = std::map<std::string, double>;

constexpr const char* dram_read = "dram__bytes_read.sum";
constexpr const char* dram_write = "dram__bytes_write.sum";
constexpr const char* gpu_time = "gpu__time_duration.sum";
constexpr const char* sm_active = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed";
constexpr const char* l2 = "lts__t_bytes.sum";
constexpr const char* tensor_instructions = "sm__inst_executed_pipe_tensor.sum";
constexpr const char* tensor_active = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed";
constexpr int64_t block = int64_t{1} << 30;  // bytes; many times what any L2 holds

// Bytes beside which what an L2 holds is nothing.
int64_t large() { return std::min(int64_t{8} << 30, harness::this_machine().gpu->memory_bytes / 4); }

class Counting : public testing::Test {
 protected:
  void SetUp() override {
    if (rehearsal()) GTEST_SKIP() << "a CPU has no such counters";
    static bool had = false;  // permitted to an earlier test, so a refusal is a fault
    try {
      counters_ = std::make_unique<harness::Counters>(
          std::vector<std::string>{dram_read, dram_write, l2, gpu_time, sm_active, tensor_active, tensor_instructions});
      const at::Tensor some = bytes(1 << 20);
      (void)counters_->measure([&] { (void)some.clone(); });  // that, too, may be refused
      had = true;
    } catch (const harness::Unfit& error) {
      if (had) FAIL() << error.what();
      GTEST_SKIP() << error.what();
    }
  }

  Values count(const std::function<void()>& work) {
    work();  // loads modules, makes plans and workspaces
    Values values;
    for (const auto& [metric, value, unit] : counters_->measure(work)) values[metric] = value;
    return values;
  }

  static at::Tensor bytes(int64_t size) { return at::ones({size}, at::TensorOptions(at_device()).dtype(at::kByte)); }

  std::unique_ptr<harness::Counters> counters_;
};

void expect_share(double value, double expected, double tolerance) {
  EXPECT_NEAR(value / expected, 1.0, tolerance) << value << " for " << expected;
}

TEST_F(Counting, ACopyReadsAndWritesItsBytes) {
  EXPECT_EQ(counters_->passes(), 1);
  const at::Tensor small_from = bytes(block), small_to = bytes(block);
  const Values small = count([&] { small_to.copy_(small_from); });
  // The L2 may hold a part of it: of the source from before, of the target until later.
  expect_share(small.at(dram_read) + small.at(dram_write), 2.0 * block, 0.1);
  EXPECT_GT(small.at(gpu_time), 0);
  const at::Tensor from = bytes(large()), to = bytes(large());
  const Values seen = count([&] { to.copy_(from); });
  expect_share(seen.at(dram_read), static_cast<double>(large()), 0.02);
  expect_share(seen.at(dram_write), static_cast<double>(large()), 0.02);
}

TEST_F(Counting, WhatAnotherThreadLaunchesCounts) {
  // As autograd's thread does with the backward pass.
  const at::Tensor from = bytes(large()), to = bytes(large());
  const Values seen = count([&] { std::thread([&] { to.copy_(from); }).join(); });
  expect_share(seen.at(dram_read), static_cast<double>(large()), 0.02);
  expect_share(seen.at(dram_write), static_cast<double>(large()), 0.02);
}

TEST_F(Counting, OnlyMatrixProductsUseTheTensorPipes) {
  const auto options = at::TensorOptions(at_device()).dtype(at::kBFloat16);
  const at::Tensor a = at::randn({4096, 4096}, options), b = at::randn({4096, 4096}, options);
  at::Tensor product = at::empty_like(a);
  const Values matmul = count([&] {
    for (int i = 0; i < 10; ++i) at::mm_out(product, a, b);
  });
  EXPECT_GT(matmul.at(tensor_active), 20);
  EXPECT_GT(matmul.at(sm_active), 20);
  const Values elementwise = count([&] { product.add_(a); });
  EXPECT_EQ(elementwise.at(tensor_instructions), 0);
  EXPECT_EQ(elementwise.at(tensor_active), 0);
}

TEST_F(Counting, AGraphLaunchIsCountedAsItsKernels) {
  const at::Tensor from = bytes(block);
  at::Tensor to = bytes(block);
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  const auto work = [&] {
    for (int i = 0; i < 3; ++i) {  // by the SMs, eager and replayed, which a copy need not be
      at::bitwise_not_out(to, from);
      to.add_(1);
    }
  };
  const Values eager = count(work);
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  work();
  graph.capture_end();
  const Values replayed =
      count([&] { C10_CUDA_CHECK(cudaGraphLaunch(graph.raw_cuda_graph_exec(), c10::cuda::getCurrentCUDAStream())); });
  for (const char* metric : {dram_read, dram_write, l2}) {
    SCOPED_TRACE(metric);
    expect_share(replayed.at(metric), eager.at(metric), 0.05);
  }
}

TEST_F(Counting, FurtherPassesRepeatTheWork) {
  std::vector<std::string> metrics = {dram_read, dram_write};
  metrics.emplace_back("sm__inst_executed.sum");
  metrics.emplace_back("sm__throughput.avg.pct_of_peak_sustained_elapsed");
  counters_.reset();  // one at a time
  harness::Counters counters(metrics);
  EXPECT_GT(counters.passes(), 1);
  const at::Tensor from = bytes(large());
  at::Tensor to = bytes(large());
  int64_t executions = 0;
  for (const auto& [metric, value, unit] : counters.measure([&] {
         ++executions;
         at::bitwise_not_out(to, from);  // by the SMs, which a copy may pass by
       })) {
    if (metric == dram_read) {
      expect_share(value, static_cast<double>(large()), 0.02);
    }
    if (metric == "sm__inst_executed.sum") {
      EXPECT_GT(value, 0);
    }
  }
  EXPECT_EQ(executions, counters.passes());
}

TEST_F(Counting, AFailureInTheWorkLeavesTheCountersFree) {
  EXPECT_THROW(counters_->measure([] { throw std::runtime_error("planted"); }), std::runtime_error);
  const at::Tensor from = bytes(block), to = bytes(block);
  const Values seen = count([&] { to.copy_(from); });
  expect_share(seen.at(dram_read) + seen.at(dram_write), 2.0 * block, 0.1);
}

}  // namespace cuda_counters_test
