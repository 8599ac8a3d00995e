// cuBLASLt counts columns first: its A is `right`, its B is `left` (ablations/techniques/products/matmul.h).
#include "ablations/micro/timed_matmul.h"

#include "harness/machine/gpu_monitor.h"
#include "harness/stats/stats.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <ranges>
#include <thread>

namespace ablations::micro {

namespace blas = model::blas;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds poll_period{2}, clock_period{20};

// A function of the driver's, which is not linked (harness/gpu/gpu_counters.cpp); null where it has none.
template <class Function>
Function driver_function(const char* name, unsigned version) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult status{};
  if (cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &status) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return status == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(entry) : nullptr;
}

std::string kernel_name(cudaGraphNode_t node) {
  static const auto parameters_of =
      driver_function<decltype(&cuGraphKernelNodeGetParams)>("cuGraphKernelNodeGetParams", 12000);
  static const auto name_of_function = driver_function<decltype(&cuFuncGetName)>("cuFuncGetName", 12030);
  static const auto name_of_kernel = driver_function<decltype(&cuKernelGetName)>("cuKernelGetName", 12030);
  CUDA_KERNEL_NODE_PARAMS parameters{};
  const char* name = nullptr;
  if (parameters_of == nullptr || parameters_of(node, &parameters) != CUDA_SUCCESS) return "?";
  if (parameters.func != nullptr) {
    if (name_of_function == nullptr || name_of_function(&name, parameters.func) != CUDA_SUCCESS) return "?";
  } else if (name_of_kernel == nullptr || name_of_kernel(&name, parameters.kern) != CUDA_SUCCESS) {
    return "?";
  }
  return name == nullptr ? "?" : name;
}

std::map<std::string, double> kernels_of(cudaGraph_t graph, size_t calls) {
  size_t count = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  std::map<std::string, double> kernels;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    const std::string name = type == cudaGraphNodeTypeKernel   ? kernel_name(node)
                             : type == cudaGraphNodeTypeMemset ? "memset"
                                                               : "copy";
    kernels[name] += 1;
  }
  for (auto& [name, launches] : kernels) launches /= static_cast<double>(calls);
  return kernels;
}

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};

// The GPU's state while `work` goes on.
class Observer {
 public:
  explicit Observer(const harness::NvmlDevice& device) : device_(device), joules_(device.energy_j().value) {}

  void look() {
    const Clock::time_point now = Clock::now();
    if (const auto joules = device_.energy_j().value; joules && joules != joules_) {
      joules_ = joules;
      if (steps_.empty()) steps_.emplace_back(now, *joules);
      steps_.resize(1);
      steps_.emplace_back(now, *joules);
    }
    if (now < next_sample_) return;
    watch_.samples.push_back(device_.sample());
    next_sample_ = now + clock_period;
  }

  void tell(Sustained& result) const {
    if (const auto clocks = harness::series(watch_, "sm_clock_mhz").values; !clocks.empty()) {
      result.sm_clock_mhz = harness::median(clocks);
    }
    result.throttled = harness::throttle_shares(watch_);
    // Between two movements of the counter, because it moves only every 20 to 100 ms.
    if (steps_.size() == 2 && steps_[1].first > steps_[0].first) {
      result.watts = (steps_[1].second - steps_[0].second) /
                     std::chrono::duration<double>(steps_[1].first - steps_[0].first).count();
      result.watts_from = "energy counter";
    } else if (const auto watts = harness::series(watch_, "power_w").values; !watts.empty()) {
      result.watts = harness::median(watts);
      result.watts_from = "power samples";
    }
  }

 private:
  const harness::NvmlDevice& device_;
  std::optional<double> joules_;
  std::vector<std::pair<Clock::time_point, double>> steps_;  // the counter's first and last movement
  harness::GpuWatch watch_;
  Clock::time_point next_sample_;
};

}  // namespace

std::optional<Proposal> Proposals::fastest_of(int first) const {
  std::optional<Proposal> fastest;
  for (const Proposal& one : best) {
    if (one.place < first && (!fastest || one.microseconds < fastest->microseconds)) fastest = one;
  }
  return fastest;
}

TimedMatmul::TimedMatmul(Multiplication product)
    : sets_(std::move(product.sets)),
      workspace_(at::empty({blas::workspace_bytes}, sets_.at(0).d.options().dtype(at::kByte))) {
  for (const Matrices& one : sets_) {
    products_.push_back({.name = "",
                         .a = one.right,
                         .b = one.left,
                         .d = one.d,
                         .a_transposed = !product.right_transposed,
                         .b_transposed = product.left_transposed,
                         .epilogue = product.epilogue,
                         .bias = product.bias,
                         .auxiliary = product.auxiliary,
                         .accumulate = product.adds,
                         .a_scale = one.right_scale,
                         .b_scale = one.left_scale,
                         .fast = product.fast_accumulation});
    matmuls_.emplace_back(products_.back());
  }
}

cublasStatus_t TimedMatmul::launch(const Proposal& proposal, size_t call) {
  const size_t set = call % sets_.size();
  return matmuls_[set].run(proposal.algorithm, sets_[set].d, workspace_);
}

