#include "ablations/run/run.h"

#include "ablations/run/observe.h"
#include "ablations/run/proof.h"
#include "ablations/text/text.h"
#include "harness/clock.h"
#include "harness/environment.h"
#include "harness/monitor.h"
#include "harness/processor_time.h"
#include "harness/stats.h"
#include "harness/utc.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <optional>

namespace ablations {

using harness::Json;

namespace {

// What the caching allocator could not have, told by itself.
class RefusedAllocation {
 public:
  void watch() {
    at::globalContext().lazyInitDevice(at::kCUDA);
    c10::cuda::CUDACachingAllocator::attachOutOfMemoryObserver(
        [shared = sizes_](int64_t device, size_t asked, size_t total, size_t free) {
          const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
          *shared = {asked, total, free, static_cast<size_t>(stats.allocated_bytes[0].current)};
        });
  }

  [[nodiscard]] std::string describe() const {
    const auto [asked, total, free, allocated] = *sizes_;
    return fmt::format(
        "asked for {:.2f} GiB more; of {:.2f} GiB on the device {:.2f} were free and {:.2f} held tensors", gib(asked),
        gib(total), gib(free), gib(allocated));
  }

 private:
  struct Sizes {
    size_t asked = 0, total = 0, free = 0, allocated = 0;
  };
  std::shared_ptr<Sizes> sizes_ = std::make_shared<Sizes>();  // the allocator keeps the observer for good
};

// getrusage's is that of the program that started this one where that was larger: what a kernel without VmHWM leaves.
int64_t peak_resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (int64_t kib = 0; std::sscanf(line.c_str(), "VmHWM: %" SCNd64 " kB", &kib) == 1) return kib;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

std::string available_host_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  int64_t kilobytes = 0;
  for (std::string unit; meminfo >> name >> kilobytes; std::getline(meminfo, unit)) {
    if (name == "MemAvailable:") {
      return fmt::format("{:.2f} GiB of the host's memory were available", gib(kilobytes * 1024));
    }
  }
  return "how much of the host's memory was available is not known";
}

// How often PyTorch's allocator went to the device. That takes the host long, and to free memory it waits for the
// device. Steps that have settled live on what the allocator holds: already one allocation says that these had not.
struct AllocatorCalls {
  int64_t allocations = 0, frees = 0;
  int64_t retries = 0;  // allocations that failed until it had freed all that it held in reserve
};

AllocatorCalls allocator_calls() {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  return {.allocations = stats.num_device_alloc, .frees = stats.num_device_free, .retries = stats.num_alloc_retries};
}

AllocatorCalls operator-(const AllocatorCalls& after, const AllocatorCalls& before) {
  return {.allocations = after.allocations - before.allocations,
          .frees = after.frees - before.frees,
          .retries = after.retries - before.retries};
}

// "memory: ..."; empty where there were none.
std::string flag_of(const AllocatorCalls& calls) {
  if (calls.allocations == 0 && calls.frees == 0 && calls.retries == 0) return "";
  return fmt::format(
      "memory: the allocator went to the device during the timed steps (allocations {}, frees {}, retries {})",
      calls.allocations, calls.frees, calls.retries);
}

// The timed steps, and what else went on while they did.
struct Watched {
  harness::Timing timing;
  harness::GpuWatch gpu;
  std::optional<double> processor_lost;     // the share of the timed window
  std::optional<AllocatorCalls> allocator;  // on a GPU
};

Watched watched(Gpt2Workload& workload, int64_t warmup_steps, int64_t timed_steps,
                const std::function<void(int64_t)>& on_step) {
  std::optional<harness::Monitor> monitor;
  if (workload.on_cuda()) monitor.emplace(harness::current_bus_id());
  Watched seen{.gpu = {.unavailable = "no step ran on a GPU"}};
  std::optional<harness::ProcessorTime> before, after;
  AllocatorCalls calls_before;
  // The monitor's thread begins last and ends first: its time is not the run's.
  const auto on_begin = [&] {
    before = harness::processor_time();
    if (!monitor) return;
    calls_before = allocator_calls();
    monitor->begin();
  };
  const auto on_end = [&] {
    if (monitor) {
      seen.gpu = monitor->end();
      seen.allocator = allocator_calls() - calls_before;
    }
    after = harness::processor_time();
  };
  seen.timing = harness::measure(workload, warmup_steps, timed_steps, on_step, on_begin, on_end);
  if (before && after) {
    // A step on a GPU is prepared by one thread at a time: this one, and autograd's for the backward pass.
    const int busy_threads = workload.on_cuda() ? 1 : at::get_num_threads();
    seen.processor_lost = harness::share_lost(*before, *after, seen.timing.window_ms / 1e3, busy_threads,
                                              harness::this_machine().cpu.logical_cores);
  }
  return seen;
}

std::vector<std::string> flags_of(const Watched& seen) {
  std::vector<std::string> flags = harness::flags(seen.gpu);
  for (const std::string& flag :
       {harness::flag(seen.processor_lost.value_or(0)), flag_of(seen.allocator.value_or(AllocatorCalls{}))}) {
    if (!flag.empty()) flags.push_back(flag);
  }
  return flags;
}

Json timing_json(const Watched& seen, const Json& losses, int64_t skipped_steps) {
  const harness::Timing& timing = seen.timing;
  Json allocator;
  if (seen.allocator) {
    allocator = {{"allocations", seen.allocator->allocations},
                 {"frees", seen.allocator->frees},
                 {"retries", seen.allocator->retries}};
  }
  return {{"warmup_steps", timing.warmup_steps},
          {"step_ms", timing.step_ms},
          {"loss", losses},
          {"page_faults", timing.page_faults},
          {"skipped_steps", skipped_steps},
          {"window_ms", timing.window_ms},
          {"device_ms", timing.device_ms ? Json(*timing.device_ms) : Json()},
          {"processor_lost", seen.processor_lost ? Json(*seen.processor_lost) : Json()},
          {"allocator", allocator}};
}

Json measured_run(const RunOptions& options, const std::function<void(int64_t)>& on_step) {
  const auto start = std::chrono::steady_clock::now();
  const std::string started = harness::utc_now();
  Gpt2Workload workload(options, options.warmup_steps + options.timed_steps + observed_steps);
  model::Trainer& trainer = workload.trainer();
  const Watched seen = watched(workload, options.warmup_steps, options.timed_steps, on_step);
  const harness::Timing& timing = seen.timing;

  Json memory = peak_memory(options.recipe);
  Json losses = Json::array();
  for (const double loss : trainer.losses()) losses.push_back(harness::finite_or_null(loss));
  const int64_t skipped_steps = trainer.skipped_steps();
  Json observations = observe(trainer);
  memory.update(observations.at("memory"));
  observations.erase("memory");
  const auto timed_faults = std::span(timing.page_faults).subspan(static_cast<size_t>(timing.warmup_steps));
  const double faults_per_step = harness::median(std::vector<double>(timed_faults.begin(), timed_faults.end()));
  const auto proofs = prove(options.recipe, {.observations = observations,
                                             .page_faults_per_step = faults_per_step,
                                             .peak_bytes = memory.at("peak_bytes"),
                                             .attentions = workload.config().n_layer * options.accumulation});
  return {{"kind", "record"},
          {"schema_version", 1},
          {"id", options.id},
          {"started", started},
          {"duration_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()},
          {"status", "ok"},
          {"recipe", model::to_json(options.recipe)},
          {"optimizations", options.applied},
          {"workload", workload.description()},
          {"timing", timing_json(seen, losses, skipped_steps)},
          {"monitor", harness::to_json(seen.gpu, trainer.tokens_per_step() * options.timed_steps)},
          {"flags", flags_of(seen)},
          {"summary", summary_of(std::span(timing.step_ms).subspan(static_cast<size_t>(timing.warmup_steps)),
                                 trainer.tokens_per_step())},
          {"memory", memory},
          {"observations", observations},
          {"proofs", to_json(proofs)},
          {"environment", harness::environment()}};
}

}  // namespace

Json summary_of(std::span<const double> timed_ms, int64_t tokens_per_step) {
  const double median = harness::median(timed_ms);
  return {{"median_ms", median},
          {"q1_ms", harness::quantile(timed_ms, 0.25)},
          {"q3_ms", harness::quantile(timed_ms, 0.75)},
          {"min_ms", harness::quantile(timed_ms, 0.0)},
          {"max_ms", harness::quantile(timed_ms, 1.0)},
          {"n", timed_ms.size()},
          {"tokens_per_s", 1000.0 * static_cast<double>(tokens_per_step) / median}};
}

Json peak_memory(const model::Recipe& recipe) {
  if (recipe.device == model::Device::cuda) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
    return {{"peak_bytes", stats.allocated_bytes[0].peak},
            {"peak_source", "CUDA caching allocator, allocated bytes"},
            {"reserved_peak_bytes", stats.reserved_bytes[0].peak}};
  }
  return {{"peak_bytes", peak_resident_kib() * 1024}, {"peak_source", "resident set of the process"}};
}

