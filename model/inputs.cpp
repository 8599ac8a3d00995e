#include "model/inputs.h"

#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <algorithm>

namespace model {

using at::Tensor;

Inputs::Inputs(const TokenStream& tokens, int64_t B, int64_t T, int64_t micro_steps, int64_t steps, uint64_t seed,
               at::Device device, int64_t first_step)
    : loader_(tokens, B, T, seed),
      batch_(at::zeros({micro_steps, 2, B, T}, at::TensorOptions().dtype(at::kLong).device(device))) {
  loader_.skip(first_step * micro_steps);
  if (!device.is_cuda()) return;
  constexpr int64_t most_bytes = int64_t{256} << 20;
  const int64_t most = std::clamp<int64_t>(most_bytes / static_cast<int64_t>(batch_.nbytes()), 4, 64);
  pinned_.resize(static_cast<size_t>(std::min(steps + 1, most)));  // one batch more is being copied than was taken
  for (Pinned& pinned : pinned_) {
    pinned.batch = at::empty(batch_.sizes(), at::TensorOptions().dtype(at::kLong).pinned_memory(true));
  }
  copies_ = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStream compute = c10::cuda::getCurrentCUDAStream();
  for (Slot& slot : slots_) {
    slot.batch = at::empty_like(batch_);
    slot.consumed.record(compute);
  }
  prefetch(slots_[turn_]);
}

Inputs::~Inputs() {
  if (copies_) cudaStreamSynchronize(copies_->stream());
}

void Inputs::load(const Tensor& host) {
  for (int64_t i = 0; i < host.size(0); ++i) loader_.next(host[i][0], host[i][1]);
}

void Inputs::prefetch(Slot& slot) {
  pinned_turn_ = (pinned_turn_ + 1) % pinned_.size();
  Pinned& pinned = pinned_[pinned_turn_];
  if (!pinned.copied.query()) pinned.copied.synchronize();
  load(pinned.batch);
  const c10::cuda::CUDAStreamGuard guard(*copies_);
  slot.consumed.block(*copies_);
  slot.batch.copy_(pinned.batch, /*non_blocking=*/true);
  pinned.copied.record(*copies_);
}

void Inputs::advance() {
  if (!copies_) {
    load(batch_);
    return;
  }
  const c10::cuda::CUDAStream compute = c10::cuda::getCurrentCUDAStream();
  Slot& ready = slots_[turn_];
  turn_ = 1 - turn_;
  pinned_[pinned_turn_].copied.block(compute);
  batch_.copy_(ready.batch, /*non_blocking=*/true);
  ready.consumed.record(compute);
  prefetch(slots_[turn_]);
}

}  // namespace model
