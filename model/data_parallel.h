// Data parallel training (Li et al. 2020, "PyTorch Distributed"). Each rank works on its share of a batch. All take the
// same step with the mean of their gradients. PyTorch's c10d does the work. Its Reducer puts gradients into buckets and
// averages each bucket while the backward pass goes on: by Gloo on CPUs, by NCCL on GPUs.
#pragma once

#include "model/gpt2.h"
#include "model/ranks.h"
#include "model/recipe.h"

#include <ATen/ATen.h>

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
  // Returns when all ranks are there. `work`: what must be the same on all of them, a line each. The parameters must
  // outlive it. Throws std::invalid_argument for a rank that has other work than rank 0. Throws LostRank if one does
  // not come within twice Ranks::timeout. On a GPU throws std::runtime_error if the program was built without NCCL.
  DataParallel(const Ranks& ranks, const std::vector<Parameter>& parameters, const std::vector<std::string>& work);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;  // autograd calls its hooks
  DataParallel& operator=(const DataParallel&) = delete;

  // All ranks call these in the same order. Each throws LostRank.

  // Copies rank 0's values into the tensors of all ranks.
  void copy_from_first(const std::vector<at::Tensor>& tensors);
  // loss.backward(). Afterwards each gradient is the mean over all ranks, with what was accumulated before. On a GPU
  // this is only enqueued.
  void backward(const at::Tensor& loss);
  // The mean of a tensor over all ranks; on a GPU it is enqueued.
  [[nodiscard]] at::Tensor mean(const at::Tensor& tensor);
  // Whether `value` is true on some rank. Also waits until all ranks are there; the GPU goes on.
  [[nodiscard]] bool any(bool value);

 private:
  struct Group;  // c10d's objects
  Ranks ranks_;
  std::unique_ptr<Group> group_;
};

}  // namespace model
