// Batches on their way to the device.
//
// On a GPU a batch is copied while the step before it computes. It goes from pinned host memory, on a stream of its
// own, into two device buffers that take turns. The host may be many steps ahead of the device. It waits only while all
// its buffers are being copied. They are allocated at the start, because allocating pinned memory in a step may wait
// for the device (CUDA Programming Guide, "Implicit Synchronization"). Batches that are made sequence by sequence come
// from memory that is not pinned, as a naive program has it. There the driver copies when it is asked.
//
// Prefetched batches are made by a thread, one step ahead. It makes no CUDA calls, which a capture would not allow.
#pragma once

#include "model/data.h"
#include "model/prefetcher.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace model {

// What was done for the batches of so many steps.
struct InputWork {
  BatchWork work;
  int64_t steps = 0;
  int64_t by_a_thread = 0;  // of them, made by another thread than the one that took them
  int64_t ready = 0;        // of those, begun before they were asked for
};

class Inputs {
 public:
  // `tokens` must outlive it. `steps`: how many batches there will be. On a GPU there are as many host buffers and
  // one more, with prefetching two more. They are at most 64, and take at most 256 MiB unless four need more. A CPU has
  // one, with prefetching two. `first_step`: how many steps' batches are passed over.
  // Throws as BatchLoader does.
  Inputs(const TokenStream& tokens, int64_t B, int64_t T, int64_t micro_steps, int64_t steps, uint64_t seed,
         at::Device device, Batches batches = Batches::gather, int64_t first_step = 0, const Share& share = {},
         Windows windows = Windows::consecutive);
  // Waits for what still uses the buffers.
  ~Inputs();
  Inputs(const Inputs&) = delete;  // events and streams of its own
  Inputs& operator=(const Inputs&) = delete;

  // Makes the next batch the one below. On a GPU this is only enqueued, on the current stream. Throws as
  // BatchLoader::next.
  void advance();

  // (micro_steps, 2, B, T) int64 on the device, on a GPU always the same memory: [i][0] are the inputs of micro-step i,
  // [i][1] its targets.
  [[nodiscard]] const at::Tensor& batch() const { return batch_; }

  // What was done so far. On a GPU one batch more has been made than steps have had.
  [[nodiscard]] const InputWork& work() const { return work_; }

  // The file that batches come from, in a step or before the first one. Empty: the tokens are of no file.
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

 private:
  struct Host {
    at::Tensor batch;
    c10::cuda::CUDAEvent copied;  // on a GPU
  };
  struct Slot {
    at::Tensor batch;
    c10::cuda::CUDAEvent consumed;
  };

  void load(const at::Tensor& host);
  Host& next_host();
  Host& free_host(size_t turn);
  void copy_ahead(Slot& slot);

  BatchLoader loader_;
  std::filesystem::path file_;
  InputWork work_;
  at::Tensor batch_;
  std::vector<Host> hosts_;
  size_t host_turn_ = 0;                         // the one that was filled last
  std::optional<c10::cuda::CUDAStream> copies_;  // on a GPU, as what follows
  std::array<Slot, 2> slots_;
  size_t turn_ = 0;
  int64_t begun_at_ = 0;                // when so many batches had been asked for the thread began the next one
  std::unique_ptr<Prefetcher> thread_;  // of prefetched batches; uses the loader
};

}  // namespace model
