// How a step is executed, as one plain value. An optimization edits only this struct, so two rungs differ exactly in
// the fields in which their recipes differ.
#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace model {

// The fields' types, each with its values' names in JSON. Files named here are in ablations/techniques.
enum class Device { cpu, cuda };
constexpr auto names_of(Device) { return std::to_array<std::string_view>({"cpu", "cuda"}); }

// What the C library does with a freed tensor. `release` hands big blocks back to the kernel, which zeroes and faults
// them in again at the next step. `keep` leaves them mapped.
enum class HostMemory { release, keep };
constexpr auto names_of(HostMemory) { return std::to_array<std::string_view>({"release", "keep"}); }

// How a batch comes to be. `gather`: all tokens lie in memory, and one pass copies a batch. `tokenized`: the text is
// tokenized in the step. `read`, `mapped`: a token file, read sequence by sequence, or mapped. `preloaded`: all tokens
// lie in memory, and each sequence is copied by itself. `prefetched`: `gather` by a thread, while the step before runs.
enum class Batches { gather, tokenized, read, mapped, preloaded, prefetched };
constexpr auto names_of(Batches) {
  return std::to_array<std::string_view>({"gather", "tokenized", "read", "mapped", "preloaded", "prefetched"});
}

// at::Context's float32 matmul precision: full float32, TF32 (CUDA), or the CPU's oneDNN path.
enum class MatmulPrecision { highest, high, medium };
constexpr auto names_of(MatmulPrecision) { return std::to_array<std::string_view>({"highest", "high", "medium"}); }

enum class Autocast { off, bf16, fp16 };
constexpr auto names_of(Autocast) { return std::to_array<std::string_view>({"off", "bf16", "fp16"}); }

// Query, key and value as one matrix product with the packed weight (3C, C), or as three products with its thirds.
enum class QkvProducts { one, three };
constexpr auto names_of(QkvProducts) { return std::to_array<std::string_view>({"one", "three"}); }

// How the gradients of query, key and value become one matrix, whose sum is the bias's gradient: in two passes or one.
enum class QkvGradient { separate, joined };
constexpr auto names_of(QkvGradient) { return std::to_array<std::string_view>({"separate", "joined"}); }

// `manual` writes the T x T matrix out with plain operations. `packed` is attention/packed.cpp. The others are the
// implementations of scaled_dot_product_attention, of which exactly one is enabled.
enum class Attention { manual, math, efficient, flash, cudnn, packed };
constexpr auto names_of(Attention) {
  return std::to_array<std::string_view>({"manual", "math", "efficient", "flash", "cudnn", "packed"});
}

// `aten`: PyTorch's own operations. `in_place`: the gradient of the logits is written over the log-probabilities
// (cross_entropy/in_place.cpp). `fused`: head and loss are one operation that never holds all logits
// (cross_entropy/head_loss.cpp).
enum class CrossEntropy { aten, in_place, fused };
constexpr auto names_of(CrossEntropy) { return std::to_array<std::string_view>({"aten", "in_place", "fused"}); }

// Who multiplies in the linear layers and the head: the libraries that ATen calls, or products/cpu.cpp.
enum class Products { aten, packed };
constexpr auto names_of(Products) { return std::to_array<std::string_view>({"aten", "packed"}); }

// PyTorch's own operations, or one operation made of several (norm/norm.cpp, mlp/mlp.cpp).
enum class Norm { aten, fused };
constexpr auto names_of(Norm) { return std::to_array<std::string_view>({"aten", "fused"}); }
enum class Mlp { aten, fused };
constexpr auto names_of(Mlp) { return std::to_array<std::string_view>({"aten", "fused"}); }

// Which products are made in fp8: none, those of the head, or also those of c_attn, c_fc and mlp_proj; gradients of
// weights never are (fp8/copies.h). On a CPU they are emulated.
enum class Fp8 { off, head, all };
constexpr auto names_of(Fp8) { return std::to_array<std::string_view>({"off", "head", "all"}); }

// What the residual stream is kept in from the embedding to the last LayerNorm: float32, or autocast's 16-bit type.
enum class Residual { float32, autocast };
constexpr auto names_of(Residual) { return std::to_array<std::string_view>({"float32", "autocast"}); }

enum class Execution { eager, graph };
constexpr auto names_of(Execution) { return std::to_array<std::string_view>({"eager", "graph"}); }

