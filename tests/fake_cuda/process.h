// What the parts of the run-time library share: the state of the process, its errors, what a capture forbids.
#pragma once

#include "fake_cuda/device.h"

#include <cupti_runtime_cbid.h>

#include <unordered_map>
#include <utility>

namespace fake_cuda {

struct Process {
  std::recursive_mutex mutex;
  Stream default_stream{.id = 7};
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::shared_ptr<Capture>> captures;  // under way
  std::unordered_map<const void*, const char*> kernels;
  std::unordered_map<const void*, std::pair<void*, size_t>> variables;
  uint64_t ids = 0;
  std::map<std::string, int64_t> done;  // kernels by name, captured ones as often as they were replayed
};

Process& process();

// Its argument, kept as the thread's last error where it is one.
cudaError_t fail(cudaError_t error);
cudaError_t& last_error();
cudaStreamCaptureMode& thread_mode();

// What a capture forbids (cudaThreadExchangeStreamCaptureMode's documentation): breaks the captures it concerns.
bool is_forbidden();
// Other threads go on meanwhile.
void wait_until(int64_t time_ns, std::unique_lock<std::recursive_mutex>& lock);
// On the stream's own clock, and told to CUPTI.
void carry_out(Stream* stream, const Work& work, uint32_t correlation, uint64_t node, int64_t launched_ns);

}  // namespace fake_cuda

#define CALL(name, version)                  \
  std::unique_lock lock(fake_cuda::mutex()); \
  const Call call(true, #name, CUPTI_RUNTIME_TRACE_CBID_##name##_##version)
