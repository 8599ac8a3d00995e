// Records what ran when. On a CPU: every operation. On a GPU: every kernel, copy, set and call, graph nodes included.
// Trace in a separate process: tracing slows a process down, and it stays slower afterwards.
#pragma once

#include "harness/observe/labels.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace harness {

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
