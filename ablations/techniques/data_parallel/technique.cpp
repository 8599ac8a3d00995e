// Whether several ranks share each batch, and the mean of their gradients.
#include "ablations/techniques/technique.h"

#include "text/figures.h"

#include <fmt/format.h>

#include <cstdlib>

namespace ablations {

using namespace model;

namespace {

Text data_parallel_text();
std::vector<Claim> data_parallel_claims();

Proof prove_data_parallel(const Recipe& recipe, const RunFacts& facts) {
  const auto seen = facts.observations.all_reduces.value_or(Observations::AllReduces());
  const std::string observed =
      fmt::format("{} of {} in a step; its gradients have {}", number_of(seen.calls, "all-reduce"),
                  number_of(seen.bytes, "byte"), number_of(seen.gradient_bytes, "byte"));
  if (recipe.data_parallel == Parallel::none) {
    return {"data_parallel", facts.observations.all_reduces && seen.calls == 0, "a step reduces nothing over ranks",
            observed};
  }
  constexpr int64_t bytes_beside = 8;  // the loss, and whether a rank wants to stop
  return {"data_parallel",
          seen.gradient_bytes > 0 && seen.calls >= 2 && seen.bytes == seen.gradient_bytes + bytes_beside,
          "a step reduces all gradients over the ranks, each once, and 8 bytes of loss and interrupts", observed};
}

std::string obstacle_to_data_parallel(const Recipe& recipe, const harness::Machine&) {
  if (recipe.data_parallel == Parallel::none || std::getenv("WORLD_SIZE") != nullptr) return "";
  return "data_parallel ddp needs ranks, which torchrun or a script for Slurm starts: torchrun --nproc-per-node 2 "
         "--no-python ladder train ...";
}

}  // namespace

Technique data_parallel() {
  return {
      .field = "data_parallel",
      .optimizations = {{.name = "ddp",
                         .title = "data parallel (DDP)",
                         .summary = "Several processes, the ranks, each work on B sequences of their own. All take the "
                                    "same step, with the mean of their gradients, which is taken while the backward "
                                    "pass goes on.",
                         .edit = [](Recipe& r, const harness::Machine&) { r.data_parallel = Parallel::ddp; },
                         .text = data_parallel_text(),
                         .claims = data_parallel_claims()}},
      .obstacle = obstacle_to_data_parallel,
      .prove = prove_data_parallel,
  };
}

// ---- In words

namespace {

Text data_parallel_text() {
  return {
      .mechanism = R"(The loss of a batch is a mean over its sequences, and so is its gradient. N ranks with B
sequences each share the work: each rank computes the gradient of its own part, and the mean of the N gradients is that
of all N x B sequences. All ranks begin with the same weights and take the same step, so they stay the same.

PyTorch's c10d takes the mean by all-reduces, over Gloo between CPUs and over NCCL between GPUs. They go on while the
backward pass computes the gradients of earlier layers:

    rank 0     | backward: layer 12 | layer 11 | ...
    rank 1     | backward: layer 12 | layer 11 | ...
    network                         | layer 12 | layer 11 | ...

With static gradients (`master_weights`) a layer's matrices are reduced once they are complete; other gradients go into
buckets of up to 25 MB. Under a CUDA graph the all-reduces are part of the graph.

For GPT-2 124M a step reduces 498 MB of float32 gradients. In a ring of N ranks each sends 2 (N - 1) / N times as much.
With `--accumulation` only the last micro-step of a step reduces.)",
      .faster = R"(N ranks work at the same time. A step of N x B sequences takes as long as one of B sequences, and the
part of the reduction that the backward pass does not hide.)",
      .costs =
          R"(Each rank holds all weights, gradients and moments, so more GPUs make no room for a larger model. The
batch becomes N times as large, so the learning rate may need to change. If one rank is lost, all end; `--resume` goes
on.)",
      .no_help =
          R"(With few tokens per rank or a slow network the reduction takes longer than the backward pass. On one CPU
two ranks share the cores and the memory that one rank would have alone; there it shows only that the ranks agree.)",
      .pytorch = R"(torch.distributed.init_process_group("nccl")
model = DistributedDataParallel(model, gradient_as_bucket_view=True))",
      .proven = R"(A step gives `c10d::allreduce_` as many bytes as all gradients have, and 8 more. The record has
these bytes, and the scaling efficiency: the time of a step of rank 0 alone, while the others wait, over the time of a
step of all.)",
      .alone = R"(torchrun --nproc-per-node 2 --no-python ladder run --ladder ddp --rung ddp)"};
}

std::vector<Claim> data_parallel_claims() {
  return {{.claim = "near-linear scalability using 256 GPUs",
           .source = {"Li et al. 2020, PyTorch Distributed; ResNet50 and BERT, up to 256 GPUs",
                      "https://arxiv.org/abs/2006.15704"},
           .note = "When configured appropriately, they say. `scaling.efficiency` of a record is the share of "
                   "linear speed that is left.",
           .command = "torchrun --nproc-per-node 8 --no-python ladder run --ladder ddp --rung ddp"}};
}

}  // namespace

}  // namespace ablations
