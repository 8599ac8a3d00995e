#include "harness/observe/operation_log.h"

#include <ATen/record_function.h>

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

}  // namespace harness
