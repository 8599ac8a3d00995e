// Matrix products and attention in 16 bits.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fingerprint.h"
#include "ablations/techniques/fused.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>

namespace ablations {

using harness::Machine;
using namespace model;

namespace {

// Faster than float32 only where the processor multiplies bfloat16.
std::string bf16_is_pointless(const Recipe& recipe, const Machine& machine) {
  if (recipe.device == Device::cuda || machine.cpu.has("avx512_bf16") || machine.cpu.has("amx_bf16")) return "";
  return "this CPU has neither avx512_bf16 nor amx_bf16";
}

std::string autocast_obstacle(const Recipe& recipe, const Machine& machine) {
  if (recipe.device == Device::cpu || recipe.autocast != Autocast::bf16) return "";
  if (machine.gpu->compute_capability >= 80) return "";
  return fmt::format("autocast bf16 needs compute capability 8.0, {} has {:.1f}", machine.gpu->name,
                     machine.gpu->compute_capability / 10.0);
}

// Measured: the bfloat16 rungs in results/evidence differ by 0.0003 nats at most from float32.
double autocast_tolerance(const Recipe& recipe) { return recipe.autocast == Autocast::off ? 0 : 1e-2; }

int64_t low_precision_products(const Counts& products) {
  int64_t sum = 0;
  for (const auto& [name, calls] : products) {
    for (const std::string_view prefix :
         {"onednn matmul bf16", "onednn matmul f16", "onednn inner_product bf16", "mkl gemm_bf16", "packed bf16"}) {
      if (name.starts_with(prefix)) sum += calls;
    }
  }
  return sum;
}

Proof prove_autocast(const Recipe& recipe, const RunFacts& facts) {
  const Observations& seen = facts.observations;
  const std::string &precision = seen.fingerprint.autocast.precision, &dtype = seen.logits.dtype;
  const int64_t low = low_precision_products(seen.matrix_products.value_or(Counts()));
  std::string observed =
      fmt::format("logits {}; product under autocast: {}", dtype, in_words(seen.fingerprint.autocast));
  if (seen.matrix_products) observed += fmt::format("; {} low-precision products in a step", low);
  switch (recipe.autocast) {
    case Autocast::off:
      return {"autocast", dtype == "Float" && low == 0, "logits Float; no low-precision product in a step", observed};
    case Autocast::bf16:
      return {"autocast", dtype == "BFloat16" && precision == "bfloat16" && (!seen.matrix_products || low > 0),
              "logits BFloat16; a product under autocast has bfloat16's error; a step makes low-precision products",
              observed};
    case Autocast::fp16:
      return {"autocast", dtype == "Half" && precision == "tf32 or float16",
              "logits Half; a product under autocast has float16's error", observed};
  }
  return {"autocast", false, "", observed};
}

}  // namespace

Technique autocast() {
  return {
      .field = "autocast",
      .optimizations =
          {{.name = "bf16",
            .title = "bf16 autocast",
            .summary = "Matrix products and attention read and write bfloat16: half the bytes and faster arithmetic. "
                       "Weights, loss and optimizer stay float32; a step copies the weights to bfloat16, which at "
                       "small batches takes more memory than the activations save.",
            .excludes = {"fp16"},
            .edit =
                [](Recipe& r, const Machine& machine) {
                  r.autocast = Autocast::bf16;
                  if (!packed_obstacle(r, machine).empty()) r.products = Products::aten;
                },
            .pointless = bf16_is_pointless},
           {.name = "fp16",
            .title = "fp16 autocast",
            .summary = "As bf16, with float16: more mantissa, less range. The loss is scaled so that small gradients "
                       "do not vanish, and a step whose gradients overflow is skipped.",
            .needs = {"gpu"},
            .excludes = {"bf16"},
            .edit = [](Recipe& r, const Machine&) { r.autocast = Autocast::fp16; }}},
      .obstacle = autocast_obstacle,
      .tolerance = autocast_tolerance,
      .prove = prove_autocast,
  };
}

}  // namespace ablations
