// Whether query, key and value are one matrix product or three.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Proof prove_qkv_products(const Recipe& recipe, const RunFacts& facts) {
  const int64_t in_a_block = linear_layers(recipe), expected = in_a_block * facts.attentions;
  const Counts& nodes = facts.observations.backward_nodes;
  const char* node = linear_node(recipe);
  const int64_t found = nodes_of(nodes, node);
  return {"qkv_products", found == expected, fmt::format("{} {}, {} for each attention", expected, node, in_a_block),
          fmt::format("{} {}", found, node)};
}

// Three products each convert their input for themselves, if it is not of their type.
void amend_qkv_products(const StepSizes& s, StepTable& table) {
  const bool converts = s.recipe.qkv_products == QkvProducts::three && s.normed > s.low;
  if (converts) table.at("c_attn").kept += 2 * s.BTC * s.low;
}

}  // namespace

Technique qkv_products() {
  return {
      .field = "qkv_products",
      .optimizations =
          {{.name = "packed_qkv",
            .title = "packed QKV product",
            .summary =
                "Query, key and value are one matrix product with a weight of 3C rows, instead of three products "
                "with C rows each. The input is read once, and one large product keeps a processor busier than "
                "three small ones.",
            .edit = [](Recipe& r, const harness::Machine&) { r.qkv_products = QkvProducts::one; }}},
      .amend = amend_qkv_products,
      .prove = prove_qkv_products,
  };
}

}  // namespace ablations
