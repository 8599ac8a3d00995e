#include "ablations/techniques/fingerprint.h"
#include "harness/observe/library_calls.h"
#include "model/precision.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

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

}  // namespace ablations
