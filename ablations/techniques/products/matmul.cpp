#include "ablations/techniques/products/matmul.h"

#include "ablations/techniques/cuda/call.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>

#include <algorithm>

namespace model::blas {

using at::Tensor;

namespace {

cudaDataType cuda_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return CUDA_R_32F;
    case at::kBFloat16:
      return CUDA_R_16BF;
    case at::kHalf:
      return CUDA_R_16F;
    case at::kFloat8_e4m3fn:
      return CUDA_R_8F_E4M3;
    case at::kFloat8_e5m2:
      return CUDA_R_8F_E5M2;
    default:
      TORCH_CHECK(false, "blas: no products of ", type);
  }
}

uint32_t alignment(const Tensor& x) {
  const auto address = reinterpret_cast<uintptr_t>(x.const_data_ptr());
  return static_cast<uint32_t>(std::min<uintptr_t>(256, address & (~address + 1)));
}

bool is_fp8(const Tensor& x) { return x.element_size() == 1; }

void describe(const Tensor& x, cudaDataType type, cublasLtMatrixLayoutOpaque_t& layout) {
  TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "blas: matrices must lie row by row, got sizes ", x.sizes(),
              " and strides ", x.strides());
  const auto rows = static_cast<uint64_t>(x.size(1)), columns = static_cast<uint64_t>(x.size(0));
  check(cublasLtMatrixLayoutInit(&layout, type, rows, columns, x.size(1)), "cublasLtMatrixLayoutInit");
}

}  // namespace

void check(cublasStatus_t status, const char* call) {
  TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, call, ": ", cublasLtGetStatusString(status));
}

bool uses_tf32(const Product& product) {
  return product.a.scalar_type() == at::kFloat &&
         at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
             at::Float32Precision::TF32;
}

int64_t alignment_of(const Product& product) {
  return std::min({alignment(product.a), alignment(product.b), alignment(product.d)});
}

template <class Value>
void Matmul::set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(&description_, attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

Matmul::Matmul(const Product& product) : product_(product) {
  check(cublasLtMatmulDescInit(&description_, uses_tf32(product) ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                               CUDA_R_32F),
        "cublasLtMatmulDescInit");
  set(CUBLASLT_MATMUL_DESC_TRANSA, product.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, product.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, product.epilogue);
  const bool fp8 = is_fp8(product.a);
  if (product.bias.defined()) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias.mutable_data_ptr());
    if (fp8) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(product.bias.scalar_type()));
  }
  if (product.auxiliary.defined()) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.auxiliary.mutable_data_ptr());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.auxiliary.size(1));
    if (fp8) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, cuda_type(product.auxiliary.scalar_type()));
  }
  if (fp8) {
    const auto mode = [](const Tensor& scale) {
      return scale.numel() == 1 ? CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F : CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    };
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, static_cast<int32_t>(mode(product.a_scale)));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, static_cast<int32_t>(mode(product.b_scale)));
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, product.a_scale.const_data_ptr());
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, product.b_scale.const_data_ptr());
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
  }
  describe(product.a, cuda_type(product.a.scalar_type()), a_);
  describe(product.b, cuda_type(product.b.scalar_type()), b_);
  describe(product.d, is_fp8(product.d) ? CUDA_R_16BF : cuda_type(product.d.scalar_type()), c_);  // not read, or is d
  describe(product.d, cuda_type(product.d.scalar_type()), d_);
}

std::vector<cublasLtMatmulAlgo_t> Matmul::proposals(int most, int64_t most_workspace, cublasStatus_t* said) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(most_workspace));
  // Parts of a sum are not rounded to the result's type.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(product_.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(product_.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(product_.d));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(product_.d));
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(at::cuda::getCurrentCUDABlasLtHandle(), &description_, &a_, &b_, &c_, &d_,
                                     &preference, most, results.data(), &count);
  if (said != nullptr) *said = status;
  // INVALID_VALUE, too, says that it has none (a comment in aten/src/ATen/native/cuda/Blas.cpp).
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  results.resize(static_cast<size_t>(count));
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (const cublasLtMatmulHeuristicResult_t& result : results) {
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

cublasStatus_t Matmul::run(const cublasLtMatmulAlgo_t& algorithm, const Tensor& d, const Tensor& workspace) {
  const float alpha = 1, beta = product_.accumulate ? 1 : 0;
  return cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), &description_, &alpha, product_.a.const_data_ptr(), &a_,
                        product_.b.const_data_ptr(), &b_, &beta, d.const_data_ptr(), &c_, d.mutable_data_ptr(), &d_,
                        &algorithm, workspace.mutable_data_ptr(), static_cast<size_t>(workspace_bytes), stream_for(d));
}

}  // namespace model::blas