void reset_peak_memory(const model::Recipe& recipe) {
  if (recipe.device == model::Device::cuda) {
    at::cuda::clearCublasWorkspaces();  // one of them keeps the whole block that it lies in
    c10::cuda::CUDACachingAllocator::emptyCache();
    c10::cuda::CUDACachingAllocator::resetPeakStats(0);
    return;
  }
  std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM becomes what is resident now (man 5 proc)
}

Json execute_run(const RunOptions& options, const std::function<void(int64_t)>& on_step) {
  const auto start = std::chrono::steady_clock::now();
  const auto out_of_memory = [&](const std::string& message) {
    return failed_record(options.id, "out_of_memory", message,
                         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  };
  RefusedAllocation refused;
  try {
    if (options.recipe.device == model::Device::cuda) refused.watch();
    return measured_run(options, on_step);
  } catch (const c10::OutOfMemoryError&) {
    return out_of_memory(refused.describe());
  } catch (const std::bad_alloc&) {
    return out_of_memory(available_host_memory());
  } catch (const c10::Error& error) {
    // The CPU's allocator has no class of its own for this.
    const std::string text = error.what_without_backtrace();
    constexpr std::string_view tried = "you tried to allocate ";
    const size_t at = text.find(tried);
    if (at == std::string::npos) throw;
    return out_of_memory(fmt::format("asked for {:.2f} GiB more; {}",
                                     gib(std::strtod(text.c_str() + at + tried.size(), nullptr)),
                                     available_host_memory()));
  }
}

Json failed_record(const std::string& id, const std::string& failure_kind, const std::string& message, double seconds) {
  return {{"kind", "record"},
          {"schema_version", 1},
          {"id", id},
          {"started", harness::utc_now()},
          {"duration_s", seconds},
          {"status", "failed"},
          {"failure", {{"kind", failure_kind}, {"message", message}}}};
}

}  // namespace ablations