// AdamW tensor by tensor, as operations on tensor lists, or as one fused operation per parameter group.
enum class Optimizer { loop, foreach, fused };
constexpr auto names_of(Optimizer) { return std::to_array<std::string_view>({"loop", "foreach", "fused"}); }

// What is trained. `separate`: float32 weights, which autocast copies to 16 bits in each step, and gradients that
// autograd makes anew. `master`: the tensors that products read. Under bf16 autocast each has the 16 bits that it lacks
// beside it. Gradients stay in place (gradients.h), and one pass makes clipping and AdamW.
enum class Weights { separate, master };
constexpr auto names_of(Weights) { return std::to_array<std::string_view>({"separate", "master"}); }

// Whether one process trains, or several ranks (ranks.h) share each batch and the gradients (data_parallel.h).
enum class Parallel { none, ddp };
constexpr auto names_of(Parallel) { return std::to_array<std::string_view>({"none", "ddp"}); }

struct Recipe {
  Device device = Device::cpu;
  HostMemory host_memory = HostMemory::release;
  Batches batches = Batches::gather;
  MatmulPrecision matmul_precision = MatmulPrecision::highest;
  Autocast autocast = Autocast::off;
  QkvProducts qkv_products = QkvProducts::one;
  QkvGradient qkv_gradient = QkvGradient::separate;
  Attention attention = Attention::manual;
  CrossEntropy cross_entropy = CrossEntropy::aten;
  Residual residual = Residual::float32;
  Products products = Products::aten;
  Norm norm = Norm::aten;
  Mlp mlp = Mlp::aten;
  Execution execution = Execution::eager;
  int64_t vocabulary_rows = 50257;  // rows of the embedding; those beyond the vocabulary are padding
  Optimizer optimizer = Optimizer::loop;
  Weights weights = Weights::separate;
  Fp8 fp8 = Fp8::off;
  Parallel data_parallel = Parallel::none;
  bool deterministic = false;  // PyTorch's deterministic algorithms; on a GPU the same losses to the bit in every run

  bool operator==(const Recipe&) const = default;
};

// The one list of fields: reading JSON, writing JSON and differences all use it.
template <class RecipeType, class Visitor>
void visit_fields(RecipeType& recipe, Visitor&& visit) {
  visit("device", recipe.device);
  visit("host_memory", recipe.host_memory);
  visit("batches", recipe.batches);
  visit("matmul_precision", recipe.matmul_precision);
  visit("autocast", recipe.autocast);
  visit("qkv_products", recipe.qkv_products);
  visit("qkv_gradient", recipe.qkv_gradient);
  visit("attention", recipe.attention);
  visit("cross_entropy", recipe.cross_entropy);
  visit("residual", recipe.residual);
  visit("products", recipe.products);
  visit("norm", recipe.norm);
  visit("mlp", recipe.mlp);
  visit("execution", recipe.execution);
  visit("vocabulary_rows", recipe.vocabulary_rows);
  visit("optimizer", recipe.optimizer);
  visit("weights", recipe.weights);
  visit("fp8", recipe.fp8);
  visit("data_parallel", recipe.data_parallel);
  visit("deterministic", recipe.deterministic);
}

// All fields, always. Throws nothing.
nlohmann::json to_json(const Recipe& recipe);

// `fields` may hold any subset; the rest keeps the values of `base`. Throws std::invalid_argument for an unknown field,
// a wrong type, or a value with what is allowed. The message begins with `where` (a file, "--recipe").
Recipe recipe_from_json(const nlohmann::json& fields, const std::string& where, const Recipe& base = {});

// {"field": [before, after]} for the fields that differ.
nlohmann::json recipe_diff(const Recipe& before, const Recipe& after);

// Why no step under the recipe can have master weights; empty: it can.
std::string master_weights_obstacle(const Recipe& recipe);

// The two values of CUBLAS_WORKSPACE_CONFIG with which cuBLAS is deterministic, according to NVIDIA and ATen.
bool is_deterministic_workspace(std::string_view config);

// The value as in JSON: "bf16".
constexpr std::string_view name_of(Device value) { return names_of(value)[static_cast<size_t>(value)]; }
constexpr std::string_view name_of(Batches value) { return names_of(value)[static_cast<size_t>(value)]; }
constexpr std::string_view name_of(Autocast value) { return names_of(value)[static_cast<size_t>(value)]; }
constexpr std::string_view name_of(Attention value) { return names_of(value)[static_cast<size_t>(value)]; }

}  // namespace model
