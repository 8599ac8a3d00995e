// The benchmarks of the program `micro`, and how each of them is timed.
//
// The program takes all times itself ("manual_time" in Google Benchmark). On a GPU they come from a pair of events,
// with a cold L2. On a CPU they come from the host's clock, with the caches as the call before left them. Preparations
// between calls do not count.
#pragma once

#include "harness/process/locks.h"
#include "model/config.h"
#include "model/recipe.h"

#include <benchmark/benchmark.h>

#include <functional>
#include <map>
#include <string>

namespace ablations::micro {

struct Sizes {
  int64_t B, T;
  int64_t C = 768, NH = 12;  // of the operations: other widths and heads than GPT-2 124M's

  // GPT-2 124M of that width.
  [[nodiscard]] model::Config config() const;
};

class Suite {
 public:
  Suite(Sizes on_cpu, Sizes on_cuda) : on_cpu_(on_cpu), on_cuda_(on_cuda) {}
  // Google Benchmark keeps benchmarks in a global. They go with the suite, before the CUDA context does.
  ~Suite() { benchmark::ClearRegisteredBenchmarks(); }
  Suite(const Suite&) = delete;
  Suite& operator=(const Suite&) = delete;

  // Registers `name`/cpu or `name`/cuda. Without such a device it is skipped and says why. A body that throws is
  // skipped with its message and counted; the next one still runs. The first on a device waits until nobody else
  // measures there, and keeps it (harness::DeviceLock).
  void add(const std::string& name, model::Device device, std::function<void(benchmark::State&)> body);

  [[nodiscard]] Sizes sizes(model::Device device) const { return device == model::Device::cpu ? on_cpu_ : on_cuda_; }
  [[nodiscard]] int faults() const { return faults_; }

 private:
  void hold(model::Device device);

  Sizes on_cpu_, on_cuda_;
  int faults_ = 0;
  std::map<model::Device, harness::DeviceLock> held_;
};

// Times `work` alone, `calls` times in a row for each preparation. On a GPU the host gets a head start, to launch all
// of them before the first begins. It may be too short for thousands of launches: then the device may have waited for
// the host. The counter "launch_bound" is the share of such times, if over a tenth.
void time_calls(benchmark::State& state, model::Device device, const std::function<void()>& prepare,
                const std::function<void()>& work, int64_t calls = 1);

// Seconds of one piece of work.
double seconds_of(model::Device device, const std::function<void()>& work);

// "bytes" and "flops" of one call, and both per second.
void set_rates(benchmark::State& state, double flops, double bytes);

void add_operations(Suite& suite);  // forward and backward of every operation
void add_updates(Suite& suite);     // the optimizer's kinds and the clip
void add_memory(Suite& suite);      // what attention keeps, by T
void add_overheads(Suite& suite);   // batches, the harness itself, NVTX

}  // namespace ablations::micro
