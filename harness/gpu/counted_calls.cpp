#include "harness/gpu/cuda_calls.h"
#include "harness/gpu/cupti.h"

#include <mutex>
#include <optional>
#include <stdexcept>

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

}  // namespace

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
