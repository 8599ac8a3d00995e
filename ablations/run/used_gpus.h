// The GPUs that programs started here may use, and which of them a measured program does (NVML, amd-smi).
#pragma once

#include "harness/machine/amd_monitor.h"
#include "harness/machine/gpu_monitor.h"
#include "harness/machine/nvml.h"
#include "results/record.h"

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ablations {

// NVIDIA's, or AMD's where there are none.
const harness::VisibleGpus& visible_gpus();

// Made before the program starts.
class UsedGpus {
 public:
  UsedGpus();

  // Looks at the memory of the program's processes on each.
  void look(const std::vector<pid_t>& processes);

  // The timed window begins and ends.
  void begin(const std::vector<pid_t>& processes);
  void end();
  // What is asked of them takes seconds.
  [[nodiscard]] static bool answer_late();
  // Until the processes that ran on them are gone, at most ten seconds: the next run needs their memory.
  void wait_until_free() const;

  [[nodiscard]] std::vector<std::string> names() const;  // of those used
  [[nodiscard]] int64_t peak_bytes() const { return peak_bytes_; }

  // Gives the record, whose flags are there, the monitor of the first one used, and the flags of all. tokens: of the
  // window.
  void complete(Record& record, int64_t tokens) const;

 private:
  struct One {
    One(harness::VisibleGpu of, std::unique_ptr<harness::NvmlDevice> opened)
        : gpu(std::move(of)), device(std::move(opened)) {}
    harness::VisibleGpu gpu;
    std::unique_ptr<harness::NvmlDevice> device;
    std::unique_ptr<harness::Monitor> monitor;
    harness::GpuWatch watch{.unavailable = "its steps were over before it was seen on the GPU"};
    int64_t before = 0;  // processes on it when the run began
    bool is_used = false;
  };
  std::vector<One> gpus_;
  std::unique_ptr<harness::AmdMonitor> amd_ = std::make_unique<harness::AmdMonitor>();
  int64_t peak_bytes_ = 0;
};

// How many machines these processes say that their program runs on (torchrun, DeepSpeed, Open MPI, srun); 1: none does.
int64_t nodes_of(const std::vector<pid_t>& processes);

}  // namespace ablations
