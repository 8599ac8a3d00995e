// Which operations ran: every dispatched ATen operation, by phase, and every node of the backward pass by its name, on
// any thread. Not for a timed step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

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

}  // namespace harness
