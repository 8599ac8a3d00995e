// Who multiplies the matrices of the linear layers.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

namespace ablations {

using namespace model;

namespace {

Proof prove_products(const Recipe& recipe, const RunFacts& facts) {
  const Counts& nodes = facts.observations.backward_nodes;
  Recipe by_aten = recipe, by_packed = recipe;
  by_aten.products = Products::aten;
  by_packed.products = Products::packed;
  const int64_t aten = nodes_of(nodes, linear_node(by_aten)), packed = nodes_of(nodes, linear_node(by_packed));
  const std::string observed =
      fmt::format("{} of ATen's linear layers, {} of packed ones", number_of(aten, "node"), packed);
  const int64_t expected = linear_layers(recipe) * facts.attentions;
  if (recipe.products == Products::aten) {
    return {"products", aten == expected && packed == 0, fmt::format("{} nodes of ATen's", expected), observed};
  }
  return {"products", aten == 0 && packed == expected, fmt::format("{} packed ones, none of ATen's", expected),
          observed};
}

// Whether ATen, and so these products (has_packed_bf16), use AVX-512 on a processor that multiplies bfloat16.
bool uses_avx512() {
  const char* const named = std::getenv("ATEN_CPU_CAPABILITY");
  const std::string_view capability = named == nullptr ? "" : named;
  return __builtin_cpu_supports("avx512bf16") != 0 && capability != "avx2" && capability != "default";
}

}  // namespace

std::string packed_obstacle(const Recipe& recipe, const harness::Machine& machine) {
  if (recipe.autocast == Autocast::off) return "";
  if (recipe.autocast == Autocast::fp16) return "packed products know float32 and bfloat16, not float16";
  if (!machine.cpu.has("avx512_bf16")) return "packed products under bf16 autocast need a CPU with avx512_bf16";
  return uses_avx512() ? "" : "packed products under bf16 autocast need AVX-512, which this process does not use";
}

Technique products() {
  return {
      .field = "products",
      .optimizations =
          {{.name = "packed_products",
            .title = "packed products",
            .summary =
                "The linear layers multiply with a loop of our own, which copies both matrices into the order in "
                "which it reads them, instead of the library that ATen calls. In full float32, or under bf16 autocast "
                "on "
                "processors with AVX512_BF16.",
            .edit = [](Recipe& r, const harness::Machine&) { r.products = Products::packed; },
            .replaces = {"qkv", "linear_attn_proj", "linear_c_fc", "linear_mlp_proj", "head"},
            .by = "packed"}},
      .obstacle = [](const Recipe& recipe, const harness::Machine& machine) -> std::string {
        if (recipe.products == Products::aten) return "";
        if (recipe.device == Device::cuda) return "packed products are an optimization of steps on the CPU";
        return packed_obstacle(recipe, machine);
      },
      .prove = prove_products,
  };
}

}  // namespace ablations
