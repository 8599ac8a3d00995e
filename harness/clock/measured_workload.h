// What the harness measures: anything that has a step. It knows nothing of GPT-2.
#pragma once

namespace harness {

class Workload {
 public:
  virtual ~Workload() = default;
  // Does, or on a GPU only enqueues, one step.
  virtual void step() = 0;
  // Returns when everything enqueued has been done.
  virtual void synchronize() = 0;
  // Whether steps run on the current CUDA stream (and are timed by its events) or on the calling thread.
  [[nodiscard]] virtual bool on_cuda() const = 0;
};

}  // namespace harness
