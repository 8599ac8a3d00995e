#include "ablations/observe.h"

#include "harness/library_calls.h"
#include "harness/operation_log.h"
#include "model/precision.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace ablations {
namespace {

using at::Tensor;
using Json = nlohmann::json;

constexpr int64_t refault_bytes = int64_t{64} << 20;

// The library call that did most of the work: oneDNN also logs the reorders around a product.
std::string product_kernel(const std::map<std::string, int64_t>& calls) {
  std::string kernel;
  for (const auto& [name, count] : calls) {
    if (name.find("matmul") != std::string::npos || name.find("gemm") != std::string::npos) kernel = name;
  }
  return kernel;
}

Json fingerprint(const model::Recipe& recipe, bool with_autocast) {
  const at::NoGradGuard no_grad;
  const at::DeviceType device = model::device_type(recipe.device);
  at::Generator generator = at::detail::createCPUGenerator(7);
  const auto factor = [&] { return at::empty({512, 512}).normal_(0.0, 1.0, generator).to(device); };
  const Tensor a = factor(), b = factor();
  Tensor product;
  const auto multiply = [&] {
    const model::AutocastScope autocast(device, with_autocast ? recipe.autocast : model::Autocast::off);
    product = at::matmul(a, b);
  };
  std::string kernel;
  if (device == at::kCPU) {
    kernel = product_kernel(harness::library_calls(multiply));
  } else {
    multiply();
  }
  const Tensor exact = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
  const double error = ((product.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
  return {{"relative_error", error},
          {"precision", precision_of(error)},
          {"kernel", kernel.empty() ? Json() : Json(kernel)}};
}

int64_t refaults() {
  const auto minor_faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  // The least of a few rounds: the heap may have to grow for the first one. Each block is a little smaller than the one before
  // and so fits where that was, whatever small pieces malloc keeps to itself at its ends.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int round = 0; round < 5; ++round) {
    const int64_t before = minor_faults();
    const Tensor block = at::empty({refault_bytes - round * 65536}, at::kByte);
    block.fill_(round);
    least = std::min(least, minor_faults() - before);
  }
  return least;
}

}  // namespace

std::string precision_of(double relative_error) {
  // Halfway, on a logarithmic scale, between what 24, 11 and 8 bits of significand cost.
  if (!(relative_error < 1e-2)) return "less";
  if (relative_error > 9e-4) return "bfloat16";
  if (relative_error > 1e-5) return "tf32 or float16";
  return "float32";
}

Json observe(model::Trainer& trainer) {
  const model::Recipe& recipe = trainer.recipe();
  const bool on_cpu = recipe.device == model::Device::cpu;

  Json logits;
  const auto head = trainer.ops().head;
  trainer.ops().head = [&](const Tensor& x, const Tensor& wte) {
    Tensor result = head(x, wte);
    logits = {{"dtype", at::toString(result.scalar_type())}, {"columns", result.size(-1)}};
    return result;
  };
  const auto on_phase = trainer.on_phase;
  Json operations = Json::object(), update_operations, backward_nodes, products;
  const auto logged_step = [&](const std::function<void(const harness::OperationLog&)>& take) {
    harness::OperationLog log;
    trainer.on_phase = [&](std::string_view phase) { log.begin_phase(phase); };
    if (on_cpu) {
      products = harness::library_calls([&] { trainer.step(); });
    } else {
      trainer.step();
      trainer.synchronize();
    }
    take(log);
  };
  const auto take_operations = [&](const harness::OperationLog& log) {
    for (const char* phase : {"data", "forward", "backward", "clip", "update"}) {
      int64_t count = 0;
      for (const auto& [name, calls] : log.operations(phase)) count += calls;
      operations[phase] = count;
    }
    operations["total"] = log.total();
  };
  const auto take_makeup = [&](const harness::OperationLog& log) {
    update_operations = log.operations("update");
    backward_nodes = log.backward_nodes();
  };
  if (recipe.execution == model::Execution::graph) {
    logged_step(take_operations);
    trainer.recapture();
    logged_step(take_makeup);
  } else {
    logged_step([&](const harness::OperationLog& log) {
      take_operations(log);
      take_makeup(log);
    });
  }
  trainer.on_phase = on_phase;
  trainer.ops().head = head;

  const at::Float32MatmulPrecision precision = at::globalContext().float32MatmulPrecision();
  return {{"parameters_device", trainer.model().parameters().front().tensor.device().str()},
          {"matmul_precision", precision == at::Float32MatmulPrecision::HIGHEST ? "highest"
                               : precision == at::Float32MatmulPrecision::HIGH  ? "high"
                                                                                : "medium"},
          {"fingerprint", {{"float32", fingerprint(recipe, false)}, {"autocast", fingerprint(recipe, true)}}},
          {"logits", logits},
          {"operations", operations},
          {"update_operations", update_operations},
          {"backward_nodes", backward_nodes},
          {"matrix_products", products},
          {"refault", {{"bytes", refault_bytes}, {"faults", refaults()}}},
          {"skipped_steps", trainer.skipped_steps()}};
}

}  // namespace ablations
