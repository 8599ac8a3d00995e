#include "ablations/plan/optimizations.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace ablations {

using harness::Machine;
using namespace model;

namespace {

std::string cpu_only(const Recipe& recipe, const Machine&) {
  return recipe.device == Device::cpu ? "" : "an optimization of steps on the CPU";
}

// ATen asks oneDNN for float32 products only where that has kernels for bfloat16 (dnnl's avx512_core or avx2_vnni_2);
// elsewhere they stay MKL's, whatever the precision says.
std::string onednn_obstacle(const Recipe& recipe, const Machine& machine) {
  if (recipe.device != Device::cpu) return cpu_only(recipe, machine);
  if (machine.cpu.has("avx512f") || machine.cpu.has("avx_ne_convert")) return "";
  return "this CPU has neither avx512f nor avx_ne_convert, so ATen leaves float32 products to MKL";
}

// Faster than float32 only where the processor multiplies bfloat16.
std::string bf16_obstacle(const Recipe& recipe, const Machine& machine) {
  if (recipe.device == Device::cuda || machine.cpu.has("avx512_bf16") || machine.cpu.has("amx_bf16")) return "";
  return "this CPU has neither avx512_bf16 nor amx_bf16";
}

std::string attention_obstacle(const Recipe& recipe, const Machine& machine) {
  const std::string name(name_of(recipe.attention));
  if (recipe.device == Device::cpu) {
    const bool cuda_only = recipe.attention == Attention::efficient || recipe.attention == Attention::cudnn;
    return cuda_only ? fmt::format("attention {} needs device cuda; a CPU has manual, math, flash", name) : "";
  }
  if (recipe.attention != Attention::flash && recipe.attention != Attention::cudnn) return "";
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

// The fastest fused attention the device has for the recipe's types.
Attention fastest_attention(const Recipe& recipe, const Machine& machine) {
  if (recipe.device == Device::cpu) return Attention::flash;
  if (recipe.autocast == Autocast::off) return Attention::efficient;  // the others want 16 bits
  if (recipe.deterministic) return Attention::flash;                  // cuDNN's backward pass is not
  const int capability = machine.gpu ? machine.gpu->compute_capability : 0;
  return capability >= 90 ? Attention::cudnn
                          : Attention::flash;  // cuDNN has kernels for Hopper; ATen's flash is Ampere's
}

// To the next multiple of 128: 50257 -> 50304.
int64_t padded(int64_t rows) { return (rows + 127) / 128 * 128; }

}  // namespace

const std::vector<Optimization>& registry() {
  static const std::vector<Optimization> optimizations{
      {.name = "gpu",
       .title = "GPU",
       .summary =
           "Weights, optimizer state and activations live on the GPU and every operation runs there. Arithmetic stays "
           "full float32.",
       .edit = [](Recipe& r, const Machine&) { r.device = Device::cuda; }},
      {.name = "memory",
       .title = "keep host memory",
       .summary = "The C library keeps the memory of freed tensors instead of handing it back to the kernel, which "
                  "would zero it and fault it in again page by page at the next step. Results do not change by a bit.",
       .edit = [](Recipe& r, const Machine&) { r.host_memory = HostMemory::keep; },
       .pointless = cpu_only},
      {.name = "onednn",
       .title = "oneDNN products",
       .summary = "Matrix products of float32 tensors go to oneDNN instead of MKL (ATen's matmul precision "
                  "\"medium\"). Whether they stay float32 or become bfloat16 is the CPU's affair: the fingerprint "
                  "tells.",
       .excludes = {"tf32"},
       .edit = [](Recipe& r, const Machine&) { r.matmul_precision = MatmulPrecision::medium; },
       .pointless = onednn_obstacle},
      {.name = "tf32",
       .title = "TF32",
       .summary =
           "Matrix products of float32 tensors run on tensor cores, which read 10 bits of the mantissa and add up in "
           "float32. Nothing else changes type.",
       .needs = {"gpu"},
       .excludes = {"onednn"},
       .edit = [](Recipe& r, const Machine&) { r.matmul_precision = MatmulPrecision::high; }},
      {.name = "bf16",
       .title = "bf16 autocast",
       .summary = "Matrix products and attention read and write bfloat16: half the bytes and faster arithmetic. "
                  "Weights, loss and optimizer stay float32; a step copies the weights to bfloat16, which at small "
                  "batches takes more memory than the activations save.",
       .excludes = {"fp16"},
       .edit = [](Recipe& r, const Machine&) { r.autocast = Autocast::bf16; },
       .pointless = bf16_obstacle},
      {.name = "fp16",
       .title = "fp16 autocast",
       .summary = "As bf16, with float16: more mantissa, less range. The loss is scaled so that small gradients do not "
                  "vanish, and a step whose gradients overflow is skipped.",
       .needs = {"gpu"},
       .excludes = {"bf16"},
       .edit = [](Recipe& r, const Machine&) { r.autocast = Autocast::fp16; }},
      {.name = "graph",
       .title = "graph capture",
       .summary =
           "The whole step is recorded once as a CUDA graph and replayed with a single launch; its kernels stay "
           "the same. It gains at small batches, where the host takes longer to launch a step's kernels than the "
           "GPU to run them; most of torch.compile's gain comes from fused kernels, not from fewer launches.",
       .needs = {"gpu"},
       .edit = [](Recipe& r, const Machine&) { r.execution = Execution::graph; }},
      {.name = "flash",
       .title = "flash attention",
       .summary = "Attention is computed block by block without ever writing its T x T matrix to memory. It pays more "
                  "the longer the context is.",
       .edit = [](Recipe& r, const Machine& machine) { r.attention = fastest_attention(r, machine); }},
      {.name = "vocab",
       .title = "vocabulary 50304",
       .summary = "The embedding gets 47 rows that no token uses, so that its matrix products divide evenly into "
                  "tiles. The loss at the start rises by ln(50304/50257) = 0.0009, because the softmax has 47 more "
                  "terms.",
       .edit = [](Recipe& r, const Machine&) { r.vocabulary_rows = padded(r.vocabulary_rows); }},
      {.name = "foreach",
       .title = "foreach AdamW",
       .summary = "The optimizer works on lists of tensors instead of one tensor after another, which saves kernel "
                  "launches. The arithmetic is the same.",
       .excludes = {"fused_adamw"},
       .edit = [](Recipe& r, const Machine&) { r.optimizer = Optimizer::foreach; }},
      {.name = "fused_adamw",
       .title = "fused AdamW",
       .summary = "One operation per parameter group reads gradient, moments and weight once and writes them once. "
                  "Clipping the gradients happens in the same pass.",
       .edit = [](Recipe& r, const Machine&) { r.optimizer = Optimizer::fused; }},
      {.name = "in_place_loss",
       .title = "in-place loss",
       .summary =
           "The gradient of the loss is written over the log-probabilities of the forward pass, number by number. "
           "PyTorch's own steps lead there by further matrices of B x T x V numbers, in float32 under autocast.",
       .edit = [](Recipe& r, const Machine&) { r.cross_entropy = CrossEntropy::in_place; }},
      {.name = "residual16",
       .title = "16-bit residual stream",
       .summary = "What the blocks add to one another, and LayerNorm with it, stays in autocast's 16-bit type, where "
                  "PyTorch's autocast keeps float32: half the bytes, and no conversion before each matrix product.",
       .edit =
           [](Recipe& r, const Machine&) {
             r.residual = r.autocast == Autocast::off ? Residual::float32 : Residual::autocast;
           }},
  };
  return optimizations;
}

std::string recipe_obstacle(const Recipe& recipe, const Machine& machine) {
  if (recipe.residual == Residual::autocast && recipe.autocast == Autocast::off) {
    return "residual autocast needs autocast bf16 or fp16";
  }
  if (recipe.device == Device::cpu) {
    if (recipe.execution == Execution::graph) return "execution graph needs device cuda";
    return attention_obstacle(recipe, machine);
  }
  if (!machine.gpu) return machine.no_gpu_reason;
  const auto needs_ampere = [&](const char* what) {
    return fmt::format("{} needs compute capability 8.0, {} has {:.1f}", what, machine.gpu->name,
                       machine.gpu->compute_capability / 10.0);
  };
  const bool ampere = machine.gpu->compute_capability >= 80;
  if (recipe.matmul_precision == MatmulPrecision::medium) {
    return "matmul_precision medium is the CPU's; device cuda has highest and high";
  }
  if (recipe.matmul_precision == MatmulPrecision::high && !ampere) return needs_ampere("matmul_precision high (TF32)");
  if (recipe.autocast == Autocast::bf16 && !ampere) return needs_ampere("autocast bf16");
  return attention_obstacle(recipe, machine);
}

std::string Optimization::obstacle(const Recipe& recipe, const Machine& machine) const {
  if (std::string reason = pointless ? pointless(recipe, machine) : ""; !reason.empty()) return reason;
  for (const std::string& need : needs) {
    if (find_optimization(need)->is_on(recipe, machine)) continue;
    return need == "gpu" && !machine.gpu ? machine.no_gpu_reason : fmt::format("needs \"{}\"", need);
  }
  Recipe edited = recipe;
  edit(edited, machine);
  return recipe_obstacle(edited, machine);
}

bool Optimization::is_on(const Recipe& recipe, const Machine& machine) const {
  Recipe edited = recipe;
  edit(edited, machine);
  return edited == recipe;
}

const Optimization* find_optimization(const std::string& name) {
  for (const Optimization& optimization : registry()) {
    if (optimization.name == name) return &optimization;
  }
  return nullptr;
}

bool is_meant(const std::string& typed, const std::string& name, const std::string& title) {
  const auto words_of = [](const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) {
      for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
      if (word != "+") words.push_back(word);
    }
    return words;
  };
  const std::vector<std::string> given = words_of(typed), wanted = words_of(title);
  if (given == words_of(name)) return true;
  return !given.empty() && !wanted.empty() && given.front() == wanted.front() &&
         std::ranges::all_of(wanted,
                             [&](const std::string& word) { return std::ranges::find(given, word) != given.end(); });
}

std::string title_after_proof(const Optimization& optimization, const nlohmann::json& observations) {
  const nlohmann::json::json_pointer float32_precision("/fingerprint/float32/precision");
  if (optimization.name == "onednn" && observations.contains(float32_precision) &&
      observations.at(float32_precision).is_string()) {
    const std::string precision = observations.at(float32_precision);
    return precision == "float32" ? "oneDNN float32 products" : fmt::format("oneDNN {} products", precision);
  }
  if (optimization.name == "flash" && observations.contains("backward_nodes")) {
    const auto& nodes = observations.at("backward_nodes");
    if (nodes.contains("ScaledDotProductCudnnAttentionBackward0")) return "flash attention (cuDNN)";
    if (nodes.contains("ScaledDotProductEfficientAttentionBackward0")) return "flash attention (memory-efficient)";
  }
  return optimization.title;
}

}  // namespace ablations
