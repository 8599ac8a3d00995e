#include "ablations/techniques/fingerprint.h"

#include "harness/observe/library_calls.h"
#include "model/precision.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>

namespace ablations {

using at::Tensor;

namespace {

// The library call that made the product: oneDNN also logs the reorders around it.
std::optional<std::string> product_kernel(const std::map<std::string, int64_t>& calls) {
  std::optional<std::string> kernel;
  for (const auto& [name, count] : calls) {
    if (name.find("matmul") != std::string::npos || name.find("gemm") != std::string::npos) kernel = name;
  }
  return kernel;
}

}  // namespace

Fingerprint fingerprint(const model::Recipe& recipe, bool with_autocast) {
  const at::NoGradGuard no_grad;
  const at::DeviceType device = model::device_type(recipe.device);
  // On a GPU as large as the products of a step, because for smaller ones cuBLAS may use a kernel without tensor cores.
  const int64_t size = device == at::kCUDA ? 2048 : 512;
  at::Generator generator = at::detail::createCPUGenerator(7);
  const auto factor = [&] { return at::empty({size, size}).normal_(0.0, 1.0, generator); };
  const Tensor on_cpu[] = {factor(), factor()};
  const Tensor a = on_cpu[0].to(device), b = on_cpu[1].to(device);
  Tensor product;
  const auto multiply = [&] {
    const model::AutocastScope autocast(device, with_autocast ? recipe.autocast : model::Autocast::off);
    product = at::matmul(a, b);
  };
  Fingerprint result{.size = size, .relative_error = {}, .precision = "", .kernel = {}};
  if (device == at::kCPU) {
    result.kernel = product_kernel(harness::library_calls(multiply));
  } else {
    multiply();
  }
  // Computed on the CPU even for a GPU's product: a device that computes nothing must not agree with itself. Some rows
  // are enough, because each has hundreds of entries.
  constexpr int64_t rows = 128;
  const Tensor exact = at::matmul(on_cpu[0].narrow(0, 0, rows).to(at::kDouble), on_cpu[1].to(at::kDouble));
  const Tensor made = product.narrow(0, 0, rows).to(at::kCPU, at::kDouble);
  const double error = ((made - exact).norm() / exact.norm()).item<double>();
  if (std::isfinite(error)) result.relative_error = error;
  result.precision = precision_of(error);
  return result;
}

std::string precision_of(double relative_error) {
  // The geometric middle between two neighbours of the table in fingerprint.h.
  static const double float32_to_tf32 = std::sqrt(8.1e-7 * 2.9e-4);     // 1.5e-5
  static const double tf32_to_bfloat16 = std::sqrt(7.7e-4 * 2.4e-3);    // 1.4e-3
  static const double bfloat16_to_8_bits = std::sqrt(6.2e-3 * 3.7e-2);  // 1.5e-2
  if (!(relative_error < bfloat16_to_8_bits)) return "wrong";
  if (relative_error > tf32_to_bfloat16) return "bfloat16";
  if (relative_error > float32_to_tf32) return "tf32 or float16";
  return "float32";
}

std::string in_words(const Fingerprint& fingerprint) {
  return fmt::format("error {}, {}{}",
                     fingerprint.relative_error ? fmt::format("{:.1e}", *fingerprint.relative_error) : "not finite",
                     fingerprint.precision, fingerprint.kernel ? ", by " + *fingerprint.kernel : "");
}

}  // namespace ablations
