#include "ablations/gpt2/memory.h"

#include "ablations/gpt2/ladder_file.h"
#include "harness/machine/control_groups.h"
#include "harness/machine/machine.h"
#include "model/execution.h"
#include "text/text.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>

namespace ablations {

namespace {

// A kernel without VmHWM leaves getrusage. Its number may be the larger one of the program that started this one.
int64_t peak_resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (int64_t kib = 0; std::sscanf(line.c_str(), "VmHWM: %" SCNd64 " kB", &kib) == 1) return kib;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void forget_peak(const model::Recipe& recipe) {
  if (recipe.device == model::Device::cuda) {
    c10::cuda::CUDACachingAllocator::resetPeakStats(0);
  } else {
    std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM becomes what is resident now (man 5 proc)
  }
}

}  // namespace

PeakMemory peak_memory(const model::Recipe& recipe) {
  if (recipe.device == model::Device::cuda) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
    return {.peak_bytes = stats.allocated_bytes[0].peak,
            .peak_source = "CUDA caching allocator, allocated bytes",
            .reserved_peak_bytes = stats.reserved_bytes[0].peak};
  }
  return {.peak_bytes = peak_resident_kib() * 1024, .peak_source = "resident set of the process"};
}

void reset_peak_memory(const model::Recipe& recipe) {
  if (recipe.device == model::Device::cuda) {
    at::cuda::clearCublasWorkspaces();  // one of them keeps the whole block that it lies in
    c10::cuda::CUDACachingAllocator::emptyCache();
  }
  forget_peak(recipe);
}

void PeakWatch::after_step(int64_t steps) {
  if (recipe_.execution != model::Execution::graph || steps + 1 != model::runs_before_replay) return;
  c10::cuda::CUDACachingAllocator::emptyCache();  // as the capture does
  begin();
}

void PeakWatch::begin_window() {
  if (recipe_.execution == model::Execution::eager) begin();
}

void PeakWatch::begin() {
  before_bytes_ = peak_memory(recipe_).peak_bytes;
  forget_peak(recipe_);
}

PeakMemory PeakWatch::peak() const {
  PeakMemory peak = peak_memory(recipe_);
  peak.run_peak_bytes = std::max(before_bytes_, peak.peak_bytes);
  return peak;
}

std::string available_host_memory() {
  const std::optional<int64_t> bytes = harness::available_memory();
  return bytes ? fmt::format("{:.2f} GiB of the host's memory were available", gib(*bytes))
               : "how much of the host's memory was available is not known";
}

void RefusedAllocation::watch() {
  at::globalContext().lazyInitDevice(at::kCUDA);
  c10::cuda::CUDACachingAllocator::attachOutOfMemoryObserver(
      [shared = sizes_](int64_t device, size_t asked, size_t total, size_t free) {
        const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
        *shared = {asked, total, free, static_cast<size_t>(stats.allocated_bytes[0].current)};
      });
}

std::string RefusedAllocation::describe() const {
  const auto [asked, total, free, allocated] = *sizes_;
  return fmt::format("asked for {:.2f} GiB more; of {:.2f} GiB on the device {:.2f} were free and {:.2f} held tensors",
                     gib(asked), gib(total), gib(free), gib(allocated));
}

AllocatorCalls allocator_calls() {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  return {.allocations = stats.num_device_alloc, .frees = stats.num_device_free, .retries = stats.num_alloc_retries};
}

AllocatorCalls operator-(const AllocatorCalls& after, const AllocatorCalls& before) {
  return {.allocations = after.allocations - before.allocations,
          .frees = after.frees - before.frees,
          .retries = after.retries - before.retries};
}

std::string flag(const AllocatorCalls& calls) {
  if (calls.allocations == 0 && calls.frees == 0 && calls.retries == 0) return "";
  return fmt::format(
      "memory: the allocator went to the device during the timed steps (allocations {}, frees {}, retries {})",
      calls.allocations, calls.frees, calls.retries);
}

Occupied occupy(const std::set<model::Device>& devices, const std::string& command, const std::filesystem::path& at,
                bool wait) {
  std::set<std::string> names;
  for (const model::Device device : devices) names.insert(harness::lock_name(device == model::Device::cuda));
  return harness::occupy(names, command, at, wait);
}

std::set<model::Device> devices_of(const Plan& plan, const std::vector<PlannedRun>& runs) {
  std::set<model::Device> devices;
  for (const PlannedRun& run : runs) devices.insert(recipe_of(plan.rungs[run.rung]).device);
  return devices;
}

}  // namespace ablations
