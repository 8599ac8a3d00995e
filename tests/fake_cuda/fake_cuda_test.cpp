// The fake device refuses what a real one refuses (CUDA Runtime API, "Stream Management" and the programming guide's
// "Prohibited and Unhandled Operations" of stream capture): tests on it are worth as much as that.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace {

struct FakeCuda : testing::Test {
  cudaStream_t stream{}, other{};
  cudaEvent_t event{}, joined{};
  cudaGraph_t graph{};
  void* data{};

  void SetUp() override {
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&joined, cudaEventDisableTiming);
    ASSERT_EQ(cudaMalloc(&data, 1 << 20), cudaSuccess);
  }
  void TearDown() override {
    cudaFree(data);
    cudaGetLastError();
  }
  cudaError_t begin() { return cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal); }
  cudaError_t work(cudaStream_t where) { return cudaMemsetAsync(data, 1, 64, where); }
  cudaError_t end() { return cudaStreamEndCapture(stream, &graph); }
};

TEST_F(FakeCuda, ACaptureIsAGraphOfItsWork) {
  ASSERT_EQ(begin(), cudaSuccess);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(work(stream), cudaSuccess);
  EXPECT_EQ(work(other), cudaSuccess);  // not in it
  ASSERT_EQ(end(), cudaSuccess);
  size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  EXPECT_EQ(nodes, 3U);
  cudaGraphExec_t executable{};
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_F(FakeCuda, ACaptureBreaksWhereTheHostWaits) {
  cudaEventRecord(event, stream);
  for (const auto& wait :
       {+[](FakeCuda& f) { return cudaStreamSynchronize(f.stream); },
        +[](FakeCuda& f) { return cudaStreamQuery(f.stream); }, +[](FakeCuda&) { return cudaDeviceSynchronize(); },
        +[](FakeCuda& f) { return cudaEventSynchronize(f.event); },
        +[](FakeCuda& f) { return cudaEventQuery(f.event); },
        +[](FakeCuda& f) { return cudaMemcpy(f.data, f.data, 8, cudaMemcpyDeviceToDevice); }}) {
    ASSERT_EQ(begin(), cudaSuccess);
    EXPECT_NE(wait(*this), cudaSuccess);
    EXPECT_EQ(work(stream), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(work(stream), cudaSuccess);
  }
}

TEST_F(FakeCuda, MemoryIsTakenDuringACaptureOnlyWhereTheThreadSaysSo) {
  void* more{};
  ASSERT_EQ(begin(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&more, 64), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(begin(), cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  EXPECT_EQ(cudaMalloc(&more, 64), cudaSuccess);
  cudaThreadExchangeStreamCaptureMode(&mode);
  EXPECT_EQ(end(), cudaSuccess);
  cudaGraphDestroy(graph);
  cudaFree(more);
}

TEST_F(FakeCuda, AnotherStreamComesInByAnEventAndGoesBackByOne) {
  for (const bool comes_back : {true, false}) {
    ASSERT_EQ(begin(), cudaSuccess);
    cudaEventRecord(event, stream);
    ASSERT_EQ(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
    ASSERT_EQ(work(other), cudaSuccess);
    if (comes_back) {
      cudaEventRecord(joined, other);
      ASSERT_EQ(cudaStreamWaitEvent(stream, joined, 0), cudaSuccess);
    }
    EXPECT_EQ(end(), comes_back ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
    if (comes_back) cudaGraphDestroy(graph);
  }
  ASSERT_EQ(begin(), cudaSuccess);
  cudaEventRecord(event, stream);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, event, 0), cudaErrorStreamCaptureImplicit);  // the default stream stays out
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamWaitEvent(other, event, 0), cudaErrorCapturedEvent);  // that capture is over
  EXPECT_EQ(work(nullptr), cudaSuccess);
  cudaEventRecord(event, other);  // of no capture
  ASSERT_EQ(begin(), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(FakeCuda, MemoryIsRealAndItsEndIsSeen) {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  void* rest{};
  EXPECT_EQ(cudaMalloc(&rest, free + 1), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&rest, free / 2), cudaSuccess);  // and costs nothing while nobody writes to it
  uint8_t out[16], in[16];
  std::memset(in, 7, sizeof in);
  cudaMemcpy(rest, in, sizeof in, cudaMemcpyHostToDevice);
  cudaMemcpy(out, rest, sizeof out, cudaMemcpyDeviceToHost);
  EXPECT_EQ(std::memcmp(in, out, sizeof in), 0);
  cudaMemset(rest, 0, free / 2);
  cudaMemcpy(out, rest, sizeof out, cudaMemcpyDeviceToHost);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(cudaFree(rest), cudaSuccess);
  EXPECT_EQ(cudaFree(rest), cudaErrorInvalidValue);
}

}  // namespace
