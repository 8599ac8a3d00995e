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

Text products_text();

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
            .text = products_text(),
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

// ---- In words

namespace {

Text products_text() {
  return {
      .mechanism = R"(A matmul reads each number of its two matrices many times. How fast that goes depends on where
they are at that moment. Here a tile of the result, 6 x 16 numbers, stays in the processor's registers. Before that,
both matrices are copied into panels, in the very order in which the tile reads them: 6 numbers of the one, 16 of the
other, and so on. A panel of 768 x 16 numbers takes 48 KB, and stays in the nearest cache while all panels of the other
matrix go by. With AVX-512 the tile has 14 x 32 numbers.

Under bf16 autocast oneDNN multiplies blocks of 128 x 64 numbers (`brgemm`), by AMX where the processor has it, else by
AVX512_BF16. Our loop copies panels and results. Where a gradient is kept in float32, the sums go there as they are.)",
      .faster = R"(ATen leaves float32 matmuls to Intel's MKL, which uses a slower general path on processors of other
makers. This loop uses what the processor has.)",
      .costs =
          R"(Code of our own instead of a library's. The copies take a few percent of the time. On a processor without
AVX512_BF16, bf16 autocast on top of it goes back to the library.)",
      .no_help =
          R"(It is slower on processors for which MKL has its best path. So both are timed at the shapes of the step
before a study or a rung's run begins, and the library keeps the matmuls unless this loop is more than 3 % faster.)",
      .pytorch = R"(y = F.linear(x, weight, bias)    # what it takes the place of)",
      .proven = R"(Autograd's graph has a node of this operation for each linear layer, and none of PyTorch's.)"};
}

}  // namespace

}  // namespace ablations
