// Which operations ran: every dispatched ATen operation, by phase, and every node of the backward pass by its name, on
// any thread. Not for a timed step.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

// Counts from construction to destruction. One at a time in a process: a second one throws std::logic_error.
class OperationLog {
 public:
  OperationLog();
  ~OperationLog();
  OperationLog(const OperationLog&) = delete;  // registered by address
  OperationLog& operator=(const OperationLog&) = delete;

  // Operations from here on are counted under this phase.
  void begin_phase(std::string_view phase);

  using Counts = std::map<std::string, int64_t>;
  // Operations of one phase ("aten::mm": 120); nested ones count, too.
  [[nodiscard]] Counts operations(std::string_view phase) const;
  [[nodiscard]] int64_t total() const;
  // "SoftmaxBackward0": 12
  [[nodiscard]] Counts backward_nodes() const;

 private:
  uint64_t handle_;
};

// How much memory the tensors of one device take while it watches. It counts the allocations and releases that
// PyTorch's allocators report on this thread and on the autograd threads that work for it. Caching allocators report
// blocks as they hand them out, not what they hold in reserve. So a CPU and a GPU are counted alike.

class MemoryLog {
 public:
  explicit MemoryLog(c10::DeviceType device);
  ~MemoryLog();
  MemoryLog(const MemoryLog&) = delete;  // installed by address
  MemoryLog& operator=(const MemoryLog&) = delete;

  // Bytes allocated less bytes released since construction. A GPU's allocator also reports the release of older
  // tensors; a CPU's does not.
  [[nodiscard]] int64_t live_bytes() const;

 private:
  class Reporter;
  std::shared_ptr<Reporter> reporter_;
  c10::DebugInfoGuard guard_;
  int log_level_;  // of c10, which warns of every older tensor that is released meanwhile
};

// The 16-bit copies that autocast makes of a model's parameters, and how much memory they hold. They are seen when they
// are made, and counted as long as something keeps them. Autocast's cache releases them when its scope ends; those that
// autograd saved for the backward pass stay.

class ParameterCopies {
 public:
  // Watches this thread's operations. One at a time in a thread: a second one throws std::logic_error.
  ParameterCopies();
  ~ParameterCopies();
  ParameterCopies(const ParameterCopies&) = delete;  // registered by address
  ParameterCopies& operator=(const ParameterCopies&) = delete;

  // Bytes of the copies made since construction that something still holds.
  [[nodiscard]] int64_t live_bytes() const;

 private:
  friend struct ParameterCopiesCallbacks;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made_;  // weak: watching keeps nothing alive
  uint64_t handle_;
};

}  // namespace harness
