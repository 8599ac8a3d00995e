// CUDA's run-time library, as much of it as PyTorch and this project call: kernels, the device, errors. Memory is in
// memory_calls.cpp, streams, captures and graphs in streams.cpp.
#include "fake_cuda/memory.h"
#include "fake_cuda/process.h"

#include <dlfcn.h>
#include <vector_types.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace fake_cuda {
namespace {

const char* kernel_name(const void* function) {
  const auto found = process().kernels.find(function);
  return found == process().kernels.end() ? nullptr : found->second;
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   uint32_t correlation) {
  const char* name = kernel_name(function);
  if (name == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  const bool fits = size_t{block.x} * block.y * block.z <= 1024 && shared_bytes <= size_t{227} << 10 && block.z <= 64 &&
                    grid.y <= 65535 && grid.z <= 65535 &&
                    size_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z > 0;
  if (!fits) return fail(cudaErrorInvalidConfiguration);
  return fail(enqueue(stream_of(stream), {.kind = Work::Kind::kernel, .name = name}, correlation));
}

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

int compute_capability() {
  int major = 9, minor = 0;
  if (const char* named = std::getenv("FAKE_CUDA_CAPABILITY")) std::sscanf(named, "%d.%d", &major, &minor);
  return 10 * major + minor;
}
}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

// Kernels and variables as the compiler registers them, under its names.
// NOLINTBEGIN(bugprone-reserved-identifier)

void** __cudaRegisterFatBinary(void* binary) { return new void*(binary); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { delete handle; }
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const std::lock_guard lock(fake_cuda::mutex());
  process().kernels[function] = name;
}
void __cudaRegisterVar(void**, char* variable, char*, const char*, int, size_t bytes, int, int) {
  const std::lock_guard lock(fake_cuda::mutex());
  process().variables[variable] = {nullptr, bytes};
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  const Configuration& last = configurations.back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<void**>(stream) = last.stream;
  configurations.pop_back();
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**, size_t shared_bytes,
                               cudaStream_t stream) {
  CALL(__cudaLaunchKernel, v13000);
  return launch(kernel, grid, block, shared_bytes, stream, call.correlation());
}
// NOLINTEND(bugprone-reserved-identifier)
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void**, size_t shared_bytes,
                             cudaStream_t stream) {
  CALL(cudaLaunchKernel, v7000);
  return launch(function, grid, block, shared_bytes, stream, call.correlation());
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void**) {
  CALL(cudaLaunchKernelExC, v11060);
  return launch(function, config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream,
                call.correlation());
}

// The device.

cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return fail(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int) {
  std::snprintf(id, static_cast<size_t>(length), "0000:19:00.0");
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "fake CUDA device (its kernels do nothing)");
  std::memset(properties->uuid.bytes, 0x0f, sizeof properties->uuid.bytes);
  properties->totalGlobalMem = total_bytes();
  properties->sharedMemPerBlock = 48 << 10;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 64 << 10;
  properties->warpSize = 32;
  properties->memPitch = 2147483647;
  properties->maxThreadsPerBlock = 1024;
  for (const int axis : {0, 1, 2}) {
    properties->maxThreadsDim[axis] = axis == 2 ? 64 : 1024;
    properties->maxGridSize[axis] = axis == 0 ? 2147483647 : 65535;
  }
  properties->totalConstMem = 64 << 10;
  properties->major = compute_capability() / 10;
  properties->minor = compute_capability() % 10;
  properties->textureAlignment = 512;
  properties->texturePitchAlignment = 32;
  properties->multiProcessorCount = 132;
  properties->concurrentKernels = 1;
  properties->pciBusID = 0x19;
  properties->pciDeviceID = 0;
  properties->asyncEngineCount = 3;
  properties->unifiedAddressing = 1;
  properties->memoryBusWidth = 6144;
  properties->l2CacheSize = 50 << 20;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->streamPrioritiesSupported = 1;
  properties->sharedMemPerMultiprocessor = 228 << 10;
  properties->cooperativeLaunch = 1;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->reservedSharedMemPerBlock = 1 << 10;
  properties->clusterLaunch = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, device);
  const std::map<cudaDeviceAttr, int> known{
      {cudaDevAttrMultiProcessorCount, properties.multiProcessorCount},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, static_cast<int>(properties.sharedMemPerBlockOptin)},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, static_cast<int>(properties.sharedMemPerMultiprocessor)},
      {cudaDevAttrMaxSharedMemoryPerBlock, static_cast<int>(properties.sharedMemPerBlock)},
      {cudaDevAttrComputeCapabilityMajor, properties.major},
      {cudaDevAttrComputeCapabilityMinor, properties.minor},
      {cudaDevAttrMaxThreadsPerBlock, properties.maxThreadsPerBlock},
      {cudaDevAttrMaxGridDimX, properties.maxGridSize[0]},
      {cudaDevAttrMaxGridDimY, properties.maxGridSize[1]},
      {cudaDevAttrMaxGridDimZ, properties.maxGridSize[1]},
      {cudaDevAttrMaxRegistersPerBlock, properties.regsPerBlock},
      {cudaDevAttrWarpSize, properties.warpSize},
      {cudaDevAttrMaxThreadsPerMultiProcessor, properties.maxThreadsPerMultiProcessor},
      {cudaDevAttrL2CacheSize, properties.l2CacheSize}};
  const auto found = known.find(attribute);
  if (found != known.end()) return *value = found->second, cudaSuccess;
  std::fprintf(stderr, "fake_cuda: device attribute %d is not known\n", static_cast<int>(attribute));
  return fail(cudaErrorNotSupported);
}
cudaError_t cudaDeviceSynchronize() {
  CALL(cudaDeviceSynchronize, v3020);
  if (!process().captures.empty()) {
    for (const auto& capture : process().captures) capture->broken = true;
    return fail(cudaErrorStreamCaptureUnsupported);
  }
  int64_t until = process().default_stream.busy_until_ns;
  for (const auto& stream : process().streams) until = std::max(until, stream->busy_until_ns);
  wait_until(until, lock);
  return cudaSuccess;
}

// Errors.

cudaError_t cudaGetLastError() { return std::exchange(last_error(), cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error(); }
const char* cudaGetErrorName(cudaError_t error) {
#define NAME(value) \
  { value, #value }
  static const std::map<cudaError_t, const char*> names{NAME(cudaSuccess),
                                                        NAME(cudaErrorMemoryAllocation),
                                                        NAME(cudaErrorStreamCaptureUnsupported),
                                                        NAME(cudaErrorStreamCaptureInvalidated),
                                                        NAME(cudaErrorStreamCaptureUnjoined),
                                                        NAME(cudaErrorCapturedEvent),
                                                        NAME(cudaErrorNotReady),
                                                        NAME(cudaErrorInvalidDeviceFunction),
                                                        NAME(cudaErrorInvalidConfiguration)};
#undef NAME
  static thread_local char text[32];
  std::snprintf(text, sizeof text, "CUDA error %d", static_cast<int>(error));
  const auto found = names.find(error);
  return found == names.end() ? text : found->second;
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : cudaGetErrorName(error);
}

// Kernels' properties.

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 64;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  attributes->maxDynamicSharedSizeBytes = 227 << 10;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  CALL(cudaFuncSetAttribute, v9000);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads, size_t,
                                                                   unsigned) {
  return *blocks = std::max(1, 2048 / std::max(threads, 1)), cudaSuccess;
}

// The driver's functions (driver.cpp), by name.

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  *function = ::dlsym(RTLD_DEFAULT, symbol);
  if (*function == nullptr) *function = ::dlsym(RTLD_DEFAULT, (std::string(symbol) + "_v2").c_str());
  const bool found = *function != nullptr;
  if (status != nullptr) *status = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return fail(found ? cudaSuccess : cudaErrorSymbolNotFound);
}

}  // extern "C"
