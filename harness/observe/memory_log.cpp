#include "harness/observe/memory_log.h"

#include <c10/core/Allocator.h>
#include <c10/util/Logging.h>

#include <mutex>

namespace harness {

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

}  // namespace harness
