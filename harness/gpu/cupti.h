// CUPTI: its one subscriber, and an explanation for the user when a call to CUPTI or CUDA is refused.
#pragma once

#include "harness/observe/labels.h"

#include <cupti.h>
#include <driver_types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

// Throws for everything but success: Unfit with the remedy where the machine refuses (permission, another tool, a
// virtual or partitioned GPU), std::runtime_error otherwise. Both end with what CUPTI said:
// "cuptiRangeProfilerStart: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)".
void check_cupti(const char* call, CUptiResult result);

// Throws std::runtime_error for everything but success.
void check_cuda(const char* call, cudaError_t error);

// As check_cupti, for a first call: whatever error it gives, the machine is the cause.
void check_counters_exist(const char* call, CUptiResult result);

// The one subscriber that CUPTI allows in a process. Released when the work is over, also after an exception.
class CuptiSubscriber {
 public:
  // on_call gets every call to CUDA's run-time library and driver, on the thread that makes it; `user` is handed on to
  // it. Throws as check_cupti.
  CuptiSubscriber(CUpti_CallbackFunc on_call, void* user);
  ~CuptiSubscriber();
  CuptiSubscriber(const CuptiSubscriber&) = delete;  // one owner
  CuptiSubscriber& operator=(const CuptiSubscriber&) = delete;

  // on_call gets this callback of the resource domain, too. Throws as check_cupti.
  void enable_resource(CUpti_CallbackId id);

 private:
  CUpti_SubscriberHandle handle_{};
};

// Which other tool is in a process: "Nsight Systems is attached to this process". It is judged by three facts: its
// /proc/self/maps, the process that traces it (0: none) and its CUDA_INJECTION64_PATH (may be empty). If they do not
// show which tool it is, names all candidates.
std::string attached_tool(std::string_view maps, int64_t tracer, std::string_view injection_path);

// Records what ran when. On a CPU: every operation. On a GPU: every kernel, copy, set and call, graph nodes included.
// Trace in a separate process: tracing slows a process down, and it stays slower afterwards.

struct Activity {
  enum class Kind { operation, kernel, copy, set, call };
  Kind kind;
  std::string name;  // "aten::mm"; a kernel's demangled name; "host to device"; "cudaLaunchKernel"
  Label label;       // of the code that asked for it
  int64_t begin_ns = 0, end_ns = 0;
  uint64_t lane = 0;         // thread (operations, calls) or stream
  uint64_t correlation = 0;  // a call and what it started; 0: none
  int64_t bytes = 0;         // copied or set
  bool in_graph = false;
  int64_t step = 0;  // whose code asked for it

  [[nodiscard]] bool on_device() const { return kind == Kind::kernel || kind == Kind::copy || kind == Kind::set; }
  [[nodiscard]] int64_t ns() const { return end_ns - begin_ns; }
};

struct Trace {
  std::vector<Activity> activities;  // by their beginning
  int64_t steps = 1;
  int64_t begin_ns = 0, end_ns = 0;  // of the steps, host clock of the trace
};

// Runs `step` `steps` times and records the operations that it dispatches, on all threads, outermost ones only.
Trace trace_operations(const Labels& labels, int64_t steps, const std::function<void()>& step);

// Runs `prepare` and waits for the device. Then runs `step` `steps` times, waits again, and records what the GPU does
// for the steps. What `prepare` captured keeps its labels when a step replays it. A process can do this once: CUPTI
// 13.0 mixes up the graph launches of a second session. A second call throws std::logic_error. Throws Unfit (unfit.h)
// where CUPTI is refused, std::runtime_error where it lost records or times.
Trace trace_device(const Labels& labels, const std::function<void()>& prepare, int64_t steps,
                   const std::function<void()>& step);

}  // namespace harness
