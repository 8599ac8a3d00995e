#include "model/execution.h"

#include <ATen/autocast_mode.h>
#include <ATen/cuda/CUDAGraph.h>

namespace model {
namespace {

class Eager : public Executor {
 public:
  void run(const std::function<void()>& body) override { body(); }
};

class CapturedGraph : public Executor {
 public:
  explicit CapturedGraph(std::function<void()> before_capture) : before_capture_(std::move(before_capture)) {}

  void run(const std::function<void()>& body) override {
    if (eager_runs_ < warm_up_runs) {
      ++eager_runs_;
      body();
      return;
    }
    if (!graph_) {
      before_capture_();
      at::autocast::clear_cache();
      graph_ = std::make_unique<at::cuda::CUDAGraph>();
      graph_->capture_begin();
      body();
      graph_->capture_end();
    }
    graph_->replay();
  }

  void recapture() override { graph_.reset(); }

 private:
  static constexpr int warm_up_runs = 3;  // cuBLAS handles and workspaces, attention plans, module loading

  std::function<void()> before_capture_;
  int eager_runs_ = 0;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(Execution execution, std::function<void()> before_capture) {
  if (execution == Execution::graph) return std::make_unique<CapturedGraph>(std::move(before_capture));
  return std::make_unique<Eager>();
}

}  // namespace model
