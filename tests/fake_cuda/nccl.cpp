// NCCL for a single rank, whose reductions change nothing: each is one kernel of its stream.
#include "fake_cuda/device.h"

#include <cupti_driver_cbid.h>
#include <nccl.h>

using namespace fake_cuda;

namespace {

ncclResult_t launch(cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  const Call call(false, "cuLaunchKernelEx", CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
  const Work work{.kind = Work::Kind::kernel, .name = "ncclDevKernel"};
  return enqueue(stream_of(stream), work, call.correlation()) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return *id = {}, ncclSuccess; }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int, ncclUniqueId, int, ncclConfig_t*) {
  *comm = reinterpret_cast<ncclComm_t>(new char);
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommAbort(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) { return *error = ncclSuccess; }
ncclResult_t ncclCommCount(ncclComm_t, int* count) { return *count = 1, ncclSuccess; }
ncclResult_t ncclCommUserRank(ncclComm_t, int* rank) { return *rank = 0, ncclSuccess; }
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t stream) {
  return launch(stream);
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t stream) {
  return launch(stream);
}
ncclResult_t ncclBcast(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t stream) { return launch(stream); }

}  // extern "C"
