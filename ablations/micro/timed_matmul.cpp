// cuBLASLt counts columns first: its A is `right`, its B is `left` (ablations/techniques/products/blas.cpp).
#include "ablations/micro/timed_matmul.h"

#include "harness/machine/gpu_monitor.h"
#include "harness/stats/stats.h"

#include <ATen/cuda/CUDAContextLight.h>
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

using at::Tensor;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int64_t workspace_bytes_at_most = int64_t{32} << 20;
constexpr std::chrono::milliseconds poll_period{2}, clock_period{20};

void check_lt(cublasStatus_t status, const char* call) {
  TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, call, ": ", cublasLtGetStatusName(status));
}

cudaDataType type_of(const Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat8_e4m3fn:
      return CUDA_R_8F_E4M3;
    case at::kFloat8_e5m2:
      return CUDA_R_8F_E5M2;
    case at::kBFloat16:
      return CUDA_R_16BF;
    case at::kHalf:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

bool is_fp8(const Tensor& x) { return x.element_size() == 1; }

void describe(const Tensor& x, cudaDataType type, cublasLtMatrixLayoutOpaque_t& layout) {
  TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "matrices must lie row by row");
  check_lt(cublasLtMatrixLayoutInit(&layout, type, static_cast<uint64_t>(x.size(1)), static_cast<uint64_t>(x.size(0)),
                                    x.size(1)),
           "cublasLtMatrixLayoutInit");
}

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

TimedMatmul::TimedMatmul(Multiplication product) : product_(std::move(product)) {
  const Matrices& first = product_.sets.at(0);
  workspace_ = at::empty({workspace_bytes_at_most}, first.d.options().dtype(at::kByte));
  check_lt(cublasLtMatmulDescInit(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescInit");
  set(CUBLASLT_MATMUL_DESC_TRANSA, product_.right_transposed ? CUBLAS_OP_N : CUBLAS_OP_T);
  set(CUBLASLT_MATMUL_DESC_TRANSB, product_.left_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, product_.epilogue);
  const bool fp8 = is_fp8(first.left);
  if (product_.bias.defined()) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product_.bias.mutable_data_ptr());
    if (fp8) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(product_.bias));
  }
  if (product_.auxiliary.defined()) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product_.auxiliary.mutable_data_ptr());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product_.auxiliary.size(1));
    if (fp8) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type_of(product_.auxiliary));
  }
  if (fp8) {
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(product_.fast_accumulation ? 1 : 0));
    if (first.left_scale.numel() > 1) {
      set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    }
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, first.right_scale.const_data_ptr());
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, first.left_scale.const_data_ptr());
  }
  describe(first.right, type_of(first.right), a_);
  describe(first.left, type_of(first.left), b_);
  describe(first.d, is_fp8(first.d) ? CUDA_R_16BF : type_of(first.d), c_);  // which is not read, or is d
  describe(first.d, type_of(first.d), d_);
}

template <class Value>
void TimedMatmul::set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check_lt(cublasLtMatmulDescSetAttribute(&description_, attribute, &value, sizeof value),
           "cublasLtMatmulDescSetAttribute");
}

cublasStatus_t TimedMatmul::launch(const Proposal& proposal, size_t call) {
  const Matrices& one = product_.sets[call % product_.sets.size()];
  if (is_fp8(one.left)) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, one.right_scale.const_data_ptr());
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, one.left_scale.const_data_ptr());
  }
  const float alpha = 1, beta = product_.adds ? 1 : 0;
  return cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), &description_, &alpha, one.right.const_data_ptr(), &a_,
                        one.left.const_data_ptr(), &b_, &beta, one.d.const_data_ptr(), &c_, one.d.mutable_data_ptr(),
                        &d_, &proposal.algorithm, workspace_.mutable_data_ptr(),
                        static_cast<size_t>(workspace_bytes_at_most), c10::cuda::getCurrentCUDAStream());
}

std::optional<double> TimedMatmul::microseconds(const Proposal& proposal, int calls) {
  if (launch(proposal, 0) != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  c10::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  begin.record();
  for (int i = 1; i <= calls; ++i) check_lt(launch(proposal, static_cast<size_t>(i)), "cublasLtMatmul");
  end.record();
  end.synchronize();
  return 1e3 * begin.elapsed_time(end) / calls;
}

Proposals TimedMatmul::proposals(int most, int64_t workspace_bytes, double seconds) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  check_lt(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check_lt(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
             "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         static_cast<uint64_t>(std::min(workspace_bytes, workspace_bytes_at_most)));
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
  Proposals found;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(at::cuda::getCurrentCUDABlasLtHandle(), &description_, &a_, &b_, &c_, &d_,
                                     &preference, most, results.data(), &found.given);
  if (status != CUBLAS_STATUS_SUCCESS || found.given == 0) {
    found.fault = fmt::format("cublasLtMatmulAlgoGetHeuristic: {}",
                              status == CUBLAS_STATUS_SUCCESS ? "no proposals" : cublasLtGetStatusName(status));
    found.given = 0;
    return found;
  }
  const Clock::time_point begun = Clock::now();
  std::vector<Proposal> timed;
  for (; found.tried < found.given; ++found.tried) {
    if (std::chrono::duration<double>(Clock::now() - begun).count() > seconds) break;
    const auto& result = results[static_cast<size_t>(found.tried)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    Proposal one{.algorithm = result.algo, .place = found.tried, .microseconds = 0};
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

void TimedMatmul::run_once(const Proposal& proposal) { check_lt(launch(proposal, 0), "cublasLtMatmul"); }

Sustained TimedMatmul::run(const Proposal& proposal, double seconds, const harness::NvmlDevice& device) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  // Some 10 ms of work in one graph.
  const size_t sets = product_.sets.size();
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
  check_lt(status, "cublasLtMatmul, captured");
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
