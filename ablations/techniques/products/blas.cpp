// cuBLASLt counts columns first. To it a matrix (R, S) that lies row by row is the transposed one: (S, R), column by
// column, with leading dimension S. So it is asked for D^T, and gives D row by row:
//
//     fc = x W^T + b       fc^T = W x^T         A = W transposed (it reads W^T), B = x as it lies (it reads x^T)
//     d_fc = dy W          d_fc^T = W^T dy^T    A = W as it lies, B = dy as it lies
//     gradient = a^T b     gradient^T = b^T a   A = b as it lies, B = a transposed
//
// Its bias has a number for each row of what it computes, D^T: a column of D, an output of the layer. So has the bias's
// gradient. The auxiliary matrix, what GELU reads, lies as D does.
#include "ablations/techniques/products/blas.h"

#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/products/products.h"
#include "model/ops.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

namespace model::blas {

using at::Tensor;

namespace {

constexpr int64_t workspace_bytes = int64_t{32} << 20;

void check(cublasStatus_t status, const char* call) {
  TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, call, ": ", cublasLtGetStatusString(status));
}

// D = op(A) op(B), or D += op(A) op(B), in cuBLASLt's sense.
struct Product {
  const char* name;
  const Tensor &a, &b, &d;
  bool a_transposed, b_transposed;
  cublasLtEpilogue_t epilogue;
  Tensor bias, auxiliary;  // undefined where the epilogue has none
  bool accumulate;
};

bool uses_tf32(const Product& product) {
  return product.a.scalar_type() == at::kFloat &&
         at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
             at::Float32Precision::TF32;
}

// The address's alignment in bytes, 256 at most.
uint32_t alignment_of(const Tensor& x) {
  const auto address = reinterpret_cast<uintptr_t>(x.const_data_ptr());
  return static_cast<uint32_t>(std::min<uintptr_t>(256, address & (~address + 1)));
}

class Matmul {
 public:
  explicit Matmul(const Product& product) : product_(product) {
    check(cublasLtMatmulDescInit(&description_, uses_tf32(product) ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
          "cublasLtMatmulDescInit");
    set(CUBLASLT_MATMUL_DESC_TRANSA, product.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, product.epilogue);
    if (product.bias.defined()) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias.mutable_data_ptr());
    if (product.auxiliary.defined()) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.auxiliary.mutable_data_ptr());
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.auxiliary.size(1));
    }
    describe(product.a, a_);
    describe(product.b, b_);
    describe(product.d, d_);
  }

  // The best by its heuristics first. Empty where it has none for these sizes.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> proposals() {
    cublasLtMatmulPreferenceOpaque_t preference{};
    check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes));
    // Parts of a sum are not rounded to the result's type.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(product_.a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(product_.b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(product_.d));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product_.d));
    std::array<cublasLtMatmulHeuristicResult_t, 8> results{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(at::cuda::getCurrentCUDABlasLtHandle(), &description_, &a_, &b_, &d_, &d_,
                                       &preference, static_cast<int>(results.size()), results.data(), &count);
    // INVALID_VALUE, too, says that it has none (a comment in aten/src/ATen/native/cuda/Blas.cpp).
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
      if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
    }
    return algorithms;
  }

  // Into `d`, the product's or another one like it.
  [[nodiscard]] cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, const Tensor& d) {
    const Tensor workspace = at::empty({workspace_bytes}, d.options().dtype(at::kByte));
    const float alpha = 1, beta = product_.accumulate ? 1 : 0;
    return cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), &description_, &alpha, product_.a.const_data_ptr(),
                          &a_, product_.b.const_data_ptr(), &b_, &beta, d.const_data_ptr(), &d_, d.mutable_data_ptr(),
                          &d_, &algorithm, workspace.mutable_data_ptr(), static_cast<size_t>(workspace_bytes),
                          stream_for(d));
  }

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(&description_, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }

  static void describe(const Tensor& x, cublasLtMatrixLayoutOpaque_t& layout) {
    TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "blas: matrices must lie row by row, got sizes ", x.sizes(),
                " and strides ", x.strides());
    const auto rows = static_cast<uint64_t>(x.size(1)), columns = static_cast<uint64_t>(x.size(0));
    check(cublasLtMatrixLayoutInit(&layout, x.scalar_type() == at::kFloat ? CUDA_R_32F : CUDA_R_16BF, rows, columns,
                                   x.size(1)),
          "cublasLtMatrixLayoutInit");
  }

  const Product& product_;
  cublasLtMatmulDescOpaque_t description_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, d_{};
};

// Writes D, or adds to it, by other means than cuBLASLt.
using OtherWay = std::function<void(const Tensor& d)>;

// No value: the other way.
using Choice = std::optional<cublasLtMatmulAlgo_t>;
using Key = std::tuple<std::string, at::ScalarType, bool, int64_t, int64_t, int64_t, uint32_t>;

struct Known {
  std::mutex mutex;  // backward passes run on autograd's own thread
  std::map<Key, Choice> choices;
  std::vector<TimedProduct> timings;
};

Known& known() {
  static Known one;
  return one;
}

int64_t depth_of(const Product& product) { return product.a.size(product.a_transposed ? 1 : 0); }

