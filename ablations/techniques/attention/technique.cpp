// How attention is computed: with plain operations, or by one of the implementations of scaled_dot_product_attention.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"

#include <fmt/format.h>

namespace ablations {

using harness::Machine;
using namespace model;

namespace {

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
            .title_seen = flash_title},
           {.name = "packed_attention",
            .title = "packed attention",
            .summary = "Attention reads queries, keys and values where their product leaves them and writes its result "
                       "where the next product reads it. The T x T matrix is made block by block, on a CPU with matrix "
                       "products of our own, on a GPU with FlashAttention's kernels.",
            .edit = [](Recipe& r, const Machine&) { r.attention = Attention::packed; },
            .pointless = packed_is_pointless,
            .replaces = {"self_attention"},
            .by = "packed"}},
      .obstacle = attention_obstacle,
      .amend = amend_attention,
      .prove = prove_attention,
  };
}

}  // namespace ablations
