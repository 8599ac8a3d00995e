#include "model/inputs.h"

#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>

namespace model {

using at::Tensor;

Inputs::Inputs(const TokenStream& tokens, int64_t B, int64_t T, int64_t micro_steps, int64_t steps, uint64_t seed,
               at::Device device, Batches batches, int64_t first_step, const Share& share, Windows windows)
    : loader_(tokens, B, T, seed, batches, share, windows),
      file_(batches == Batches::tokenized ? tokens.text : tokens.file) {
  loader_.skip(first_step * micro_steps);
  const at::TensorOptions on_host = at::TensorOptions().dtype(at::kLong);
  const bool ahead = batches == Batches::prefetched;
  if (device.is_cuda()) {
    batch_ = at::zeros({micro_steps, 2, B, T}, on_host.device(device));
    constexpr int64_t most_bytes = int64_t{256} << 20;
    const int64_t most = std::clamp<int64_t>(most_bytes / static_cast<int64_t>(batch_.nbytes()), 4, 64);
    // One batch more is being copied than was taken, and one more may be being filled.
    hosts_.resize(static_cast<size_t>(std::min(steps + (ahead ? 2 : 1), most)));
  } else {
    hosts_.resize(ahead ? 2 : 1);
  }
  const bool pinned = device.is_cuda() && (ahead || batches == Batches::gather);
  for (Host& host : hosts_) host.batch = at::zeros({micro_steps, 2, B, T}, on_host.pinned_memory(pinned));
  if (!device.is_cuda()) batch_ = hosts_.front().batch;
  if (ahead) {
    thread_ = std::make_unique<Prefetcher>([this](const Tensor& host) { load(host); });
    thread_->begin(hosts_[1].batch);
  }
  if (!device.is_cuda()) return;
  copies_ = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStream compute = c10::cuda::getCurrentCUDAStream();
  for (Slot& slot : slots_) {
    slot.batch = at::empty_like(batch_);
    slot.consumed.record(compute);
  }
  copy_ahead(slots_[turn_]);
}

Inputs::~Inputs() {
  if (copies_) cudaStreamSynchronize(copies_->stream());
}

void Inputs::load(const Tensor& host) {
  for (int64_t i = 0; i < host.size(0); ++i) loader_.next(host[i][0], host[i][1]);
}

// Nothing is being copied from it any more.
Inputs::Host& Inputs::free_host(size_t turn) {
  Host& host = hosts_[turn % hosts_.size()];
  if (copies_ && !host.copied.query()) host.copied.synchronize();
  return host;
}

Inputs::Host& Inputs::next_host() {
  host_turn_ = (host_turn_ + 1) % hosts_.size();
  Host& host = thread_ ? hosts_[host_turn_] : free_host(host_turn_);
  ++work_.steps;
  if (thread_) {
    thread_->take();
    if (begun_at_ < work_.steps) ++work_.ready;
  } else {
    load(host.batch);
  }
  if (loader_.made_by() != ::gettid()) ++work_.by_a_thread;
  work_.work = loader_.work();
  if (thread_) {
    thread_->begin(free_host(host_turn_ + 1).batch);
    begun_at_ = work_.steps;
  }
  return host;
}

void Inputs::copy_ahead(Slot& slot) {
  Host& host = next_host();
  const c10::cuda::CUDAStreamGuard guard(*copies_);
  slot.consumed.block(*copies_);
  slot.batch.copy_(host.batch, /*non_blocking=*/true);
  host.copied.record(*copies_);
}

void Inputs::advance() {
  if (!copies_) {
    batch_ = next_host().batch;
    return;
  }
  const c10::cuda::CUDAStream compute = c10::cuda::getCurrentCUDAStream();
  Slot& ready = slots_[turn_];
  turn_ = 1 - turn_;
  hosts_[host_turn_].copied.block(compute);
  batch_.copy_(ready.batch, /*non_blocking=*/true);
  ready.consumed.record(compute);
  copy_ahead(slots_[turn_]);
}

}  // namespace model
