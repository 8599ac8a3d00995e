// CUDA's driver, which PyTorch's library for compiled kernels is linked with: a context, and nothing that loads or
// launches kernels, which nothing here compiles while it runs. A graph's kernels have names.
#include "fake_cuda/device.h"

#include <cuda.h>

extern "C" {

CUresult cuCtxGetCurrent(CUcontext* context) {
  static int one;
  *context = reinterpret_cast<CUcontext>(&one);
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int) { return *device = 0, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) { return cuCtxGetCurrent(context); }
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) { return *text = "not in the fake driver", CUDA_SUCCESS; }
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* parameters) {
  *parameters = {};
  parameters->func = reinterpret_cast<CUfunction>(node);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetName(const char** name, CUfunction function) {
  *name = reinterpret_cast<const fake_cuda::Node*>(function)->work.name;
  return CUDA_SUCCESS;
}

#define NOT_THERE(function)                                                                 \
  void function##_is_not_there() __asm__(#function) __attribute__((visibility("default"))); \
  void function##_is_not_there() { __builtin_trap(); }
NOT_THERE(cuDeviceGetAttribute)
NOT_THERE(cuFuncGetAttribute)
NOT_THERE(cuFuncSetAttribute)
NOT_THERE(cuFuncSetCacheConfig)
NOT_THERE(cuLaunchCooperativeKernel)
NOT_THERE(cuLaunchKernel)
NOT_THERE(cuLinkAddData_v2)
NOT_THERE(cuLinkComplete)
NOT_THERE(cuLinkCreate_v2)
NOT_THERE(cuModuleGetFunction)
NOT_THERE(cuModuleLoad)
NOT_THERE(cuModuleLoadData)
NOT_THERE(cuModuleLoadDataEx)
NOT_THERE(cuModuleUnload)
NOT_THERE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NOT_THERE(cuPointerGetAttribute)
NOT_THERE(cuTensorMapEncodeTiled)

}  // extern "C"
