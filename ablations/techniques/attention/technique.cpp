// How attention is computed: with plain operations, or by one of the implementations of scaled_dot_product_attention.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"

#include <fmt/format.h>

namespace ablations {

using harness::Machine;
using namespace model;

namespace {

Text attention_text();
std::vector<Claim> attention_claims();
Text packed_text();

constexpr const char* cudnn_node = "ScaledDotProductCudnnAttentionBackward0";
constexpr const char* efficient_node = "ScaledDotProductEfficientAttentionBackward0";

std::string attention_obstacle(const Recipe& recipe, const Machine& machine) {
  const std::string name(name_of(recipe.attention));
  if (recipe.attention == Attention::packed) {
    if (recipe.device == Device::cpu && recipe.autocast == Autocast::fp16) {
      return "packed attention on a CPU knows float32 and bfloat16, not float16";
    }
    if (recipe.qkv_products != QkvProducts::one) {
      return "packed attention reads what one matmul for query, key and value has computed";
    }
  }
  if (recipe.device == Device::cpu) {
    const bool cuda_only = recipe.attention == Attention::efficient || recipe.attention == Attention::cudnn;
    return cuda_only ? fmt::format("attention {} needs device cuda; a CPU has manual, math, flash, packed", name) : "";
  }
  const bool sixteen_bits = recipe.attention == Attention::flash || recipe.attention == Attention::cudnn ||
                            recipe.attention == Attention::packed;
  if (!sixteen_bits) return "";
  if (recipe.autocast == Autocast::off) {
    return fmt::format("attention {} reads 16-bit types only: autocast bf16 or fp16 before it, or attention efficient",
                       name);
  }
  if (recipe.deterministic && recipe.attention == Attention::cudnn) {
    return "attention cudnn has no deterministic backward pass; attention flash has";
  }
  if (machine.gpu->compute_capability < 80) {
    return fmt::format("attention {} needs compute capability 8.0, {} has {:.1f}", name, machine.gpu->name,
                       machine.gpu->compute_capability / 10.0);
  }
  return "";
}

// The kernels of packed attention on a GPU are FlashAttention's.
std::string packed_is_pointless(const Recipe& recipe, const Machine& /*machine*/) {
  return recipe.attention == Attention::cudnn
             ? "it would replace cuDNN's attention, whose kernels are for this GPU, by FlashAttention's, which are for "
               "compute capability 8.0"
             : "";
}

// The fastest fused attention the device has for the recipe's types.
Attention fastest_attention(const Recipe& recipe, const Machine& machine) {
  if (recipe.device == Device::cpu) return Attention::flash;
  if (recipe.autocast == Autocast::off) return Attention::efficient;  // the others want 16 bits
  if (recipe.deterministic) return Attention::flash;                  // cuDNN's backward pass is not
  const int capability = machine.gpu ? machine.gpu->compute_capability : 0;
  return capability >= 90 ? Attention::cudnn
                          : Attention::flash;  // cuDNN has kernels for Hopper; ATen's flash is Ampere's
}

Proof prove_attention(const Recipe& recipe, const RunFacts& facts) {
  const Counts& nodes = facts.observations.backward_nodes;
  std::string found;
  int64_t fused = 0;
  for (const auto& [name, calls] : nodes) {
    const bool is_fused = name.find("Attention") != std::string::npos;
    if (is_fused) fused += calls;
    if (is_fused || name.find("SoftmaxBackward") != std::string::npos) {
      if (name == "LogSoftmaxBackward0") continue;  // the loss's
      found += fmt::format("{}{} {}", found.empty() ? "" : ", ", calls, name);
    }
  }
  if (found.empty()) found = "no attention node";
  // The plain implementation of scaled_dot_product_attention protects its softmax against rows that are fully masked.
  const int64_t plain = count(nodes, "SoftmaxBackward0"), safe = count(nodes, "SafeSoftmaxBackward0");
  if (recipe.attention == Attention::manual) {
    return {"attention", plain == facts.attentions && safe == 0 && fused == 0,
            fmt::format("{} softmax nodes, no fused attention", facts.attentions), found};
  }
  if (recipe.attention == Attention::math) {
    return {"attention", plain + safe == facts.attentions && fused == 0,
            fmt::format("{} softmax nodes, safe or not, no fused attention", facts.attentions), found};
  }
  if (recipe.attention == Attention::packed) {
    // Also within the other's name.
    const bool on_gpu = recipe.device == Device::cuda;
    const int64_t packed = nodes_of(nodes, "PackedAttention"), by_flash = nodes_of(nodes, "FlashPackedAttention");
    return {"attention",
            packed == facts.attentions && fused == packed && by_flash == (on_gpu ? packed : 0) && plain + safe == 0,
            fmt::format("{} nodes of {}, no other and no softmax node", facts.attentions,
                        on_gpu ? "FlashPackedAttention" : "packed attention"),
            found};
  }
  const std::string node = recipe.attention == Attention::efficient ? efficient_node
                           : recipe.attention == Attention::cudnn   ? cudnn_node
                           : recipe.device == Device::cpu           ? "ScaledDotProductFlashAttentionForCpuBackward0"
                                                                    : "ScaledDotProductFlashAttentionBackward0";
  return {"attention", count(nodes, node) == facts.attentions && plain + safe == 0,
          fmt::format("{} {}, no softmax node", facts.attentions, node), found};
}

std::string flash_title(const Observations& seen) {
  if (seen.backward_nodes.contains(cudnn_node)) return "flash attention (cuDNN)";
  if (seen.backward_nodes.contains(efficient_node)) return "flash attention (memory-efficient)";
  return "";
}

// Without its T x T matrices it keeps the logarithm of each softmax's sum.
void amend_attention(const StepSizes& s, StepTable& table) {
  if (s.recipe.attention == Attention::manual || s.recipe.attention == Attention::math) return;
  StepRow& row = table.at("attention");
  row.matrices = row.working = 0;
  row.kept += f32 * s.BT * s.heads;
}

}  // namespace

Technique attention() {
  return {
      .field = "attention",
      .optimizations =
          {{.name = "flash",
            .title = "flash attention",
            .summary = "Attention is computed block by block without ever writing its T x T matrix to memory. It pays "
                       "more the longer the context is.",
            .edit = [](Recipe& r, const Machine& machine) { r.attention = fastest_attention(r, machine); },
            .title_seen = flash_title,
            .text = attention_text(),
            .claims = attention_claims(),
            .micro_below = "attention_manual",
            .micro = "attention_flash"},
           {.name = "packed_attention",
            .title = "packed attention",
            .summary = "Attention reads queries, keys and values where their product leaves them and writes its result "
                       "where the next product reads it. The T x T matrix is made block by block, on a CPU with matrix "
                       "products of our own, on a GPU with FlashAttention's kernels.",
            .edit = [](Recipe& r, const Machine&) { r.attention = Attention::packed; },
            .pointless = packed_is_pointless,
            .text = packed_text(),
            .replaces = {"self_attention"},
            .by = "packed"}},
      .obstacle = attention_obstacle,
      .amend = amend_attention,
      .prove = prove_attention,
  };
}

// ---- In words

namespace {

Text attention_text() {
  return {
      .mechanism = R"(Written out, attention computes a matrix of T x T scores for each head. At B=16, T=1024 these are
16 x 12 x 1,024 x 1,024 = 201 million numbers in each of 12 layers. They are written, scaled, masked, made into
probabilities and read again.

Flash attention takes a block of queries and goes over the keys and values block by block. A block's scores exist only
in the chip's own memory, which is many times faster (`docs/basics.md` has sizes). For each query it keeps the largest
score so far, m, and the sum of exp(score - m). When a later block has a larger score, all that was summed up so far is
multiplied by exp(old m - new m). With the scores 1 and 3 in one block and 4 in the next:

    after 1, 3    m = 3    sum = exp(1 - 3) + 1              = 1.135
    after 4       m = 4    sum = 1.135 x exp(3 - 4) + 1      = 1.418
    all at once            sum = exp(1 - 4) + exp(3 - 4) + 1 = 1.418

The forward pass leaves the result and one number for each query and head. The backward pass computes the scores again.
Blocks above the diagonal, which the causal mask hides, are left out.

On a GPU `flash` takes a fused attention that the recipe allows: cuDNN's from compute capability 9.0 on,
FlashAttention before that, the memory-efficient one for float32, and never cuDNN's with `--deterministic`. The rung's
title and the record name it.)",
      .faster = R"(It computes a little more and moves far less. At B=16, T=1024 one matrix of scores has 403 MB in 16
bits, and attention written out reads or writes several of them in each layer.)",
      .costs =
          R"(Memory falls: under autocast on a GPU a layer keeps about 6,200 bytes a token for the backward pass (q,
k, v and the result in 16 bits, and a float32 for each head), where attention written out keeps 6,144 + 72 T. At T=1024
that is 92 % less. On a GPU FlashAttention and
cuDNN read 16 bits only, and need compute capability 8.0. FlashAttention's heads have at most 256 numbers.)",
      .no_help =
          R"(Where T is small it gains little: the matmuls of the model grow with T, the matrices of scores with T
squared. On the CPUs in results/evidence it does not pay at T=128: the backward pass of the fused operation takes longer
than the matmuls that it replaces. At T=1024 it is 1.22x.)",
      .pytorch = R"(y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
