// In what precision matrix products of float32 tensors are made.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fingerprint.h"

#include <fmt/format.h>

namespace ablations {

using harness::Machine;
using namespace model;

namespace {

// ATen uses oneDNN for float32 products only if oneDNN has bfloat16 kernels (dnnl's avx512_core or avx2_vnni_2).
// Otherwise MKL makes them, whatever the precision is. Of each set one flag is looked for.
std::string onednn_is_pointless(const Recipe& recipe, const Machine& machine) {
  if (recipe.device != Device::cpu) return "an optimization of steps on the CPU";
  if (machine.cpu.has("avx512f") || machine.cpu.has("avx_ne_convert")) return "";
  return "this CPU has neither avx512f nor avx_ne_convert, so ATen leaves float32 products to MKL";
}

std::string matmul_precision_obstacle(const Recipe& recipe, const Machine& machine) {
  if (recipe.device == Device::cpu) return "";
  if (recipe.matmul_precision == MatmulPrecision::medium) {
    return "matmul_precision medium is the CPU's; device cuda has highest and high";
  }
  if (recipe.matmul_precision == MatmulPrecision::high && machine.gpu->compute_capability < 80) {
    return fmt::format("matmul_precision high (TF32) needs compute capability 8.0, {} has {:.1f}", machine.gpu->name,
                       machine.gpu->compute_capability / 10.0);
  }
  return "";
}

// TF32 rounds between float32 and bfloat16, so its limit is between theirs.
double matmul_precision_tolerance(const Recipe& recipe) {
  switch (recipe.matmul_precision) {
    case MatmulPrecision::highest:
      return 1e-3;
    case MatmulPrecision::high:
      return 5e-3;
    case MatmulPrecision::medium:
      return 1e-2;  // oneDNN may take bfloat16
  }
  return 0;
}

Proof prove_precision(const Recipe& recipe, const RunFacts& facts) {
  const Observations& seen = facts.observations;
  const std::string& read_back = seen.matmul_precision.aten;
  const std::string& precision = seen.fingerprint.float32.precision;
  const bool on_cuda = recipe.device == Device::cuda;
  const std::string observed =
      fmt::format("ATen says {}{}; float32 product: {}", read_back,
                  on_cuda ? ", cuBLAS " + seen.matmul_precision.backend : "", in_words(seen.fingerprint.float32));
  switch (recipe.matmul_precision) {
    case MatmulPrecision::highest:
      return {"matmul_precision",
              read_back == "highest" && precision == "float32" && (!on_cuda || seen.matmul_precision.backend == "ieee"),
              on_cuda ? "ATen says highest, cuBLAS ieee; a float32 product has float32's error"
                      : "ATen says highest; a float32 product has float32's error",
              observed};
    case MatmulPrecision::high:
      return {"matmul_precision",
              read_back == "high" && seen.matmul_precision.backend == "tf32" && precision == "tf32 or float16",
              "ATen says high, the backend tf32; a float32 product has TF32's error", observed};
    case MatmulPrecision::medium:
      return {"matmul_precision",
              read_back == "medium" && seen.fingerprint.float32.kernel.value_or("").starts_with("onednn matmul"),
              "ATen says medium; a float32 product is oneDNN's (its error tells in which precision)", observed};
  }
  return {"matmul_precision", false, "", observed};
}

std::string onednn_title(const Observations& seen) {
  const std::string& precision = seen.fingerprint.float32.precision;
  return precision.empty() ? "" : fmt::format("oneDNN {} products", precision);
}

}  // namespace

Technique matmul_precision() {
  return {
      .field = "matmul_precision",
      .optimizations =
          {{.name = "onednn",
            .title = "oneDNN products",
            .summary = "Matrix products of float32 tensors go to oneDNN instead of MKL (ATen's matmul precision "
                       "\"medium\"). Whether they stay float32 or become bfloat16 is the CPU's affair: the "
                       "fingerprint tells.",
            .excludes = {"tf32"},
            .edit = [](Recipe& r, const Machine&) { r.matmul_precision = MatmulPrecision::medium; },
            .pointless = onednn_is_pointless,
            .title_seen = onednn_title},
           {.name = "tf32",
            .title = "TF32",
            .summary = "Matrix products of float32 tensors run on tensor cores, which read 10 bits of the mantissa "
                       "and add up in float32. Nothing else changes type.",
            .needs = {"gpu"},
            .excludes = {"onednn"},
            .edit = [](Recipe& r, const Machine&) { r.matmul_precision = MatmulPrecision::high; }}},
      .obstacle = matmul_precision_obstacle,
      .tolerance = matmul_precision_tolerance,
      .prove = prove_precision,
  };
}

}  // namespace ablations
