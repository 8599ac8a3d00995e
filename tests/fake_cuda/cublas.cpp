// cuBLAS and cuBLASLt: each product is one kernel, named by what it would multiply in: "gemm_float32", "gemm_tf32".
#include "fake_cuda/device.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cupti_driver_cbid.h>

#include <cstring>

namespace fake_cuda {
namespace {

struct Handle {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};

Handle* handle_of(cublasHandle_t handle) { return reinterpret_cast<Handle*>(handle); }

const char* kernel_of(cudaDataType type, cublasComputeType_t compute, cublasMath_t math) {
  switch (type) {
    case CUDA_R_16BF:
      return "gemm_bf16";
    case CUDA_R_16F:
      return "gemm_fp16";
    case CUDA_R_64F:
      return "gemm_float64";
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return "gemm_fp8";
    default:
      return compute == CUBLAS_COMPUTE_32F_FAST_TF32 || (math & 0xF) == CUBLAS_TF32_TENSOR_OP_MATH ? "gemm_tf32"
                                                                                                   : "gemm_float32";
  }
}

cublasStatus_t multiply(cudaStream_t stream, const char* kernel) {
  const std::lock_guard lock(mutex());
  const Call call(false, "cuLaunchKernelEx", CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
  const cudaError_t error =
      enqueue(stream_of(stream), {.kind = Work::Kind::kernel, .name = kernel}, call.correlation());
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t multiply(cublasHandle_t handle, cudaDataType type, cublasComputeType_t compute) {
  return multiply(handle_of(handle)->stream, kernel_of(type, compute, handle_of(handle)->math));
}

// What is known of descriptors here.
struct Description {
  cublasComputeType_t compute;
  int32_t transposed_a, transposed_b;
  int32_t scales_a, scales_b;  // their modes
};
struct Layout {
  cudaDataType type;
  int64_t leading;
  uint64_t columns;
};

const Description& description_of(cublasLtMatmulDesc_t handle) { return *reinterpret_cast<Description*>(handle); }
const Layout& layout_of(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<Layout*>(handle); }

// As Hopper multiplies fp8: numbers that are added lie beside each other, in rows of 16, the result's rows are of 16,
// too, one operand is e4m3, and both have scales of one kind. Scales of rows are for compute capability 9.0 alone.
bool is_supported(const Description& description, const Layout& a, const Layout& b) {
  const auto is_fp8 = [](cudaDataType type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; };
  if (!is_fp8(a.type) && !is_fp8(b.type)) return true;
  return is_fp8(a.type) && is_fp8(b.type) && (a.type == CUDA_R_8F_E4M3 || b.type == CUDA_R_8F_E4M3) &&
         description.transposed_a == CUBLAS_OP_T && description.transposed_b == CUBLAS_OP_N && a.leading % 16 == 0 &&
         b.leading % 16 == 0 && a.columns % 16 == 0 && description.scales_a == description.scales_b &&
         (description.scales_a != CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F || compute_capability() == 90);
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = reinterpret_cast<cublasHandle_t>(new Handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle_of(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle_of(handle)->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  *mode = handle_of(handle)->math;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle_of(handle)->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  *mode = handle_of(handle)->pointers;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle_of(handle)->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}

// What is asked of a handle by arguments that do not matter here, and what does nothing.
#define PRODUCT(name, type, compute, ...) \
  cublasStatus_t name(cublasHandle_t handle, __VA_ARGS__) { return multiply(handle, type, compute); }
#define NOTHING(name, ...) \
  cublasStatus_t name(__VA_ARGS__) { return CUBLAS_STATUS_SUCCESS; }
PRODUCT(cublasSgemm_v2, CUDA_R_32F, CUBLAS_COMPUTE_32F, cublasOperation_t, cublasOperation_t, int, int, int,
        const float*, const float*, int, const float*, int, const float*, float*, int)
PRODUCT(cublasDgemm_v2, CUDA_R_64F, CUBLAS_COMPUTE_64F, cublasOperation_t, cublasOperation_t, int, int, int,
        const double*, const double*, int, const double*, int, const double*, double*, int)
PRODUCT(cublasSgemmStridedBatched, CUDA_R_32F, CUBLAS_COMPUTE_32F, cublasOperation_t, cublasOperation_t, int, int, int,
        const float*, const float*, int, long long, const float*, int, long long, const float*, float*, int, long long,
        int)
PRODUCT(cublasDgemmStridedBatched, CUDA_R_64F, CUBLAS_COMPUTE_64F, cublasOperation_t, cublasOperation_t, int, int, int,
        const double*, const double*, int, long long, const double*, int, long long, const double*, double*, int,
        long long, int)
PRODUCT(cublasGemmEx, type, compute, cublasOperation_t, cublasOperation_t, int, int, int, const void*, const void*,
        cudaDataType type, int, const void*, cudaDataType, int, const void*, void*, cudaDataType, int,
        cublasComputeType_t compute, cublasGemmAlgo_t)
PRODUCT(cublasGemmStridedBatchedEx, type, compute, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
        const void*, cudaDataType type, int, long long, const void*, cudaDataType, int, long long, const void*, void*,
        cudaDataType, int, long long, int, cublasComputeType_t compute, cublasGemmAlgo_t)
PRODUCT(cublasSgemv_v2, CUDA_R_32F, CUBLAS_COMPUTE_32F, cublasOperation_t, int, int, const float*, const float*, int,
        const float*, int, const float*, float*, int)
PRODUCT(cublasDgemv_v2, CUDA_R_64F, CUBLAS_COMPUTE_64F, cublasOperation_t, int, int, const double*, const double*, int,
        const double*, int, const double*, double*, int)
NOTHING(cublasSetWorkspace_v2, cublasHandle_t, void*, size_t)
NOTHING(cublasLtMatmulPreferenceInit_internal, cublasLtMatmulPreference_t, size_t)
NOTHING(cublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void*, size_t)
NOTHING(cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t)
NOTHING(cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
        const void*, size_t)

// In memory of the caller's: what the header's cublasLt...Init call.
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t description, size_t, cublasComputeType_t compute,
                                               cudaDataType_t) {
  *reinterpret_cast<Description*>(description) = {.compute = compute};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t, cudaDataType type, uint64_t,
                                                 uint64_t columns, int64_t leading) {
  *reinterpret_cast<Layout*>(layout) = {type, leading, columns};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoConfigAttributes_t,
                                                    void* value, size_t size, size_t* written) {
  std::memset(value, 0, size);
  *written = size;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{.compute = compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete reinterpret_cast<Description*>(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t) {
  auto* description = reinterpret_cast<Description*>(handle);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) description->transposed_a = *static_cast<const int32_t*>(value);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) description->transposed_b = *static_cast<const int32_t*>(value);
  if (attribute == CUBLASLT_MATMUL_DESC_A_SCALE_MODE) description->scales_a = *static_cast<const int32_t*>(value);
  if (attribute == CUBLASLT_MATMUL_DESC_B_SCALE_MODE) description->scales_b = *static_cast<const int32_t*>(value);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t, uint64_t columns,
                                          int64_t leading) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, leading, columns});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  *found = 0;
  if (!is_supported(description_of(description), layout_of(a), layout_of(b))) return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {};
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void*, const void*,
                              cublasLtMatrixLayout_t a, const void*, cublasLtMatrixLayout_t, const void*, const void*,
                              cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*,
                              size_t, cudaStream_t stream) {
  return multiply(stream, kernel_of(layout_of(a).type, description_of(description).compute, CUBLAS_DEFAULT_MATH));
}

}  // extern "C"
