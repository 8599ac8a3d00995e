#include "ablations/micro/suite.h"

#include "harness/machine/machine.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <utility>

namespace ablations::micro {
namespace {

// Overwrites the L2, several times over to give the host a head start. All operations of a call must be in the queue
// when the first begins. Then the time is the device's, without launching.
class ColdCache {
 public:
  ColdCache() {
    int bytes = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, 0));
    buffer_ = at::empty({std::max<int64_t>(2L * bytes, 256L << 20)}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
  }
  void make() {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    for (int i = 0; i < rounds_; ++i) C10_CUDA_CHECK(cudaMemsetAsync(buffer_.data_ptr(), 0, buffer_.nbytes(), stream));
  }
  // Doubles the head start. False if it is already long enough for anything but a full queue.
  bool lengthen() {
    if (rounds_ >= 512) return false;  // 128 GiB: some 40 ms
    rounds_ *= 2;
    return true;
  }

 private:
  at::Tensor buffer_;
  int rounds_ = 4;
};

double seconds_on_cpu(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct DeviceTime {
  double seconds;
  bool launch_bound;  // the device had begun before all was launched, and may have waited for the host
};

DeviceTime time_on_cuda(ColdCache& cache, const std::function<void()>& work) {
  c10::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  cache.make();
  begin.record();
  work();
  end.record();
  const bool launch_bound = begin.query();
  end.synchronize();
  return {begin.elapsed_time(end) * 1e-3, launch_bound};
}

}  // namespace

model::Config Sizes::config() const {
  model::Config config = model::preset("gpt2-124m");
  config.n_embd = C;
  config.n_head = NH;
  return config;
}

void Suite::add(const std::string& name, model::Device device, std::function<void(benchmark::State&)> body) {
  const std::string full = name + "/" + std::string(model::name_of(device));
  benchmark::RegisterBenchmark(full.c_str(), [this, device, body = std::move(body)](benchmark::State& state) {
    const harness::Machine& machine = harness::this_machine();
    if (device == model::Device::cuda && !machine.gpu) return state.SkipWithError(machine.no_gpu_reason.c_str());
    try {
      hold(device);
      body(state);
    } catch (const c10::Error& error) {
      ++faults_;
      state.SkipWithError(error.what_without_backtrace());
    } catch (const std::exception& error) {
      ++faults_;
      state.SkipWithError(error.what());
    }
  })->UseManualTime();
}

void Suite::hold(model::Device device) {
  if (held_.contains(device)) return;
  held_.try_emplace(device, harness::lock_name(device == model::Device::cuda),
                    fmt::format("micro (pid {})", ::getpid()),
                    [](const std::string& taken) { fmt::print(stderr, "micro: {}; waiting for its end\n", taken); });
}

void time_calls(benchmark::State& state, model::Device device, const std::function<void()>& prepare,
                const std::function<void()>& work, int64_t calls) {
  const auto repeated = [&] {
    for (int64_t i = 0; i < calls; ++i) work();
  };
  // The first calls choose kernels and ask for memory.
  for (int i = 0; i < 2; ++i) {
    prepare();
    work();
  }
  if (device == model::Device::cpu) {
    while (state.KeepRunningBatch(calls)) {
      prepare();
      state.SetIterationTime(seconds_on_cpu(repeated));
    }
    return;
  }
  ColdCache cache;
  const auto time_one = [&] {
    prepare();
    return time_on_cuda(cache, repeated);
  };
  // As long a head start as needed, doubled for the host's bad moments.
  while (time_one().launch_bound && cache.lengthen()) continue;
  cache.lengthen();
  int64_t timed = 0, launch_bound = 0;
  while (state.KeepRunningBatch(calls)) {
    DeviceTime time = time_one();
    for (int again = 0; again < 3 && time.launch_bound; ++again) time = time_one();
    state.SetIterationTime(time.seconds);
    ++timed;
    if (time.launch_bound) ++launch_bound;
  }
  const double share = static_cast<double>(launch_bound) / static_cast<double>(timed);
  if (share > 0.1) state.counters["launch_bound"] = share;
}

double seconds_of(model::Device device, const std::function<void()>& work) {
  if (device == model::Device::cpu) return seconds_on_cpu(work);
  ColdCache cache;
  return time_on_cuda(cache, work).seconds;
}

void set_rates(benchmark::State& state, double flops, double bytes) {
  using benchmark::Counter;
  for (const auto& [name, count] : {std::pair{"flops", flops}, std::pair{"bytes", bytes}}) {
    if (count == 0) continue;
    state.counters[name] = count;
    state.counters[std::string(name) + "_per_second"] = Counter(count, Counter::kIsIterationInvariantRate);
  }
}

}  // namespace ablations::micro
