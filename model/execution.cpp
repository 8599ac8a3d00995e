#include "model/execution.h"

#include <ATen/autocast_mode.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

namespace model {

std::unique_ptr<at::cuda::CUDAGraph> capture(const std::function<void()>& body, cudaStreamCaptureMode mode) {
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  graph->capture_begin(/*pool=*/{0, 0}, mode);
  try {
    body();
  } catch (...) {
    // Out of memory: stream and allocator must not stay capturing.
    try {
      graph->capture_end();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the first exception says what went wrong
    }
    throw;
  }
  graph->capture_end();
  return graph;
}

namespace {

class Eager : public Executor {
 public:
  explicit Eager(std::function<void()> before_body) : before_body_(std::move(before_body)) {}

  void run(const std::function<void()>& body) override {
    before_body_();
    body();
  }

 private:
  std::function<void()> before_body_;
};

class CapturedGraph : public Executor {
 public:
  CapturedGraph(std::function<void()> before_body, std::function<void()> before_replay)
      : before_body_(std::move(before_body)), before_replay_(std::move(before_replay)) {}

  void run(const std::function<void()>& body) override {
    if (eager_runs_ + 1 < runs_before_replay) {
      ++eager_runs_;
      before_body_();
      body();
      return;
    }
    if (!graph_) capture(body);
    before_replay_();
    // Not CUDAGraph::replay(), which also launches kernels that set up random numbers; a step draws none.
    C10_CUDA_CHECK(cudaGraphLaunch(graph_->raw_cuda_graph_exec(), c10::cuda::getCurrentCUDAStream()));
  }

  void recapture() override { graph_.reset(); }

 private:
  void capture(const std::function<void()>& body) {
    before_body_();
    at::autocast::clear_cache();
    // A capture takes its memory from a separate pool, and during it PyTorch frees no cached block. So the blocks that
    // earlier steps cached must be freed first; otherwise both may not fit into the device.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    // Kept only when complete: after an exception (out of memory) the next run must not launch half a graph.
    graph_ = model::capture(body);
  }

  std::function<void()> before_body_, before_replay_;
  int64_t eager_runs_ = 0;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(Execution execution, std::function<void()> before_body,
                                        std::function<void()> before_replay) {
  if (execution == Execution::graph) {
    return std::make_unique<CapturedGraph>(std::move(before_body), std::move(before_replay));
  }
  return std::make_unique<Eager>(std::move(before_body));
}

}  // namespace model
