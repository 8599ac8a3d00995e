// Counts a piece of work's calls to CUDA by name, from CUPTI's callbacks: kernel launches, graph launches, waits of the
// host and all others. Do not count a timed step: CUPTI slows a process down, and it stays slower afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace harness {

struct CudaCalls {
  // "cudaLaunchKernel": 1412. Calls to the run-time library, and calls to the driver that this library did not make.
  std::map<std::string, int64_t> calls;
  // Why nothing was counted (no driver, another tool holds CUPTI's only place); empty when it was.
  std::string unavailable;

  // Those of `calls` that launch kernels, that launch graphs, and that make the host wait for the device. Waits are
  // synchronizations, and copies and frees that are not asynchronous.
  [[nodiscard]] std::map<std::string, int64_t> kernel_launches() const;
  [[nodiscard]] std::map<std::string, int64_t> graph_launches() const;
  [[nodiscard]] std::map<std::string, int64_t> host_waits() const;
};

int64_t sum(const std::map<std::string, int64_t>& calls);

// Runs `work` and counts the calls of all threads meanwhile. Without CUPTI the work runs uncounted. A process must not
// run two at the same time.
CudaCalls cuda_calls(const std::function<void()>& work);

}  // namespace harness
