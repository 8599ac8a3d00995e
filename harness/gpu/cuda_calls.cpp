#include "harness/gpu/cuda_calls.h"

#include "harness/gpu/cupti.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace harness {
namespace {

struct Counter {
  std::mutex mutex;
  std::map<std::string, int64_t> calls;
};

// How deep this thread is in calls to the run-time library. Driver calls made by the library itself are not ours.
thread_local int runtime_depth = 0;

void CUPTIAPI on_call(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* data) {
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  const bool enters = call->callbackSite == CUPTI_API_ENTER;
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && !enters) --runtime_depth;
  if (enters && runtime_depth == 0) {
    auto* counter = static_cast<Counter*>(user);
    const std::lock_guard lock(counter->mutex);
    ++counter->calls[call->functionName];
  }
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && enters) ++runtime_depth;
}

template <class Predicate>
std::map<std::string, int64_t> where(const std::map<std::string, int64_t>& calls, Predicate&& wanted) {
  std::map<std::string, int64_t> found;
  for (const auto& [name, count] : calls) {
    std::string_view function = name;
    function.remove_prefix(std::min(function.find_first_not_of('_'), function.size()));  // what <<<>>> calls has two
    if (wanted(function)) found.emplace(name, count);
  }
  return found;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

std::map<std::string, int64_t> CudaCalls::kernel_launches() const {
  return where(calls, [](std::string_view name) {
    const bool launches = name.starts_with("cudaLaunch") || name.starts_with("cuLaunch");
    return launches && contains(name, "Kernel");  // KernelEx, CooperativeKernel; a HostFunc is none
  });
}

std::map<std::string, int64_t> CudaCalls::graph_launches() const {
  return where(calls, [](std::string_view name) {
    return name.starts_with("cudaGraphLaunch") || name.starts_with("cuGraphLaunch");
  });
}

std::map<std::string, int64_t> CudaCalls::host_waits() const {
  return where(calls, [](std::string_view name) {
    const bool waits = contains(name, "Synchronize");
    const bool copies = name.starts_with("cudaMemcpy") || name.starts_with("cuMemcpy");
    const bool frees = name.starts_with("cudaFree") || name.starts_with("cuMemFree");
    return waits || ((copies || frees) && !contains(name, "Async"));
  });
}

int64_t sum(const std::map<std::string, int64_t>& calls) {
  int64_t sum = 0;
  for (const auto& [name, count] : calls) sum += count;
  return sum;
}

CudaCalls cuda_calls(const std::function<void()>& work) {
  Counter counter;
  std::optional<CuptiSubscriber> subscriber;
  CudaCalls result;
  try {
    subscriber.emplace(on_call, &counter);
  } catch (const std::runtime_error& error) {
    result.unavailable = error.what();
  }
  work();
  if (!subscriber) return result;
  const std::lock_guard lock(counter.mutex);
  result.calls = counter.calls;
  return result;
}

}  // namespace harness
