// Which matrix products are made in fp8.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"

#include <fmt/format.h>

#include <array>

namespace ablations {

using namespace model;

namespace {

constexpr std::array layers_in_fp8{"c_attn", "c_fc", "mlp_proj"};

std::string fp8_obstacle(const Recipe& recipe, const harness::Machine& machine) {
  if (recipe.fp8 == Fp8::off) return "";
  if (recipe.weights != Weights::master || recipe.autocast != Autocast::bf16) {
    return "fp8 needs autocast bf16 and weights master";
  }
  if (recipe.vocabulary_rows % 16 != 0) {
    return fmt::format("fp8 needs vocabulary_rows that are a multiple of 16, not {}", recipe.vocabulary_rows);
  }
  if (recipe.device == Device::cpu) {
    return recipe.products == Products::aten ? "" : "on a CPU fp8 is emulated, which needs products aten";
  }
  // Ada's and later ones multiply fp8. A scale for each row is Hopper's alone (cuBLAS's documentation, "Scaling
  // modes").
  constexpr int least = 89, with_row_scales = 90;
  const bool needs_row_scales = recipe.fp8 == Fp8::all;
  if (const auto& gpu = machine.gpu) {
    const int has = gpu->compute_capability;
    if (needs_row_scales ? has != with_row_scales : has < least) {
      return fmt::format("fp8{} needs compute capability {}, {} has {:.1f}", needs_row_scales ? " all" : "",
                         needs_row_scales ? "9.0" : "8.9", gpu->name, has / 10.0);
    }
  }
  if (recipe.fp8 == Fp8::all && recipe.qkv_gradient != QkvGradient::joined) return "fp8 all needs qkv_gradient joined";
  if (recipe.deterministic) return "fp8 products are not known to add in the same order in every run";
  return fused_obstacle(recipe, machine);
}

Proof prove_fp8(const Recipe& recipe, const RunFacts& facts) {
  const Counts products = facts.observations.fp8_products.value_or(Counts());
  std::string observed;
  int64_t in_fp8 = 0, other = 0;
  for (const auto& [name, calls] : products) {
    observed += fmt::format("{}{} {}", observed.empty() ? "" : ", ", calls, name);
    (name.ends_with("bf16") ? other : in_fp8) += calls;
  }
  if (observed.empty()) observed = "no fp8 product";
  if (recipe.fp8 == Fp8::off) return {"fp8", products.empty(), "no fp8 product", observed};
  const int64_t head = count(products, "head forward e4m3"), expected = facts.attentions;
  bool all = head > 0 && count(products, "head dgrad e5m2") == head && other == 0;
  int64_t products_expected = 2 * head;
  if (recipe.fp8 == Fp8::all) {
    for (const char* layer : layers_in_fp8) {
      all = all && count(products, fmt::format("{} forward e4m3", layer)) == expected &&
            count(products, fmt::format("{} dgrad e4m3", layer)) == expected;
    }
    products_expected += 2 * static_cast<int64_t>(layers_in_fp8.size()) * expected;
  }
  return {"fp8", all && in_fp8 == products_expected,
          recipe.fp8 == Fp8::head
              ? "the head's products in fp8, none in bf16"
              : fmt::format("the head's products and {} forward and dgrad of each of {} layers in fp8, none in bf16",
                            expected, layers_in_fp8.size()),
          observed};
}

std::string emulated_title(const char* title, const Observations& seen) {
  return seen.parameters_device == "cpu" ? fmt::format("{}, emulated", title) : "";
}

// Weights have two copies of a byte for each number. What is multiplied has one while the product is made; the chunk of
// logits has one of its gradient.
void amend_fp8(const StepSizes& s, StepTable& table) {
  if (s.recipe.fp8 == Fp8::off || s.on_cpu) return;
  const double C = s.C, head = s.rows * C;
  table.copies += 2 * head;
  StepRow& loss = table.at("head_loss");
  loss.working += loss.working / s.low;
  if (s.recipe.fp8 != Fp8::all) return;
  table.copies += 2 * static_cast<double>(s.layers) * (3 + 4 + 4) * C * C;
  table.at("mlp").working += 4 * s.BTC;
}

}  // namespace

Technique fp8() {
  return {
      .field = "fp8",
      .optimizations =
          {{.name = "fp8_head",
            .title = "fp8 head",
            .summary = "The head's products multiply 8-bit numbers: the logits, and the gradient of what they are made "
                       "of. The gradient of the embedding stays a bf16 product.",
            .needs = {"master_weights"},
            .edit = [](Recipe& r, const harness::Machine&) { r.fp8 = Fp8::head; },
            .title_seen = [](const Observations& seen) { return emulated_title("fp8 head", seen); }},
           {.name = "fp8",
            .title = "fp8 products",
            .summary = "The large products multiply 8-bit numbers, forward and for the gradient of their input: head, "
                       "both of the MLP, and query, key, value. Gradients of weights stay bf16 products.",
            .needs = {"master_weights"},
            .edit = [](Recipe& r, const harness::Machine&) { r.fp8 = Fp8::all; },
            .title_seen = [](const Observations& seen) { return emulated_title("fp8 products", seen); }}},
      .obstacle = fp8_obstacle,
      .tolerance = [](const Recipe& recipe) { return recipe.fp8 == Fp8::off ? 0.0 : 2e-2; },
      .amend = amend_fp8,
      .prove = prove_fp8,
  };
}

}  // namespace ablations