# was: y = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(future, -inf).softmax(-1) @ v)",
      .proven =
          R"(Autograd's graph has one node of the chosen implementation for each layer and micro-step, and no softmax.)"};
}

std::vector<Claim> attention_claims() {
  return {
      {.claim = "130 -> 96 ms per step, \"27 %\"",
       .source = sources::lecture,
       .about = Claim::About::step,
       .least = 130.0 / 96,
       .most = 130.0 / 96,
       .note = "From 130 to 96 is 26 % less. There both were compiled, which makes attention written out faster."},
      {.claim = "143 -> 113 ms per step, from attention written out; both compiled",
       .source = sources::blog,
       .about = Claim::About::step,
       .least = 143.0 / 113,
       .most = 143.0 / 113,
       .note = "Here neither is compiled."},
      {.claim = "+26 %, with cuDNN's",
       .source = sources::llm_c,
       .about = Claim::About::step,
       .least = 1.26,
       .most = 1.26,
       .note = "There over llm.c's own attention kernels, here over ATen's operations."},
      {.claim = "0.2 -> 0.1 s per step", .source = sources::notes, .about = Claim::About::step, .least = 2, .most = 2},
      {.claim = "memory of attention -90 %, from O(T^2) to O(T)",
       .source = sources::notes,
       .about = Claim::About::activations,
       .note =
           "That is all activations, and all that is less is attention's. Of attention alone it is -92 % at T=1024, "
           "counted; -86 % at T=512, -98 % at T=4096.",
       .command = "ladder ablate --ladder gpt2 -B 1 --sweep context=512,1024,2048,4096 --rung graph --rung flash"},
      {.claim = "1.5x to 2x at T=512, 2x to 4x at T=2048; at T=8192 out of memory without it",
       .source = sources::notes,
       .command = "ladder ablate --ladder gpt2 -B 1 --sweep context=512,2048,8192 --rung graph --rung flash"}};
}

