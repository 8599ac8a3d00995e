#include "harness/gpu/cupti.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string_view>

namespace harness {
namespace {

struct RecordedOperation {
  std::string name;
  int label;
  int64_t step, begin_ns, end_ns;
  uint64_t thread;
};

struct Recording {
  std::mutex mutex;
  std::vector<RecordedOperation> operations;
  std::atomic<int64_t> step = 0;
};

Recording& recording() {
  static Recording instance;
  return instance;
}

thread_local int depth = 0;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct OperationContext : at::ObserverContext {
  int label = Labels::current();
  int64_t step = recording().step;
  int64_t begin_ns = now_ns();
};

// Autograd's engine wraps every node in a function that is not an operation. The work of a parallel operation on the
// threads of its team is part of the operation.
bool is_operation(const at::RecordFunction& function) {
  return !at::in_parallel_region() && !std::string_view(function.name()).starts_with("autograd::");
}

std::unique_ptr<at::ObserverContext> on_operation_start(const at::RecordFunction& function) {
  if (!is_operation(function)) return nullptr;
  return depth++ == 0 ? std::make_unique<OperationContext>() : nullptr;
}

void on_operation_end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (!is_operation(function)) return;
  --depth;
  if (context == nullptr) return;
  const auto* begun = static_cast<OperationContext*>(context);
  const int64_t end = now_ns();
  const std::lock_guard lock(recording().mutex);
  recording().operations.push_back(
      {function.name(), begun->label, begun->step, begun->begin_ns, end, static_cast<uint64_t>(::gettid())});
}

}  // namespace

Trace trace_operations(const Labels& labels, int64_t steps, const std::function<void()>& step) {
  recording().operations.clear();
  struct Callback {
    at::CallbackHandle handle = at::addGlobalCallback(
        at::RecordFunctionCallback(on_operation_start, on_operation_end).scopes({at::RecordScope::FUNCTION}));
    ~Callback() { at::removeCallback(handle); }
  };
  Trace trace{.activities = {}, .steps = steps};
  {
    const Callback callback;
    trace.begin_ns = now_ns();
    for (int64_t i = 0; i < steps; ++i) {
      recording().step = i;
      step();
    }
    trace.end_ns = now_ns();
  }
  const std::lock_guard lock(recording().mutex);
  for (RecordedOperation& operation : recording().operations) {
    trace.activities.push_back({.kind = Activity::Kind::operation,
                                .name = std::move(operation.name),
                                .label = labels.at(operation.label),
                                .begin_ns = operation.begin_ns,
                                .end_ns = operation.end_ns,
                                .lane = operation.thread,
                                .step = operation.step});
  }
  std::ranges::sort(trace.activities, {}, &Activity::begin_ns);
  return trace;
}

}  // namespace harness
