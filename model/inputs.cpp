#include "model/inputs.h"

#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

namespace model {

using at::Tensor;

Inputs::Inputs(const TokenStream& tokens, int64_t B, int64_t T, int64_t micro_steps, uint64_t seed, at::Device device)
    : loader_(tokens, B, T, seed),
      batch_(at::zeros({micro_steps, 2, B, T}, at::TensorOptions().dtype(at::kLong).device(device))) {
  if (!device.is_cuda()) return;
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

Tensor Inputs::load(bool pinned) {
  Tensor host = at::empty(batch_.sizes(), at::TensorOptions().dtype(at::kLong).pinned_memory(pinned));
  for (int64_t i = 0; i < host.size(0); ++i) loader_.next(host[i][0], host[i][1]);
  return host;
}

void Inputs::prefetch(Slot& slot) {
  const Tensor host = load(/*pinned=*/true);
  const c10::cuda::CUDAStreamGuard guard(*copies_);
  slot.consumed.block(*copies_);
  slot.batch.copy_(host, /*non_blocking=*/true);
  slot.copied.record(*copies_);
}

void Inputs::advance() {
  if (!copies_) {
    batch_.copy_(load(/*pinned=*/false));
    return;
  }
  const c10::cuda::CUDAStream compute = c10::cuda::getCurrentCUDAStream();
  Slot& ready = slots_[turn_];
  turn_ = 1 - turn_;
  ready.copied.block(compute);
  batch_.copy_(ready.batch, /*non_blocking=*/true);
  ready.consumed.record(compute);
  prefetch(slots_[turn_]);
}

}  // namespace model
