// A CUDA device of make-believe, preloaded into a program in place of CUDA's run-time library, cuBLAS, cuDNN,
// NCCL of one rank, and CUPTI's callbacks and activity. It shows what a program's host does with a GPU where there is
// none: what it launches, waits for, allocates, captures and replays, and what a capture forbids. It shows nothing of
// what a GPU would compute, nor in which time.
//
// Its memory is the host's. Copies from and to the host are made at once, when they are asked for; kernels, copies
// within the device and whatever a graph replays do nothing but take time on a clock of their own. So streams are
// ordered in that time only: a copy that does not wait for its data goes unseen here.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fake_cuda {

// One operation of a stream or a node of a graph.
struct Work {
  enum class Kind { kernel, copy, set };
  Kind kind = Kind::kernel;
  const char* name = "";  // mangled; a kernel's
  size_t bytes = 0;
  cudaMemcpyKind direction = cudaMemcpyDefault;
};

struct Node {
  Work work;
  uint64_t id = 0;        // as CUPTI says it
  uint64_t original = 0;  // what it was cloned from
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};

struct Stream;

struct Capture {
  uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  Stream* origin = nullptr;
  std::unique_ptr<Graph> graph;
  bool broken = false;
  // What each stream has put in, and how much of the others' each one follows: a vector clock.
  std::map<Stream*, std::map<Stream*, int>> follows;
};

struct Stream {
  uint32_t id = 0;
  std::shared_ptr<Capture> capture;
  int64_t busy_until_ns = 0;
};

struct Event {
  bool recorded = false;
  bool timed = true;
  int64_t at_ns = 0;
  std::shared_ptr<Capture> capture;
  std::map<Stream*, int> follows;
};

// Every kernel takes this long, one after another in its stream; copies and sets a nanosecond more for each kB.
constexpr int64_t work_ns = 1000;
inline int64_t duration_ns(const Work& work) { return work_ns + static_cast<int64_t>(work.bytes / 1000); }

// For everything of this library: calls may come from any thread.
std::recursive_mutex& mutex();

int compute_capability();  // FAKE_CUDA_CAPABILITY, 90 for 9.0, which it is by default
int64_t now_ns();

// One call of the program's, from its beginning to its end: what CUPTI's callbacks and activity are told.
class Call {
 public:
  Call(bool of_runtime, const char* name, uint32_t callback_id);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  [[nodiscard]] uint32_t correlation() const { return correlation_; }

 private:
  void tell(bool enters);
  bool of_runtime_;
  const char* name_;
  uint32_t callback_id_;
  uint32_t correlation_;
  int64_t begin_ns_;
};

// Puts `work` into the stream, or into the graph that captures it. cudaErrorStreamCaptureInvalidated: its capture
// broke.
cudaError_t enqueue(Stream* stream, const Work& work, uint32_t correlation);
// The stream of a handle; nullptr and 1 are the default one.
Stream* stream_of(cudaStream_t handle);

// What CUPTI hears (cupti.cpp).
void tell_node(const Node& node, bool cloned);
void record_work(const Work& work, int64_t begin_ns, uint32_t stream, uint32_t correlation, uint64_t node);

}  // namespace fake_cuda
