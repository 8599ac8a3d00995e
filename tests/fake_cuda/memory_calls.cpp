// Memory, copies and sets as a program asks for them.
#include "fake_cuda/memory.h"
#include "fake_cuda/process.h"

namespace fake_cuda {
namespace {

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

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

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
  ++process().done["cudaHostAlloc"];
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

}  // extern "C"
