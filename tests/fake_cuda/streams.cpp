// Streams and events, captures and graphs.
#include "fake_cuda/process.h"

#include <algorithm>

namespace fake_cuda {
namespace {

Event* event_of(cudaEvent_t handle) { return reinterpret_cast<Event*>(handle); }

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

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
  std::swap(thread_mode(), *mode);
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
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  const Work::Kind kind = reinterpret_cast<const Node*>(node)->work.kind;
  *type = kind == Work::Kind::kernel ? cudaGraphNodeTypeKernel
          : kind == Work::Kind::set  ? cudaGraphNodeTypeMemset
                                     : cudaGraphNodeTypeMemcpy;
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
  const int64_t launched_ns = now_ns();
  for (const auto& node : reinterpret_cast<const Graph*>(executable)->nodes) {
    carry_out(stream, node->work, call.correlation(), node->id, launched_ns);
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

}  // extern "C"
