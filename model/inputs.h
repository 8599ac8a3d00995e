// Batches on their way to the device.
//
// On a GPU a batch is copied while the step before it computes: host tokens in pinned memory, a stream of their own,
// two buffers on the device that take turns. Nothing here waits on the host, so no more than memory for one batch for
// each step that is enqueued and not yet done is held; the surprising thing: PyTorch's pinned allocator knows when a
// block's copy is over and only then hands it out again, so a fresh block is asked for each time.
#pragma once

#include "model/data.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <optional>

namespace model {

class Inputs {
 public:
  // `tokens` must outlive it. Throws as BatchLoader does.
  Inputs(const TokenStream& tokens, int64_t B, int64_t T, int64_t micro_steps, uint64_t seed, at::Device device);
  // Waits for the copy that is under way, whose buffer goes.
  ~Inputs();
  Inputs(const Inputs&) = delete;  // events and streams of its own
  Inputs& operator=(const Inputs&) = delete;

  // Enqueues the next batch into the tensor below, on the current stream.
  void advance();

  // (micro_steps, 2, B, T) int64 on the device, always the same memory: [i][0] are the inputs of micro-step i, [i][1]
  // its targets.
  [[nodiscard]] const at::Tensor& batch() const { return batch_; }

 private:
  struct Slot {
    at::Tensor batch;
    c10::cuda::CUDAEvent copied, consumed;
  };

  [[nodiscard]] at::Tensor load(bool pinned);
  void prefetch(Slot& slot);

  BatchLoader loader_;
  at::Tensor batch_;
  std::optional<c10::cuda::CUDAStream> copies_;  // on a GPU
  std::array<Slot, 2> slots_;
  size_t turn_ = 0;
};

}  // namespace model