Text packed_text() {
  return {
      .mechanism =
          R"(One matmul computes query, key and value of all heads: for each token a row of 3 C numbers. A head's
share of it is three times 64 numbers, which are C numbers apart. PyTorch's attention takes three tensors and gives the
result of each head by itself.

Here each head reads its shares from the packed rows and writes its share of the result into the rows that the next
matmul reads. On a CPU nothing is rearranged in between. Scores are computed for 32 queries at a time, with all keys up
to them:

    scores of a block at T=256           32 x 256 numbers of 4 bytes, 32 KB: they stay in the cache
    all scores of a head, written out    256 x 256 numbers of 4 bytes, 262 KB

Scores that the causal mask hides are left out, but for those in a block on the diagonal. The backward pass makes the
scores once more, from one number kept for each query and head.

On a GPU these are the kernels of PyTorch's FlashAttention, called on the packed rows. The three gradients are copied
into one afterwards.)",
      .faster = R"(On a CPU nearly half of the scores are never computed, none is written to memory, and no tensor is
copied into another order. On a GPU the host dispatches fewer operations.)",
      .costs = R"(On a CPU: code of our own instead of PyTorch's, all arithmetic in float32, also under bf16 autocast. A
thread takes whole heads: with fewer heads than threads, B x 12 in GPT-2, some have nothing to do. On a GPU
FlashAttention reads 16 bits only, and needs compute capability 8.0 and heads of a multiple of 8 numbers.)",
      .no_help =
          R"(It gains little where attention is a small part of the step: with all other fused rungs on, a two-core AMD
EPYC shows no clear difference from PyTorch's flash attention at B=4, T=256. It can lose on CPUs with AMX, whose 16-bit
matmuls PyTorch's attention uses and this does not. In a CUDA graph no dispatch is left to save. Where `flash` takes
cuDNN's attention, the rung is left out.)",
      .pytorch = R"(q, k, v = qkv.split(C, dim=2)    # and view, transpose, contiguous: what it takes the place of
y = F.scaled_dot_product_attention(q, k, v, is_causal=True)    # what works block by block in PyTorch)",
      .proven = R"(Autograd's graph has one node of the packed attention for each layer and micro-step,
no other attention, and no softmax. The node's name says whether it is FlashAttention.)",
      .alone = "ladder ablate --ladder gpt2-cpu-fused --mode factorial --factors packed_attention"};
}

}  // namespace

}  // namespace ablations
