// What ran when: every operation on a CPU; every kernel, copy, set and call of a GPU, graph nodes among them. For a
// process of its own: tracing slows it down and leaves it slower.
#pragma once

#include "harness/labels.h"

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

  [[nodiscard]] bool on_device() const { return kind == Kind::kernel || kind == Kind::copy || kind == Kind::set; }
  [[nodiscard]] int64_t ns() const { return end_ns - begin_ns; }
};

struct Trace {
  std::vector<Activity> activities;  // by their beginning
  int64_t begin_ns = 0, end_ns = 0;  // of the work, host clock of the trace
};

// Runs `work` and records the operations it dispatches, on all threads, outermost ones only.
Trace trace_operations(const Labels& labels, const std::function<void()>& work);

// Runs `prepare`, then `work`, and records what the GPU does for the work: what is captured in `prepare` is known by
// its labels when the work replays it. Both must leave the device idle. Once in a process (CUPTI 13.0 mixes up the
// graph launches of a second session): a second call throws std::logic_error. Throws Unfit (unfit.h) where CUPTI is
// refused, std::runtime_error where it lost records or times.
Trace trace_device(const Labels& labels, const std::function<void()>& prepare, const std::function<void()>& work);

}  // namespace harness
