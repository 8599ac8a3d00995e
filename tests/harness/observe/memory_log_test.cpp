// The memory log against tensors of known size.
#include "harness/observe/memory_log.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace memory_log_test {

TEST(MemoryLog, SeesWhatLives) {
  const at::Tensor older = at::zeros({1000});
  harness::MemoryLog log(c10::kCPU);
  EXPECT_EQ(log.live_bytes(), 0);
  {
    const at::Tensor kept = at::zeros({1000});
    EXPECT_EQ(log.live_bytes(), 4000);
    { const at::Tensor passing = at::zeros({2000}); }
    EXPECT_EQ(log.live_bytes(), 4000);
  }
  EXPECT_EQ(log.live_bytes(), 0);
}

TEST(MemoryLog, SeesWhatBackwardAllocates) {
  const at::Tensor x = at::ones({5000}).requires_grad_(true);
  const harness::MemoryLog log(c10::kCPU);
  (x * 3).sum().backward();
  EXPECT_EQ(log.live_bytes(), 20000);  // the gradient stays
}

TEST(MemoryLog, CountsOneDevice) {
  const harness::MemoryLog log(c10::kCUDA);
  const at::Tensor on_cpu = at::zeros({1000});
  EXPECT_EQ(log.live_bytes(), 0);
}

TEST(MemoryLog, EndsWithItself) {
  { const harness::MemoryLog log(c10::kCPU); }
  EXPECT_FALSE(c10::memoryProfilingEnabled());
}

}  // namespace memory_log_test
