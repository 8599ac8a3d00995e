// The processes of one training, its ranks, as torchrun tells each of them in its environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace model {

struct Ranks {
  int64_t rank = 0, size = 1;              // RANK of WORLD_SIZE
  int64_t local_rank = 0, local_size = 1;  // LOCAL_RANK of LOCAL_WORLD_SIZE: of those on this machine
  std::string address = "127.0.0.1";       // MASTER_ADDR, MASTER_PORT: where the ranks find each other
  uint16_t port = 0;                       // 0: any, which only a single rank can have
  bool has_agent = false;                  // TORCHELASTIC_USE_AGENT_STORE: torchrun listens there; else rank 0 does
  std::chrono::seconds timeout{30};        // LADDER_RANK_TIMEOUT: a rank that does not answer for so long is lost

  [[nodiscard]] bool is_first() const { return rank == 0; }
};

// One rank of one where WORLD_SIZE is not set. Throws std::invalid_argument that names the variable for one that is
// missing, no number, or out of range.
Ranks ranks_of_environment();

// Leaves this rank one GPU, which the program sees as its first. It is number LOCAL_RANK of CUDA_VISIBLE_DEVICES, or of
// all. A list of one GPU stays: Slurm has chosen it. Must come before the process looks for GPUs. Throws
// std::invalid_argument for a list that is too short.
void choose_gpu(const Ranks& ranks);

}  // namespace model
