#include "harness/observe/operation_log.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/Logging.h>

#include <mutex>
#include <stdexcept>

namespace harness {

namespace {

// Callbacks are plain functions, so they write to global data.
struct Counted {
  std::mutex mutex;
  bool active = false;
  std::string phase;
  std::map<std::string, OperationLog::Counts, std::less<>> operations;
  OperationLog::Counts backward_nodes;
};

Counted& counted() {
  static Counted instance;
  return instance;
}

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
  constexpr std::string_view evaluating = "autograd::engine::evaluate_function: ";
  Counted& s = counted();
  const std::lock_guard lock(s.mutex);
  std::string_view name = function.name();
  if (name.starts_with(evaluating)) {
    name.remove_prefix(evaluating.size());
    ++s.backward_nodes[std::string(name)];
  } else if (function.scope() == at::RecordScope::FUNCTION) {
    ++s.operations[s.phase][std::string(name)];
  }
  return nullptr;
}

}  // namespace

OperationLog::OperationLog() {
  Counted& s = counted();
  const std::lock_guard lock(s.mutex);
  if (s.active) throw std::logic_error("OperationLog: one is already counting");
  s.active = true;
  s.phase.clear();
  s.operations.clear();
  s.backward_nodes.clear();
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(count).scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OperationLog::~OperationLog() {
  at::removeCallback(handle_);
  const std::lock_guard lock(counted().mutex);
  counted().active = false;
}

void OperationLog::begin_phase(std::string_view phase) {
  const std::lock_guard lock(counted().mutex);
  counted().phase = phase;
}

OperationLog::Counts OperationLog::operations(std::string_view phase) const {
  const std::lock_guard lock(counted().mutex);
  const auto found = counted().operations.find(phase);
  return found == counted().operations.end() ? Counts{} : found->second;
}

int64_t OperationLog::total() const {
  const std::lock_guard lock(counted().mutex);
  int64_t sum = 0;
  for (const auto& [phase, counts] : counted().operations) {
    for (const auto& [name, calls] : counts) sum += calls;
  }
  return sum;
}

OperationLog::Counts OperationLog::backward_nodes() const {
  const std::lock_guard lock(counted().mutex);
  return counted().backward_nodes;
}

class MemoryLog::Reporter : public c10::MemoryReportingInfoBase {
 public:
  explicit Reporter(c10::DeviceType device) : device_(device) {}

  // bytes: negative for a release.
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device device) override {
    if (device.type() != device_) return;
    const std::lock_guard lock(mutex_);
    live_ += bytes;
  }

  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  [[nodiscard]] int64_t live() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }

 private:
  c10::DeviceType device_;
  mutable std::mutex mutex_;
  int64_t live_ = 0;
};

MemoryLog::MemoryLog(c10::DeviceType device)
    : reporter_(std::make_shared<Reporter>(device)),
      guard_(c10::DebugInfoKind::PROFILER_STATE, reporter_),
      log_level_(FLAGS_caffe2_log_level) {
  FLAGS_caffe2_log_level = c10::GLOG_ERROR;
}

MemoryLog::~MemoryLog() { FLAGS_caffe2_log_level = log_level_; }

int64_t MemoryLog::live_bytes() const { return reporter_->live(); }

namespace {

// Callbacks are plain functions, so they find their object through a thread-local pointer.
thread_local ParameterCopies* watching = nullptr;

}  // namespace

struct ParameterCopiesCallbacks {
  // An operation's inputs are there only when it begins, its outputs only when it ends. This hands on from begin to end
  // that the input is a parameter.
  struct OfParameter : at::ObserverContext {};

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    if (std::string_view(function.name()) != "aten::_to_copy") return nullptr;
    const auto inputs = function.inputs();
    if (inputs.empty() || !inputs[0].isTensor()) return nullptr;
    const at::Tensor& from = inputs[0].toTensor();
    if (!from.defined() || !from.is_leaf() || !from.requires_grad()) return nullptr;
    return std::make_unique<OfParameter>();
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* of_parameter) {
    if (of_parameter == nullptr || watching == nullptr) return;
    for (const c10::IValue& output : function.outputs()) {
      if (output.isTensor()) watching->made_.push_back(output.toTensor().storage().getWeakStorageImpl());
    }
  }
};

ParameterCopies::ParameterCopies() {
  if (watching != nullptr) throw std::logic_error("ParameterCopies: one is already watching this thread");
  watching = this;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(ParameterCopiesCallbacks::begin, ParameterCopiesCallbacks::end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
}

ParameterCopies::~ParameterCopies() {
  at::removeCallback(handle_);
  watching = nullptr;
}

int64_t ParameterCopies::live_bytes() const {
  int64_t bytes = 0;
  for (const auto& copy : made_) {
    if (const auto storage = copy.lock()) bytes += static_cast<int64_t>(storage->nbytes());
  }
  return bytes;
}

}  // namespace harness
