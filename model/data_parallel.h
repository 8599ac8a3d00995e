// Data parallel training (Li et al. 2020, "PyTorch Distributed"). Each rank works on its share of a batch. All take the
// same step with the mean of their gradients. PyTorch's c10d does the work, by Gloo on CPUs, by NCCL on GPUs. It
// reduces static gradients in their own buffer (gradients.h). For others its Reducer has buckets. Both do it while the
// backward pass goes on.
#pragma once

#include "model/gpt2.h"
#include "model/gradients.h"
#include "model/ranks.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAEvent.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace model {

// Another rank has ended, or does not answer for Ranks::timeout.
class LostRank : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class DataParallel {
 public:
  // Returns when all ranks are there. `work`: what must be the same on all of them, a line each. `gradients`: static
  // ones, or null. They and the parameters must outlive it. Throws std::invalid_argument for a rank that has other work
  // than rank 0. Throws LostRank if one does not come within twice Ranks::timeout. On a GPU throws std::runtime_error
  // if the program was built without NCCL.
  DataParallel(const Ranks& ranks, const std::vector<Parameter>& parameters, Gradients* gradients,
               const std::vector<std::string>& work);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;  // autograd calls its hooks
  DataParallel& operator=(const DataParallel&) = delete;

  // All ranks call these in the same order. Each throws LostRank.

  // Copies rank 0's values into the tensors of all ranks.
  void copy_from_first(const std::vector<at::Tensor>& tensors);
  // loss.backward(). Afterwards each gradient is the mean over all ranks, with what was accumulated before. Returns the
  // mean of `values` (2) float32. Where gradients are static, both are sums over all ranks. On a GPU this is only
  // enqueued, and may be captured.
  [[nodiscard]] at::Tensor backward(const at::Tensor& loss, const at::Tensor& values);
  // The mean of a tensor over all ranks; on a GPU it is enqueued.
  [[nodiscard]] at::Tensor mean(const at::Tensor& tensor);
  // Waits until all ranks are there; the GPU goes on.
  void wait_for_ranks();

  // Waits for what the GPU does with other ranks. Throws LostRank if that takes longer than Ranks::timeout.
  void wait_for(const c10::cuda::CUDAEvent& event) const;

 private:
  struct Group;  // c10d's objects
  Ranks ranks_;
  Gradients* gradients_;
  std::unique_ptr<Group> group_;
};

}  // namespace model
