#include "ablations/run/proof.h"

#include "harness/cuda_calls.h"
#include "model/precision.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ablations {
namespace {

using Json = nlohmann::json;
using namespace model;

int64_t count(const Json& counts, const std::string& name) { return counts.value(name, int64_t{0}); }

int64_t count_starting_with(const Json& counts, const std::string& prefix) {
  int64_t sum = 0;
  if (!counts.is_object()) return sum;
  for (const auto& [name, value] : counts.items()) {
    if (name.starts_with(prefix)) sum += value.get<int64_t>();
  }
  return sum;
}

std::string describe(const Json& fingerprint) {
  const Json& kernel = fingerprint.at("kernel");
  const Json& error = fingerprint.at("relative_error");  // null: not finite
  return fmt::format("error {}, {}{}", error.is_null() ? "not finite" : fmt::format("{:.1e}", error.get<double>()),
                     fingerprint.at("precision").get<std::string>(),
                     kernel.is_null() ? "" : ", by " + kernel.get<std::string>());
}

// Of one step; nullptr on a CPU and where CUPTI was not to be had.
const Json* counted_calls(const RunFacts& facts) {
  const Json& calls = facts.observations.at("cuda_calls");
  return calls.is_null() || calls.contains("unavailable") ? nullptr : &calls;
}

// "2 cudaFree, 1 cudaStreamSynchronize".
std::string in_words(const std::map<std::string, int64_t>& calls) {
  std::vector<std::string> words;
  for (const auto& [name, count] : calls) words.push_back(fmt::format("{} {}", count, name));
  return fmt::format("{}", fmt::join(words, ", "));
}

// The same with their names. A record need not have them.
harness::CudaCalls named_calls(const Json& counted) {
  return {.calls = counted.value("calls", std::map<std::string, int64_t>()), .unavailable = ""};
}

Proof device(const Recipe& recipe, const RunFacts& facts) {
  const std::string found = facts.observations.at("parameters_device");
  if (recipe.device == Device::cpu) {
    return {"device", found.starts_with("cpu"), "parameters on cpu", "parameters on " + found};
  }
  const bool on_cuda = found.starts_with("cuda");
  const Json* calls = counted_calls(facts);
  if (calls == nullptr) {
    return {"device", on_cuda, "parameters on cuda", fmt::format("parameters on {}; waits were not counted", found)};
  }
  const int64_t waits = calls->at("host_waits");
  std::string observed = fmt::format("parameters on {}; {} waits in a step", found, waits);
  if (waits > 0) observed += ": " + in_words(named_calls(*calls).host_waits());
  return {"device", on_cuda && waits == 0, "parameters on cuda; the host waits for nothing in a step", observed};
}

Proof host_memory(const Recipe& recipe, const RunFacts& facts) {
  const int64_t refaults = facts.observations.at("refault").at("faults");
  const std::string observed =
      fmt::format("{} faults for 64 MiB allocated again; {:.0f} faults per step", refaults, facts.page_faults_per_step);
  // Either sign alone could be chance: the heap may happen to have 64 MiB free, a small model may happen not to fault.
  const double most = 0.01 * static_cast<double>(facts.peak_bytes) / 4096.0;
  const bool kept = refaults <= 8 && facts.page_faults_per_step <= most;
  if (recipe.host_memory == HostMemory::release) {
    return {"host_memory", !kept,
            fmt::format("freed memory faults in anew: 64 MiB, or more than {:.0f} faults per step", most), observed};
  }
  return {"host_memory", kept,
          fmt::format(
              "64 MiB freed and allocated again stay mapped (at most 8 faults); a step faults in at most 1 % of the "
              "process's pages ({:.0f})",
              most),
          observed};
}

Proof matmul_precision(const Recipe& recipe, const RunFacts& facts) {
  const Json& fingerprint = facts.observations.at("fingerprint").at("float32");
  const std::string read_back = facts.observations.at("matmul_precision").at("aten");
  const std::string backend = facts.observations.at("matmul_precision").at("backend");
  const bool on_cuda = recipe.device == Device::cuda;
  const std::string precision = fingerprint.at("precision");
  const std::string kernel = fingerprint.at("kernel").is_null() ? "" : fingerprint.at("kernel").get<std::string>();
  const std::string observed = fmt::format("ATen says {}{}; float32 product: {}", read_back,
                                           on_cuda ? ", cuBLAS " + backend : "", describe(fingerprint));
  switch (recipe.matmul_precision) {
    case MatmulPrecision::highest:
      return {"matmul_precision", read_back == "highest" && precision == "float32" && (!on_cuda || backend == "ieee"),
              on_cuda ? "ATen says highest, cuBLAS ieee; a float32 product has float32's error"
                      : "ATen says highest; a float32 product has float32's error",
              observed};
    case MatmulPrecision::high:
      return {"matmul_precision", read_back == "high" && backend == "tf32" && precision == "tf32 or float16",
              "ATen says high, the backend tf32; a float32 product has TF32's error", observed};
    case MatmulPrecision::medium:
      return {"matmul_precision", read_back == "medium" && kernel.starts_with("onednn matmul"),
              "ATen says medium; a float32 product is oneDNN's (its error tells in which precision)", observed};
  }
  return {"matmul_precision", false, "", observed};
}

Proof autocast(const Recipe& recipe, const RunFacts& facts) {
  const Json& fingerprint = facts.observations.at("fingerprint").at("autocast");
  const std::string precision = fingerprint.at("precision");
  const std::string dtype = facts.observations.at("logits").at("dtype");
  const Json& products = facts.observations.at("matrix_products");
  const int64_t low =
      count_starting_with(products, "onednn matmul bf16") + count_starting_with(products, "onednn matmul f16") +
      count_starting_with(products, "onednn inner_product bf16") + count_starting_with(products, "mkl gemm_bf16");
  std::string observed = fmt::format("logits {}; product under autocast: {}", dtype, describe(fingerprint));
  if (!products.is_null()) observed += fmt::format("; {} low-precision products in a step", low);
  switch (recipe.autocast) {
    case Autocast::off:
      return {"autocast", dtype == "Float" && low == 0, "logits Float; no low-precision product in a step", observed};
    case Autocast::bf16:
      return {"autocast", dtype == "BFloat16" && precision == "bfloat16" && (products.is_null() || low > 0),
              "logits BFloat16; a product under autocast has bfloat16's error; a step makes low-precision products",
              observed};
    case Autocast::fp16:
      return {"autocast", dtype == "Half" && precision == "tf32 or float16",
              "logits Half; a product under autocast has float16's error", observed};
  }
  return {"autocast", false, "", observed};
}

Proof attention(const Recipe& recipe, const RunFacts& facts) {
  const Json& nodes = facts.observations.at("backward_nodes");
  std::string found;
  int64_t fused = 0;
  for (const auto& [name, calls] : nodes.items()) {
    const bool is_fused = name.find("Attention") != std::string::npos;
    if (is_fused) fused += calls.get<int64_t>();
    if (is_fused || name.find("SoftmaxBackward") != std::string::npos) {
      if (name == "LogSoftmaxBackward0") continue;  // the loss's
      found += fmt::format("{}{} {}", found.empty() ? "" : ", ", calls.get<int64_t>(), name);
    }
  }
  if (found.empty()) found = "no attention node";
  // scaled_dot_product_attention's plain implementation guards its softmax against rows that are masked throughout.
  const int64_t plain = count(nodes, "SoftmaxBackward0"), safe = count(nodes, "SafeSoftmaxBackward0");
  if (recipe.attention == Attention::manual) {
    return {"attention", plain == facts.attentions && safe == 0 && fused == 0,
            fmt::format("{} softmax nodes, no fused attention", facts.attentions), found};
  }
  if (recipe.attention == Attention::math) {
    return {"attention", plain + safe == facts.attentions && fused == 0,
            fmt::format("{} softmax nodes, safe or not, no fused attention", facts.attentions), found};
  }
  const bool cpu = recipe.device == Device::cpu;
  const std::string node = recipe.attention == Attention::efficient ? "ScaledDotProductEfficientAttentionBackward0"
                           : recipe.attention == Attention::cudnn   ? "ScaledDotProductCudnnAttentionBackward0"
                           : cpu                                    ? "ScaledDotProductFlashAttentionForCpuBackward0"
                                                                    : "ScaledDotProductFlashAttentionBackward0";
  return {"attention", count(nodes, node) == facts.attentions && plain + safe == 0,
          fmt::format("{} {}, no softmax node", facts.attentions, node), found};
}

Proof cross_entropy(const Recipe& recipe, const RunFacts& facts) {
  const Json& nodes = facts.observations.at("backward_nodes");
  int64_t in_place = 0;
  for (const auto& [name, calls] : nodes.items()) {
    if (name.find("InPlaceCrossEntropy") != std::string::npos) in_place += calls.get<int64_t>();
  }
  const int64_t aten = count(nodes, "NllLossBackward0");
  const std::string observed = fmt::format("{} nodes of ATen's loss, {} of the one in place", aten, in_place);
  if (recipe.cross_entropy == CrossEntropy::aten) {
    return {"cross_entropy", aten > 0 && in_place == 0, "ATen's nodes only", observed};
  }
  return {"cross_entropy", aten == 0 && in_place > 0, "nodes of the loss in place only", observed};
}

Proof residual(const Recipe& recipe, const RunFacts& facts) {
  const Json& found = facts.observations.at("residual");
  const bool low = recipe.residual == Residual::autocast;
  const std::string dtype = at::toString(low ? scalar_type(recipe.autocast) : at::kFloat);
  std::vector<std::string> observed;
  for (const auto& [name, tensors] : found.items())
    observed.push_back(fmt::format("{} {}", tensors.get<int64_t>(), name));
  return {"residual", found.size() == 1 && found.contains(dtype),
          fmt::format("{} from the embedding, every LayerNorm and every addition", dtype),
          fmt::format("{} tensors of the residual stream", fmt::join(observed, ", "))};
}

Proof execution(const Recipe& recipe, const RunFacts& facts) {
  const Json& operations = facts.observations.at("operations");
  const int64_t model_operations = operations.at("forward").get<int64_t>() + operations.at("backward").get<int64_t>();
  std::string observed = fmt::format("{} operations dispatched in a step, {} of them in forward and backward",
                                     operations.at("total").get<int64_t>(), model_operations);
  const bool eager = recipe.execution == Execution::eager;
  std::string expected = eager ? "forward and backward are dispatched operation by operation"
                               : "a step dispatches nothing of forward and backward";
  bool launches_fit = true;  // nothing is said of them where they were not counted
  if (const Json* calls = counted_calls(facts)) {
    const auto kernels = calls->at("kernel_launches").get<int64_t>();
    const auto graphs = calls->at("graph_launches").get<int64_t>();
    launches_fit = eager ? graphs == 0 && kernels > 0 : graphs == 1 && kernels == 0;
    expected += eager ? "; no graph is launched" : "; it is one graph launch and no other kernel launch";
    observed += fmt::format("; {} kernel launches, {} graph launches", kernels, graphs);
    if (!launches_fit) {
      const harness::CudaCalls named = named_calls(*calls);
      auto launches = named.kernel_launches();
      launches.merge(named.graph_launches());
      // Where none is known as a launch, one that should be is among the others.
      observed += launches.empty() ? "; calls: " + in_words(named.calls) : ": " + in_words(launches);
    }
  } else if (recipe.device == Device::cuda) {
    observed +=
        "; launches were not counted: " + facts.observations.at("cuda_calls").at("unavailable").get<std::string>();
  }
  return {"execution", (model_operations > 0) == eager && launches_fit, expected, observed};
}

Proof vocabulary_rows(const Recipe& recipe, const RunFacts& facts) {
  const int64_t columns = facts.observations.at("logits").at("columns");
  return {"vocabulary_rows", columns == recipe.vocabulary_rows,
          fmt::format("{} columns of logits", recipe.vocabulary_rows), fmt::format("{} columns of logits", columns)};
}

Proof optimizer(const Recipe& recipe, const RunFacts& facts) {
  const Json& operations = facts.observations.at("update_operations");
  const int64_t fused = count(operations, "aten::_fused_adamw_");
  const int64_t foreach = count(operations, "aten::_foreach_addcdiv_");
  const int64_t single = count(operations, "aten::addcdiv_");
  const std::string observed =
      fmt::format("{} _fused_adamw_, {} _foreach_addcdiv_, {} addcdiv_ in an update", fused, foreach, single);
  switch (recipe.optimizer) {
    case Optimizer::loop:
      return {"optimizer", fused == 0 && foreach == 0 && single > 2, "one addcdiv_ per tensor, nothing fused",
              observed};
    case Optimizer::foreach:
      return {"optimizer", fused == 0 && foreach == 2, "one _foreach_addcdiv_ per parameter group, nothing fused",
              observed};
    case Optimizer::fused:
      return {"optimizer", fused == 2 && foreach == 0 && single == 0,
              "one _fused_adamw_ per parameter group, nothing else", observed};
  }
  return {"optimizer", false, "", observed};
}

Proof deterministic(const Recipe& recipe, const RunFacts& facts) {
  const Json& seen = facts.observations.at("determinism");
  const bool algorithms = seen.at("algorithms"), refuses = seen.at("refuses");
  const Json& variable = seen.at("cublas_workspace");
  const std::string workspace = variable.is_null() ? "not set" : variable.get<std::string>();
  const bool on_cuda = recipe.device == Device::cuda;
  std::string observed = fmt::format("ATen's deterministic algorithms are {}; an operation that has none {}",
                                     algorithms ? "on" : "off", refuses ? "is refused" : "runs");
  if (!recipe.deterministic) {
    return {"deterministic", !algorithms && !refuses,
            "ATen's deterministic algorithms are off; an operation that has none runs", observed};
  }
  const bool cudnn = seen.at("cudnn_deterministic").get<bool>() && !seen.at("cudnn_benchmark").get<bool>();
  observed += fmt::format("; cuDNN {}", cudnn ? "deterministic, without trying out" : "free to choose");
  if (on_cuda) observed += fmt::format("; CUBLAS_WORKSPACE_CONFIG {}", workspace);
  return {"deterministic", algorithms && refuses && cudnn && (!on_cuda || is_deterministic_workspace(workspace)),
          fmt::format("ATen's deterministic algorithms are on; an operation that has none is refused; cuDNN "
                      "deterministic, without trying out{}",
                      on_cuda ? "; CUBLAS_WORKSPACE_CONFIG :4096:8 or :16:8" : ""),
          observed};
}

}  // namespace

std::vector<Proof> prove(const Recipe& recipe, const RunFacts& facts) {
  std::vector<Proof> proofs;
  for (const auto& proof : {device, host_memory, matmul_precision, autocast, attention, cross_entropy, residual,
                            execution, vocabulary_rows, optimizer, deterministic}) {
    if (proof == host_memory && recipe.device == Device::cuda) continue;  // a step's tensors are not in host memory
    proofs.push_back(proof(recipe, facts));
  }
  return proofs;
}

Json to_json(const std::vector<Proof>& proofs) {
  Json list = Json::array();
  for (const Proof& proof : proofs) {
    list.push_back(
        {{"field", proof.field}, {"passed", proof.passed}, {"expected", proof.expected}, {"observed", proof.observed}});
  }
  return list;
}

}  // namespace ablations