std::optional<double> TimedMatmul::microseconds(const Proposal& proposal, int calls) {
  if (launch(proposal, 0) != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  c10::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  begin.record();
  for (int i = 1; i <= calls; ++i) blas::check(launch(proposal, static_cast<size_t>(i)), "cublasLtMatmul");
  end.record();
  end.synchronize();
  return 1e3 * begin.elapsed_time(end) / calls;
}

Proposals TimedMatmul::proposals(int most, int64_t workspace_bytes, double seconds) {
  Proposals found;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto algorithms = matmuls_[0].proposals(most, workspace_bytes, &status);
  found.given = static_cast<int>(algorithms.size());
  if (algorithms.empty()) {
    found.fault = fmt::format("cublasLtMatmulAlgoGetHeuristic: {}",
                              status == CUBLAS_STATUS_SUCCESS ? "no proposals" : cublasLtGetStatusName(status));
    return found;
  }
  const Clock::time_point begun = Clock::now();
  std::vector<Proposal> timed;
  for (; found.tried < found.given; ++found.tried) {
    if (std::chrono::duration<double>(Clock::now() - begun).count() > seconds) break;
    Proposal one{.algorithm = algorithms[static_cast<size_t>(found.tried)], .place = found.tried, .microseconds = 0};
    if (const auto time = microseconds(one, 4)) {
      one.microseconds = *time;
      timed.push_back(one);
    }
  }
  if (timed.empty()) {
    found.fault = fmt::format("cublasLtMatmul: none of {} proposals runs", found.given);
    return found;
  }
  // Few calls say too little of those that are close to each other.
  std::ranges::sort(timed, {}, &Proposal::microseconds);
  int all = 0, early = 0;
  for (Proposal& one : timed) {
    const bool fast = all++ < 3;
    const bool fast_and_early = one.place < 8 && early++ < 3;
    if (!fast && !fast_and_early && one.place != 0) continue;
    one.microseconds = microseconds(one, std::clamp(static_cast<int>(5e3 / one.microseconds), 4, 40)).value();
    found.best.push_back(one);
  }
  return found;
}

void TimedMatmul::run_once(const Proposal& proposal) { blas::check(launch(proposal, 0), "cublasLtMatmul"); }

Sustained TimedMatmul::run(const Proposal& proposal, double seconds, const harness::NvmlDevice& device) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  // Some 10 ms of work in one graph.
  const size_t sets = sets_.size();
  const double microseconds = std::max(proposal.microseconds, 1.0);
  const auto wanted = static_cast<size_t>(1e4 / microseconds);
  const size_t calls = sets * std::clamp<size_t>(wanted / sets, 1, 1 + 1000 / sets);
  const double graph_seconds = 1e-6 * microseconds * static_cast<double>(calls);
  const auto launches = std::max<int64_t>(4, std::lround(seconds / graph_seconds));

  C10_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  for (size_t i = 0; i < calls && status == CUBLAS_STATUS_SUCCESS; ++i) status = launch(proposal, i);
  cudaGraph_t captured = nullptr;
  C10_CUDA_CHECK(cudaStreamEndCapture(stream, &captured));
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph> graph(captured);
  blas::check(status, "cublasLtMatmul, captured");
  cudaGraphExec_t instantiated = nullptr;
  C10_CUDA_CHECK(cudaGraphInstantiateWithFlags(&instantiated, captured, 0));
  const std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraph> executable(instantiated);

  Sustained result{.calls = (launches - launches / 4) * static_cast<int64_t>(calls),
                   .kernels = kernels_of(captured, calls)};
  c10::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  for (int64_t i = 0; i < launches; ++i) {
    if (i == launches / 4) begin.record();
    C10_CUDA_CHECK(cudaGraphLaunch(instantiated, stream));
  }
  end.record();
  while (!begin.query()) std::this_thread::sleep_for(poll_period);
  Observer observer(device);
  while (!end.query()) {
    observer.look();
    std::this_thread::sleep_for(poll_period);
  }
  result.microseconds = 1e3 * begin.elapsed_time(end) / static_cast<double>(result.calls);
  observer.tell(result);
  return result;
}

std::map<std::string, int> configuration(const cublasLtMatmulAlgo_t& algorithm) {
  std::map<std::string, int> values;
  const auto read = [&](const char* name, cublasLtMatmulAlgoConfigAttributes_t attribute, auto value) {
    size_t written = 0;
    if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written) ==
        CUBLAS_STATUS_SUCCESS) {
      values[name] = static_cast<int>(value);
    }
  };
  read("id", CUBLASLT_ALGO_CONFIG_ID, int32_t{0});
  read("tile", CUBLASLT_ALGO_CONFIG_TILE_ID, uint32_t{0});
  read("stages", CUBLASLT_ALGO_CONFIG_STAGES_ID, uint32_t{0});
  read("split_k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM, int32_t{0});
  read("reduction", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, uint32_t{0});
  read("swizzling", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, uint32_t{0});
  read("custom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, uint32_t{0});
  read("inner_shape", CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, uint16_t{0});
  read("cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, uint16_t{0});
  return values;
}

}  // namespace ablations::micro
