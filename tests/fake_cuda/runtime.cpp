// CUDA's run-time library, as much of it as PyTorch and this project call.
#include "fake_cuda/device.h"
#include "fake_cuda/memory.h"

#include <cupti_runtime_cbid.h>
#include <dlfcn.h>
#include <time.h>
#include <vector_types.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unordered_map>
#include <utility>

namespace fake_cuda {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

cudaError_t fail(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

struct Process {
  std::recursive_mutex mutex;
  Stream default_stream{.id = 7};
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::shared_ptr<Capture>> captures;  // under way
  std::unordered_map<const void*, const char*> kernels;
  std::unordered_map<const void*, std::pair<void*, size_t>> variables;
  uint64_t ids = 0;
  std::map<std::string, int64_t> done;  // kernels by name, captured ones as often as they were replayed
};

Process& process() {
  static auto* one = new Process;  // outlives the program's own clean-up
  return *one;
}

// FAKE_CUDA_COUNTS=FILE: how often each kernel ran, written there when the program ends.
__attribute__((destructor)) void write_counts() {
  const char* path = std::getenv("FAKE_CUDA_COUNTS");
  if (path == nullptr || process().done.empty()) return;
  std::ofstream file(path);
  for (const auto& [name, count] : process().done) file << count << ' ' << name << '\n';
}

void carry_out(Stream* stream, const Work& work, uint32_t correlation, uint64_t node) {
  const int64_t begin = std::max(now_ns(), stream->busy_until_ns);
  stream->busy_until_ns = begin + duration_ns(work);
  record_work(work, begin, stream->id, correlation, node);
  if (work.kind == Work::Kind::kernel) ++process().done[work.name];
}

const char* kernel_name(const void* function) {
  const auto found = process().kernels.find(function);
  return found == process().kernels.end() ? nullptr : found->second;
}

// What a capture forbids (cudaThreadExchangeStreamCaptureMode's documentation): breaks the captures it concerns.
bool is_forbidden() {
  bool forbidden = false;
  for (const auto& capture : process().captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool concerns =
        thread_mode == cudaStreamCaptureModeGlobal
            ? (own ? capture->mode != cudaStreamCaptureModeRelaxed : capture->mode == cudaStreamCaptureModeGlobal)
            : thread_mode == cudaStreamCaptureModeThreadLocal && own && capture->mode != cudaStreamCaptureModeRelaxed;
    if (concerns) capture->broken = forbidden = true;
  }
  return forbidden;
}

// Other threads go on meanwhile.
void wait_until(int64_t time_ns, std::unique_lock<std::recursive_mutex>& lock) {
  lock.unlock();
  const timespec until{.tv_sec = time_ns / 1'000'000'000, .tv_nsec = time_ns % 1'000'000'000};
  while (now_ns() < time_ns) ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  lock.lock();
}

Event* event_of(cudaEvent_t handle) { return reinterpret_cast<Event*>(handle); }

cudaError_t copy_in_stream(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Stream* stream,
                           uint32_t correlation) {
  if (kind == cudaMemcpyDefault) {
    const bool to_device = type_of(to) == cudaMemoryTypeDevice, from_device = type_of(from) == cudaMemoryTypeDevice;
    kind = to_device ? (from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice) : cudaMemcpyDeviceToHost;
  }
  const bool captured = stream->capture != nullptr;
  const cudaError_t error = enqueue(stream, {.kind = Work::Kind::copy, .bytes = bytes, .direction = kind}, correlation);
  if (error == cudaSuccess && !captured) copy(to, from, bytes);
  return error;
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

std::recursive_mutex& mutex() { return process().mutex; }

int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Stream* stream_of(cudaStream_t handle) {
  const bool is_default = handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
  return is_default ? &process().default_stream : reinterpret_cast<Stream*>(handle);
}

cudaError_t enqueue(Stream* stream, const Work& work, uint32_t correlation) {
  if (Capture* capture = stream->capture.get(); capture != nullptr) {
    if (capture->broken) return cudaErrorStreamCaptureInvalidated;
    ++capture->follows[stream][stream];
    capture->graph->nodes.push_back(std::make_unique<Node>(Node{.work = work, .id = ++process().ids}));
    tell_node(*capture->graph->nodes.back(), false);
    return cudaSuccess;
  }
  carry_out(stream, work, correlation, 0);
  return cudaSuccess;
}

}  // namespace fake_cuda

using namespace fake_cuda;

#define CALL(name, version)                  \
  std::unique_lock lock(fake_cuda::mutex()); \
  const Call call(true, #name, CUPTI_RUNTIME_TRACE_CBID_##name##_##version)

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
  const char* capability = std::getenv("FAKE_CUDA_CAPABILITY");
  int major = 9, minor = 0;
  if (capability != nullptr) std::sscanf(capability, "%d.%d", &major, &minor);
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
  properties->major = major;
  properties->minor = minor;
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
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      return *value = properties.multiProcessorCount, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return *value = static_cast<int>(properties.sharedMemPerBlockOptin), cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return *value = static_cast<int>(properties.sharedMemPerMultiprocessor), cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return *value = static_cast<int>(properties.sharedMemPerBlock), cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      return *value = properties.major, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      return *value = properties.minor, cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
      return *value = properties.maxThreadsPerBlock, cudaSuccess;
    case cudaDevAttrMaxGridDimX:
      return *value = properties.maxGridSize[0], cudaSuccess;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return *value = properties.maxGridSize[1], cudaSuccess;
    case cudaDevAttrMaxRegistersPerBlock:
      return *value = properties.regsPerBlock, cudaSuccess;
    case cudaDevAttrWarpSize:
      return *value = properties.warpSize, cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return *value = properties.maxThreadsPerMultiProcessor, cudaSuccess;
    case cudaDevAttrL2CacheSize:
      return *value = properties.l2CacheSize, cudaSuccess;
    default:
      std::fprintf(stderr, "fake_cuda: device attribute %d is not known\n", static_cast<int>(attribute));
      return fail(cudaErrorNotSupported);
  }
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

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorInvalidDeviceFunction:
      return "cudaErrorInvalidDeviceFunction";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    default: {
      static thread_local char text[32];
      std::snprintf(text, sizeof text, "CUDA error %d", static_cast<int>(error));
      return text;
    }
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : cudaGetErrorName(error);
}

// Memory.

cudaError_t cudaMalloc(void** data, size_t bytes) {
  CALL(cudaMalloc, v3020);
  if (is_forbidden()) return fail(cudaErrorStreamCaptureUnsupported);
  *data = bytes == 0 ? nullptr : take(bytes, false);
  return fail(*data == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFree(void* data) {
  CALL(cudaFree, v3020);
  if (data == nullptr) return cudaSuccess;
  if (is_forbidden()) return fail(cudaErrorStreamCaptureUnsupported);
  return fail(give_back(data) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  CALL(cudaHostAlloc, v3020);
  if (is_forbidden()) return fail(cudaErrorStreamCaptureUnsupported);
  *data = take(bytes, true);
  return fail(*data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFreeHost(void* data) {
  CALL(cudaFreeHost, v3020);
  if (is_forbidden()) return fail(cudaErrorStreamCaptureUnsupported);
  return fail(give_back(data) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  CALL(cudaMemGetInfo, v3020);
  *free = free_bytes();
  *total = total_bytes();
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  CALL(cudaPointerGetAttributes, v4000);
  const cudaMemoryType type = type_of(pointer);
  *attributes = {.type = type,
                 .device = type == cudaMemoryTypeUnregistered ? -2 : 0,
                 .devicePointer = type == cudaMemoryTypeUnregistered ? nullptr : const_cast<void*>(pointer),
                 .hostPointer = type == cudaMemoryTypeDevice ? nullptr : const_cast<void*>(pointer)};
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** data, const void* symbol) {
  CALL(cudaGetSymbolAddress, v3020);
  const auto found = process().variables.find(symbol);
  if (found == process().variables.end()) return fail(cudaErrorInvalidSymbol);
  if (found->second.first == nullptr) found->second.first = take(found->second.second, false);
  *data = found->second.first;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  CALL(cudaMemcpyAsync, v3020);
  return fail(copy_in_stream(to, from, bytes, kind, stream_of(stream), call.correlation()));
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  CALL(cudaMemcpy2DAsync, v3020);
  for (size_t row = 0; stream_of(stream)->capture == nullptr && row < height; ++row) {
    copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
  }
  return fail(enqueue(stream_of(stream), {.kind = Work::Kind::copy, .bytes = width * height, .direction = kind},
                      call.correlation()));
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  CALL(cudaMemcpy, v3020);
  if (is_forbidden()) return fail(cudaErrorStreamCaptureImplicit);
  const cudaError_t error = copy_in_stream(to, from, bytes, kind, stream_of(nullptr), call.correlation());
  wait_until(process().default_stream.busy_until_ns, lock);
  return fail(error);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  CALL(cudaMemsetAsync, v3020);
  Stream* const of = stream_of(stream);
  const bool captured = of->capture != nullptr;
  const cudaError_t error = enqueue(of, {.kind = Work::Kind::set, .bytes = bytes}, call.correlation());
  if (error == cudaSuccess && !captured) fill(to, value, bytes);
  return fail(error);
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  CALL(cudaMemset, v3020);
  if (is_forbidden()) return fail(cudaErrorStreamCaptureImplicit);
  fill(to, value, bytes);
  return fail(enqueue(stream_of(nullptr), {.kind = Work::Kind::set, .bytes = bytes}, call.correlation()));
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

// Streams and events.

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  CALL(cudaStreamCreateWithPriority, v5050);
  process().streams.push_back(std::make_unique<Stream>());
  process().streams.back()->id = static_cast<uint32_t>(12 + process().streams.size());
  *stream = reinterpret_cast<cudaStream_t>(process().streams.back().get());
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CALL(cudaStreamSynchronize, v3020);
  Stream* const stream = stream_of(handle);
  if (stream->capture) return stream->capture->broken = true, fail(cudaErrorStreamCaptureUnsupported);
  wait_until(stream->busy_until_ns, lock);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  CALL(cudaStreamQuery, v3020);
  Stream* const stream = stream_of(handle);
  if (stream->capture) return stream->capture->broken = true, fail(cudaErrorStreamCaptureUnsupported);
  return fail(now_ns() < stream->busy_until_ns ? cudaErrorNotReady : cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t awaited, unsigned) {
  CALL(cudaStreamWaitEvent, v3020);
  Stream* const stream = stream_of(handle);
  const Event* event = event_of(awaited);
  if (event->capture) {
    if (stream == &process().default_stream) {
      event->capture->broken = true;
      return fail(cudaErrorStreamCaptureImplicit);
    }
    const bool under_way = std::ranges::find(process().captures, event->capture) != process().captures.end();
    if (!under_way) return fail(cudaErrorCapturedEvent);
    if (stream->capture && stream->capture != event->capture) {
      stream->capture->broken = event->capture->broken = true;
      return fail(cudaErrorStreamCaptureMerge);
    }
    if (event->capture->broken) return fail(cudaErrorStreamCaptureInvalidated);
    stream->capture = event->capture;
    auto& follows = stream->capture->follows[stream];
    follows.try_emplace(stream, 0);
    for (const auto& [other, count] : event->follows) follows[other] = std::max(follows[other], count);
    return cudaSuccess;
  }
  if (stream->capture && event->recorded) {
    stream->capture->broken = true;
    return fail(cudaErrorStreamCaptureIsolation);
  }
  stream->busy_until_ns = std::max(stream->busy_until_ns, event->at_ns);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  CALL(cudaEventCreateWithFlags, v3020);
  *event = reinterpret_cast<cudaEvent_t>(new Event{.timed = (flags & cudaEventDisableTiming) == 0});
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  CALL(cudaEventDestroy, v3020);
  delete event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
  CALL(cudaEventRecordWithFlags, v11010);
  Stream* const stream = stream_of(stream_handle);
  Event* const event = event_of(handle);
  event->recorded = true;
  event->capture = nullptr;
  if (stream->capture && (flags & cudaEventRecordExternal) == 0) {
    if (stream->capture->broken) return fail(cudaErrorStreamCaptureInvalidated);
    event->capture = stream->capture;
    event->follows = stream->capture->follows[stream];
    return cudaSuccess;
  }
  event->at_ns = std::max(now_ns(), stream->busy_until_ns);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  CALL(cudaEventQuery, v3020);
  const Event* event = event_of(handle);
  if (event->capture) return event->capture->broken = true, fail(cudaErrorCapturedEvent);
  if (is_forbidden()) return fail(cudaErrorStreamCaptureUnsupported);
  return fail(now_ns() < event->at_ns ? cudaErrorNotReady : cudaSuccess);
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  CALL(cudaEventSynchronize, v3020);
  const Event* event = event_of(handle);
  if (event->capture) return event->capture->broken = true, fail(cudaErrorCapturedEvent);
  if (is_forbidden()) return fail(cudaErrorStreamCaptureUnsupported);
  wait_until(event->at_ns, lock);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  CALL(cudaEventElapsedTime, v3020);
  const Event *from = event_of(begin), *to = event_of(end);
  if (from->capture || to->capture) return fail(cudaErrorCapturedEvent);
  if (!from->recorded || !to->recorded || !from->timed || !to->timed) return fail(cudaErrorInvalidResourceHandle);
  if (now_ns() < std::max(from->at_ns, to->at_ns)) return fail(cudaErrorNotReady);
  *milliseconds = static_cast<float>(static_cast<double>(to->at_ns - from->at_ns) * 1e-6);
  return cudaSuccess;
}

// Captures and graphs.

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(thread_mode, *mode);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  CALL(cudaStreamBeginCapture, v10000);
  Stream* const stream = stream_of(handle);
  if (stream == &process().default_stream) return fail(cudaErrorStreamCaptureUnsupported);
  if (stream->capture) return fail(cudaErrorIllegalState);
  stream->capture = std::make_shared<Capture>(Capture{.id = ++process().ids,
                                                      .mode = mode,
                                                      .thread = std::this_thread::get_id(),
                                                      .origin = stream,
                                                      .graph = std::make_unique<Graph>()});
  process().captures.push_back(stream->capture);
  return cudaSuccess;  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the capture's, and then its graph's owner's
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  CALL(cudaStreamEndCapture, v10000);
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream_of(handle)->capture;
  if (!capture) return fail(cudaErrorIllegalState);
  if (capture->origin != stream_of(handle)) return fail(cudaErrorStreamCaptureUnmatched);
  const bool wrong_thread =
      capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id();
  if (wrong_thread) return fail(cudaErrorStreamCaptureWrongThread);
  for (const auto& stream : process().streams) {
    if (stream->capture == capture) stream->capture = nullptr;
  }
  std::erase(process().captures, capture);
  if (capture->broken) return fail(cudaErrorStreamCaptureInvalidated);
  auto& followed = capture->follows[capture->origin];
  for (const auto& [stream, follows] : capture->follows) {
    const auto own = follows.find(stream);
    if (own != follows.end() && followed[stream] < own->second) return fail(cudaErrorStreamCaptureUnjoined);
  }
  *graph = reinterpret_cast<cudaGraph_t>(capture->graph.release());
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                     size_t* dependencies) {
  const std::lock_guard lock(fake_cuda::mutex());
  const Capture* capture = stream_of(handle)->capture.get();
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->broken  ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  if (capture == nullptr) return cudaSuccess;
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(capture->graph.get());
  if (dependencies != nullptr) *dependencies = 0;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  const std::lock_guard lock(fake_cuda::mutex());
  const auto* graph = reinterpret_cast<const Graph*>(handle);
  if (nodes != nullptr) {
    for (size_t i = 0; i < std::min(*count, graph->nodes.size()); ++i) {
      nodes[i] = reinterpret_cast<cudaGraphNode_t>(graph->nodes[i].get());
    }
  }
  *count = graph->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t handle, unsigned long long) {
  CALL(cudaGraphInstantiateWithFlags, v11040);
  const auto* graph = reinterpret_cast<const Graph*>(handle);
  auto clone = std::make_unique<Graph>();
  for (const auto& node : graph->nodes) {
    clone->nodes.push_back(
        std::make_unique<Node>(Node{.work = node->work, .id = ++process().ids, .original = node->id}));
    tell_node(*clone->nodes.back(), true);
  }
  *executable = reinterpret_cast<cudaGraphExec_t>(clone.release());
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  CALL(cudaGraphLaunch, v10000);
  Stream* const stream = stream_of(handle);
  if (stream->capture) return fail(cudaErrorStreamCaptureUnsupported);  // a child graph, which nobody here makes
  for (const auto& node : reinterpret_cast<const Graph*>(executable)->nodes) {
    carry_out(stream, node->work, call.correlation(), node->id);
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  CALL(cudaGraphDestroy, v10000);
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  CALL(cudaGraphExecDestroy, v10000);
  delete reinterpret_cast<Graph*>(executable);
  return cudaSuccess;
}

// The driver's functions (driver.cpp), by name.

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  *function = ::dlsym(RTLD_DEFAULT, symbol);
  const bool found = *function != nullptr;
  if (status != nullptr) *status = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return fail(found ? cudaSuccess : cudaErrorSymbolNotFound);
}

}  // extern "C"