Key key_of(const Product& product) {
  return {product.name,
          product.a.scalar_type(),
          uses_tf32(product),
          product.d.size(1),
          product.d.size(0),
          depth_of(product),
          std::min({alignment_of(product.a), alignment_of(product.b), alignment_of(product.d)})};
}

// The device's time for one call, after one that is not counted. The shortest of three rounds counts: if the host is
// held up, the device waits, and the round says nothing of the product.
double microseconds(const std::function<void()>& work) {
  constexpr int rounds = 3, calls = 10;
  c10::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  work();
  double shortest = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    begin.record();
    for (int i = 0; i < calls; ++i) work();
    end.record();
    end.synchronize();
    shortest = std::min(shortest, 1e3 * begin.elapsed_time(end) / calls);
  }
  return shortest;
}

int number_of(const cublasLtMatmulAlgo_t& algorithm) {
  int id = 0;
  size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, &written),
        "cublasLtMatmulAlgoConfigGetAttribute");
  return id;
}

// Waits for the device. Adds what it has timed to `timings`.
Choice fastest(const Product& product, Matmul& matmul, const std::vector<cublasLtMatmulAlgo_t>& proposals,
               const OtherWay& other_way, std::vector<TimedProduct>& timings) {
  const Tensor scratch = product.accumulate ? at::zeros_like(product.d) : product.d;
  const auto timing = [&](int algorithm, double time) -> TimedProduct {
    return {.product = product.name,
            .type = at::toString(product.a.scalar_type()),
            .m = product.d.size(1),
            .n = product.d.size(0),
            .k = depth_of(product),
            .algorithm = algorithm,
            .microseconds = time,
            .chosen = false};
  };
  size_t best = timings.size();
  timings.push_back(timing(-1, microseconds([&] { other_way(scratch); })));
  Choice choice;
  for (const cublasLtMatmulAlgo_t& algorithm : proposals) {
    if (matmul.run(algorithm, scratch) != CUBLAS_STATUS_SUCCESS) continue;
    const double time = microseconds([&] { check(matmul.run(algorithm, scratch), "cublasLtMatmul"); });
    timings.push_back(timing(number_of(algorithm), time));
    if (time < timings[best].microseconds) {
      best = timings.size() - 1;
      choice = algorithm;
    }
  }
  timings[best].chosen = true;
  return choice;
}

Choice choose(const Product& product, Matmul& matmul, const OtherWay& other_way) {
  const auto first = [&]() -> Choice {
    const std::vector<cublasLtMatmulAlgo_t> proposals = matmul.proposals();
    return proposals.empty() ? Choice() : Choice(proposals.front());
  };
  if (at::globalContext().deterministicAlgorithms()) return first();
  const std::lock_guard lock(known().mutex);
  const Key key = key_of(product);
  if (const auto found = known().choices.find(key); found != known().choices.end()) return found->second;
  if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) return first();
  const Choice choice = fastest(product, matmul, matmul.proposals(), other_way, known().timings);
  known().choices.emplace(key, choice);
  return choice;
}

// Whether cuBLASLt did it.
bool run(const Product& product, const OtherWay& other_way) {
  // cublasLt.h, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: GELU's "must be divisible by 8".
  const bool has_epilogue =
      product.a.scalar_type() != at::kFloat && product.auxiliary.defined() && product.auxiliary.size(1) % 8 == 0;
  if (product.auxiliary.defined() && !has_epilogue) {
    other_way(product.d);
    return false;
  }
  Matmul matmul(product);
  const Choice choice = choose(product, matmul, other_way);
  if (choice) {
    check(matmul.run(*choice, product.d), "cublasLtMatmul");
  } else {
    other_way(product.d);
  }
  return choice.has_value();
}

}  // namespace

void gelu(const Gelu& call, const Otherwise& otherwise) {
  run({.name = "gelu",
       .a = call.weight,
       .b = call.x,
       .d = call.hidden,
       .a_transposed = true,
       .b_transposed = false,
       .epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
       .bias = call.bias,
       .auxiliary = call.fc,
       .accumulate = false},
      [&](const Tensor&) { otherwise(); });
}

bool gelu_backward(const GeluBackward& call, const Otherwise& otherwise) {
  return run({.name = "gelu_backward",
              .a = call.weight,
              .b = call.dy,
              .d = call.d_fc,
              .a_transposed = false,
              .b_transposed = false,
              .epilogue = CUBLASLT_EPILOGUE_DGELU_BGRAD,
              .bias = call.d_bias,
              .auxiliary = call.fc,
              .accumulate = false},
             [&](const Tensor&) { otherwise(); });
}

void weight_gradient(const Tensor& gradient, const Tensor& a, const Tensor& b, bool accumulate) {
  run({.name = accumulate ? "weight_gradient +=" : "weight_gradient",
       .a = b,
       .b = a,
       .d = gradient,
       .a_transposed = false,
       .b_transposed = true,
       .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
       .accumulate = accumulate},
      [&](const Tensor& d) {
        Tensor out = d;
        if (accumulate) {
          at::addmm_out(out, out, a.t(), b, at::kFloat);
        } else {
          at::mm_out(out, a.t(), b, at::kFloat);
        }
      });
}

}  // namespace model::blas

namespace model {

std::vector<TimedProduct> cuda_timed_products() {
  const std::lock_guard lock(blas::known().mutex);
  return blas::known().timings;
}

}  // namespace model
