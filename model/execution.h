// How the operations of a step reach the device: one by one, or captured once as a CUDA graph and replayed.
#pragma once

#include "model/recipe.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace at::cuda {
struct CUDAGraph;
}

namespace model {

// What the body enqueues on the current stream, which must not be the default one. Nothing of it runs. If the body
// throws, the stream is as it was before.
std::unique_ptr<at::cuda::CUDAGraph> capture(const std::function<void()>& body,
                                             cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal);

// Runs of a graph's executor before it only replays. Three eager ones create cuBLAS handles, workspaces and attention
// plans, and load modules. The fourth captures.
inline constexpr int64_t runs_before_replay = 4;

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs the body, or replays it. The body must use only tensors that stay in place. It must draw no random numbers: a
  // replay would draw the same ones again. It must take no number from the host that changes from step to step.
  virtual void run(const std::function<void()>& body) = 0;
  // Drops the captured graph: the next run captures again.
  virtual void recapture() {}
};

// before_body: called each time before the body itself runs, not before a replay. It drops the gradients. A capture
// must create them in the graph's own memory, which each replay then overwrites. A graph is captured at run
// `runs_before_replay`. It needs one non-default CUDA stream throughout. `before_replay`: called each time before the
// graph is launched.
std::unique_ptr<Executor> make_executor(Execution execution, std::function<void()> before_body,
                                        std::function<void()> before_replay);

}  // namespace model
