// cuDNN's graph interface, which PyTorch's cuDNN attention is made with: every plan is supported and needs no memory of
// its own, and carrying it out is one kernel.
#include "fake_cuda/device.h"

#include <cudnn_graph.h>
#include <cupti_driver_cbid.h>

#include <cstring>

using namespace fake_cuda;

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new cudaStream_t{});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<cudaStream_t*>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  *reinterpret_cast<cudaStream_t*>(handle) = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = *reinterpret_cast<cudaStream_t*>(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new char;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<char*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t, const void*) {
  return CUDNN_STATUS_SUCCESS;
}
// One descriptor (which the caller has made), or one number that is 0, and none of anything else.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count, void* values) {
  const size_t bytes = type == CUDNN_TYPE_INT64 ? sizeof(int64_t) : type == CUDNN_TYPE_INT32 ? sizeof(int32_t) : 0;
  if (bytes > 0 && wanted > 0 && values != nullptr) std::memset(values, 0, bytes);
  if (count != nullptr) *count = bytes > 0 || type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? 1 : 0;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) {
  const std::lock_guard lock(mutex());
  const Call call(false, "cuLaunchKernelEx", CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
  Stream* const stream = stream_of(*reinterpret_cast<cudaStream_t*>(handle));
  const cudaError_t error =
      enqueue(stream, {.kind = Work::Kind::kernel, .name = "cudnn_attention"}, call.correlation());
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
