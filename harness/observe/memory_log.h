// How much memory the tensors of one device take while it watches. It counts the allocations and releases that
// PyTorch's allocators report on this thread and on the autograd threads that work for it. Caching allocators report
// blocks as they hand them out, not what they hold in reserve. So a CPU and a GPU are counted alike.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace harness {

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

}  // namespace harness
