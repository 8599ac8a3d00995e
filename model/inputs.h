// Batches on their way to the device.
//
// On a GPU a batch is copied while the step before it computes: from pinned host memory, on a stream of its own, into
// two device buffers that take turns. The host may be many steps ahead of the device and waits only while all its
// pinned buffers are being copied. They are allocated at the start, because allocating pinned memory in a step may wait
// for the device (CUDA Programming Guide, "Implicit Synchronization").
#pragma once

#include "model/data.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <optional>
#include <vector>

namespace model {

class Inputs {
 public:
  // `tokens` must outlive it. `steps`: how many batches there will be; a pinned buffer for each, up to 64 and, beyond
  // four, 256 MiB of them. `first_step`: how many steps' batches are passed over. Throws as BatchLoader does.
  Inputs(const TokenStream& tokens, int64_t B, int64_t T, int64_t micro_steps, int64_t steps, uint64_t seed,
         at::Device device, int64_t first_step = 0);
  // Waits for a copy that still uses the buffers.
  ~Inputs();
  Inputs(const Inputs&) = delete;  // events and streams of its own
  Inputs& operator=(const Inputs&) = delete;

  // Enqueues the next batch into the tensor below, on the current stream.
  void advance();

  // (micro_steps, 2, B, T) int64 on the device, always the same memory: [i][0] are the inputs of micro-step i, [i][1]
  // its targets.
  [[nodiscard]] const at::Tensor& batch() const { return batch_; }

 private:
  struct Pinned {
    at::Tensor batch;
    c10::cuda::CUDAEvent copied;
  };
  struct Slot {
    at::Tensor batch;
    c10::cuda::CUDAEvent consumed;
  };

  void load(const at::Tensor& host);
  void prefetch(Slot& slot);

  BatchLoader loader_;
  at::Tensor batch_;
  std::optional<c10::cuda::CUDAStream> copies_;  // on a GPU, as what follows
  std::vector<Pinned> pinned_;
  size_t pinned_turn_ = 0;  // the one that was copied last
  std::array<Slot, 2> slots_;
  size_t turn_ = 0;
};

}  // namespace model
