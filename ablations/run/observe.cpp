#include "ablations/run/observe.h"

#include "harness/cuda_calls.h"
#include "harness/json_file.h"
#include "harness/library_calls.h"
#include "harness/memory_log.h"
#include "harness/operation_log.h"
#include "harness/parameter_copies.h"
#include "model/precision.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace ablations {
namespace {

using at::Tensor;
using Json = nlohmann::json;

constexpr int64_t refault_bytes = int64_t{64} << 20;

// The library call that made the product: oneDNN also logs the reorders around it.
std::string product_kernel(const std::map<std::string, int64_t>& calls) {
  std::string kernel;
  for (const auto& [name, count] : calls) {
    if (name.find("matmul") != std::string::npos || name.find("gemm") != std::string::npos) kernel = name;
  }
  return kernel;
}

// On a GPU as large as the step's own products: for smaller ones cuBLAS may take a kernel without tensor cores.
int64_t fingerprint_size(at::DeviceType device) { return device == at::kCUDA ? 2048 : 512; }

Json fingerprint(const model::Recipe& recipe, bool with_autocast) {
  const at::NoGradGuard no_grad;
  const at::DeviceType device = model::device_type(recipe.device);
  const int64_t size = fingerprint_size(device);
  at::Generator generator = at::detail::createCPUGenerator(7);
  const auto factor = [&] { return at::empty({size, size}).normal_(0.0, 1.0, generator); };
  const Tensor on_cpu[] = {factor(), factor()};
  const Tensor a = on_cpu[0].to(device), b = on_cpu[1].to(device);
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
  // On the CPU, wherever the product was made: a device that computes nothing shall not agree with itself. Some rows
  // are enough: each has hundreds of entries.
  constexpr int64_t rows = 128;
  const Tensor exact = at::matmul(on_cpu[0].narrow(0, 0, rows).to(at::kDouble), on_cpu[1].to(at::kDouble));
  const Tensor made = product.narrow(0, 0, rows).to(at::kCPU, at::kDouble);
  const double error = ((made - exact).norm() / exact.norm()).item<double>();
  return {{"size", size},
          {"relative_error", harness::finite_or_null(error)},
          {"precision", precision_of(error)},
          {"kernel", kernel.empty() ? Json() : Json(kernel)}};
}

int64_t refaults() {
  const auto minor_faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  // The least of a few rounds: the heap may have to grow for the first one. Each block is a little smaller than the one
  // before and so fits where that was, whatever small pieces malloc keeps to itself at its ends.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t round = 0; round < 5; ++round) {
    const int64_t before = minor_faults();
    const Tensor block = at::empty({refault_bytes - round * 65536}, at::kByte);
    block.fill_(round);
    least = std::min(least, minor_faults() - before);
  }
  return least;
}

}  // namespace

std::string precision_of(double relative_error) {
  // The geometric middle between two neighbours of the table in observe.h.
  static const double float32_to_tf32 = std::sqrt(8.1e-7 * 2.9e-4);     // 1.5e-5
  static const double tf32_to_bfloat16 = std::sqrt(7.7e-4 * 2.4e-3);    // 1.4e-3
  static const double bfloat16_to_8_bits = std::sqrt(6.2e-3 * 3.7e-2);  // 1.5e-2
  if (!(relative_error < bfloat16_to_8_bits)) return "wrong";
  if (relative_error > tf32_to_bfloat16) return "bfloat16";
  if (relative_error > float32_to_tf32) return "tf32 or float16";
  return "float32";
}

