#include "fake_cuda/process.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace fake_cuda {

Process& process() {
  static auto* one = new Process;  // outlives the program's own clean-up
  return *one;
}

namespace {

// FAKE_CUDA_COUNTS=FILE: how often each kernel ran, and cudaHostAlloc was called, written there when the program ends.
__attribute__((destructor)) void write_counts() {
  const char* path = std::getenv("FAKE_CUDA_COUNTS");
  if (path == nullptr || process().done.empty()) return;
  std::ofstream file(path);
  for (const auto& [name, count] : process().done) file << count << ' ' << name << '\n';
}

}  // namespace

cudaError_t& last_error() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

cudaStreamCaptureMode& thread_mode() {
  static thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

cudaError_t fail(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

std::recursive_mutex& mutex() { return process().mutex; }

int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Stream* stream_of(cudaStream_t handle) {
  const bool is_default = handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
  return is_default ? &process().default_stream : reinterpret_cast<Stream*>(handle);
}

bool is_forbidden() {
  bool forbidden = false;
  for (const auto& capture : process().captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool concerns =
        thread_mode() == cudaStreamCaptureModeGlobal
            ? (own ? capture->mode != cudaStreamCaptureModeRelaxed : capture->mode == cudaStreamCaptureModeGlobal)
            : thread_mode() == cudaStreamCaptureModeThreadLocal && own && capture->mode != cudaStreamCaptureModeRelaxed;
    if (concerns) capture->broken = forbidden = true;
  }
  return forbidden;
}

void wait_until(int64_t time_ns, std::unique_lock<std::recursive_mutex>& lock) {
  lock.unlock();
  const timespec until{.tv_sec = time_ns / 1'000'000'000, .tv_nsec = time_ns % 1'000'000'000};
  while (now_ns() < time_ns) ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  lock.lock();
}

void carry_out(Stream* stream, const Work& work, uint32_t correlation, uint64_t node, int64_t launched_ns) {
  const int64_t begin = std::max(launched_ns, stream->busy_until_ns);
  stream->busy_until_ns = begin + duration_ns(work);
  record_work(work, begin, stream->id, correlation, node);
  if (work.kind == Work::Kind::kernel) ++process().done[work.name];
}

cudaError_t enqueue(Stream* stream, const Work& work, uint32_t correlation) {
  if (Capture* capture = stream->capture.get(); capture != nullptr) {
    if (capture->broken) return cudaErrorStreamCaptureInvalidated;
    ++capture->follows[stream][stream];
    capture->graph->nodes.push_back(std::make_unique<Node>(Node{.work = work, .id = ++process().ids}));
    tell_node(*capture->graph->nodes.back(), false);
    return cudaSuccess;
  }
  carry_out(stream, work, correlation, 0, now_ns());
  return cudaSuccess;
}

}  // namespace fake_cuda