namespace {

Json matmul_precision(at::DeviceType device) {
  const at::Float32MatmulPrecision aten = at::globalContext().float32MatmulPrecision();
  const at::Float32Precision backend = at::globalContext().float32Precision(
      device == at::kCUDA ? at::Float32Backend::CUDA : at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
  return {{"aten", aten == at::Float32MatmulPrecision::HIGHEST ? "highest"
                   : aten == at::Float32MatmulPrecision::HIGH  ? "high"
                                                               : "medium"},
          {"backend", at::precision2str(backend)}};
}

// The switches as ATen has them, and what it does with an operation whose result may depend on the order of threads:
// put_ with an index that stands twice.
Json determinism(at::DeviceType device) {
  const at::Context& context = at::globalContext();
  bool refuses = false;
  try {
    const at::NoGradGuard no_grad;
    const auto on_device = at::TensorOptions().device(device);
    at::zeros({2}, on_device).put_(at::zeros({2}, on_device.dtype(at::kLong)), at::ones({2}, on_device));
  } catch (const c10::Error& error) {
    refuses = std::string(error.what_without_backtrace()).find("deterministic") != std::string::npos;
    if (!refuses) throw;
  }
  const char* workspace = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  return {{"algorithms", context.deterministicAlgorithms() && !context.deterministicAlgorithmsWarnOnly()},
          {"refuses", refuses},
          {"cudnn_deterministic", context.deterministicCuDNN()},
          {"cudnn_benchmark", context.benchmarkCuDNN()},
          {"cublas_workspace", workspace == nullptr ? Json() : Json(workspace)}};
}

// A step of its own, as a timed one: nothing else watches it.
Json cuda_calls(model::Trainer& trainer) {
  trainer.synchronize();
  const harness::CudaCalls seen = harness::cuda_calls([&] { trainer.step(); });
  trainer.synchronize();
  if (!seen.unavailable.empty()) return {{"unavailable", seen.unavailable}};
  return {{"kernel_launches", harness::sum(seen.kernel_launches())},
          {"graph_launches", harness::sum(seen.graph_launches())},
          {"host_waits", harness::sum(seen.host_waits())},
          {"calls", seen.calls}};
}

int64_t gradient_bytes(const model::GPT2& gpt2) {
  int64_t bytes = 0;
  for (const model::Parameter& parameter : gpt2.parameters()) {
    if (parameter.tensor.grad().defined()) bytes += static_cast<int64_t>(parameter.tensor.grad().nbytes());
  }
  return bytes;
}

// One step that dispatches its operations, watched from within: what it is made of.
struct StepContents {
  Json operations = Json::object(), update_operations, backward_nodes, products, logits;
  std::map<std::string, int64_t> residual;
  int64_t weight_copies_bytes = 0, activations_bytes = 0;
};

// Puts back what looking at a step replaces in the trainer, however the step ends: it refers to what is gone then.
class Callbacks {
 public:
  explicit Callbacks(model::Trainer& trainer) : ops(trainer.ops()), on_phase(trainer.on_phase), trainer_(trainer) {}
  ~Callbacks() {
    trainer_.ops() = ops;
    trainer_.on_phase = on_phase;
  }
  Callbacks(const Callbacks&) = delete;  // puts back once
  Callbacks& operator=(const Callbacks&) = delete;

  const model::Ops ops;
  const decltype(model::Trainer::on_phase) on_phase;

 private:
  model::Trainer& trainer_;
};

StepContents watch_step(model::Trainer& trainer) {
  const model::Recipe& recipe = trainer.recipe();
  StepContents contents;
  const Callbacks original(trainer);
  const auto of_stream = [&](Tensor result) {
    ++contents.residual[at::toString(result.scalar_type())];
    return result;
  };
  trainer.ops().embed = [&](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
    return of_stream(original.ops.embed(tokens, wte, wpe));
  };
  trainer.ops().layer_norm = [&](const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
    return of_stream(original.ops.layer_norm(x, weight, bias, eps));
  };
  trainer.ops().residual = [&](const Tensor& x, const Tensor& y) { return of_stream(original.ops.residual(x, y)); };
  trainer.ops().head = [&](const Tensor& x, const Tensor& wte) {
    Tensor result = original.ops.head(x, wte);
    contents.logits = {{"dtype", at::toString(result.scalar_type())}, {"columns", result.size(-1)}};
    return result;
  };
  harness::OperationLog log;
  const harness::MemoryLog memory(model::device_type(recipe.device));
  const harness::ParameterCopies copies;
  std::optional<int64_t> before_forward, after_forward;
  trainer.on_phase = [&](std::string_view phase) {
    original.on_phase(phase);
    log.begin_phase(phase);
    if (phase == "forward" && !before_forward) before_forward = memory.live_bytes();
    if (phase == "backward" && !after_forward) {
      after_forward = memory.live_bytes();
      contents.weight_copies_bytes = copies.live_bytes();
    }
  };
  if (recipe.device == model::Device::cpu) {
    contents.products = harness::library_calls([&] { trainer.step(); });
  } else {
    trainer.step();
    trainer.synchronize();
  }
  for (const char* phase : {"data", "forward", "backward", "clip", "update"}) {
    int64_t count = 0;
    for (const auto& [name, calls] : log.operations(phase)) count += calls;
    contents.operations[phase] = count;
  }
  contents.operations["total"] = log.total();
  contents.update_operations = log.operations("update");
  contents.backward_nodes = log.backward_nodes();
  if (before_forward && after_forward) {
    contents.activations_bytes = *after_forward - *before_forward - contents.weight_copies_bytes;
  }
  return contents;
}

}  // namespace

Json observe(model::Trainer& trainer) {
  const model::Recipe& recipe = trainer.recipe();
  const Json calls = recipe.device == model::Device::cuda ? cuda_calls(trainer) : Json();
  StepContents contents = watch_step(trainer);
  if (recipe.execution == model::Execution::graph) {
    const Json replayed = contents.operations;
    trainer.recapture();
    contents = watch_step(trainer);
    contents.operations = replayed;
  }
  return {{"parameters_device", trainer.model().parameters().front().tensor.device().str()},
          {"matmul_precision", matmul_precision(model::device_type(recipe.device))},
          {"fingerprint", {{"float32", fingerprint(recipe, false)}, {"autocast", fingerprint(recipe, true)}}},
          {"determinism", determinism(model::device_type(recipe.device))},
          {"logits", contents.logits},
          {"residual", contents.residual},
          {"operations", contents.operations},
          {"update_operations", contents.update_operations},
          {"backward_nodes", contents.backward_nodes},
          {"matrix_products", contents.products},
          {"cuda_calls", calls},
          {"refault", {{"bytes", refault_bytes}, {"faults", refaults()}}},
          {"loss_scale", trainer.loss_scale()},
          {"memory",
           {{"weights_bytes", trainer.weight_bytes()},
            {"gradients_bytes", gradient_bytes(trainer.model())},
            {"optimizer_bytes", trainer.optimizer_bytes()},
            {"weight_copies_bytes", contents.weight_copies_bytes},
            {"activations_bytes", contents.activations_bytes}}}};
}

}  // namespace ablations
