// The order in which the range profiler is switched on and off, also when a call is refused or the work fails, without
// a GPU: this program's own definitions of the calls that need one stand in front of CUDA's and CUPTI's. They keep a
// list and refuse what they are told to; which metrics there are and how many passes they need is CUPTI's real answer.
#include "harness/gpu/cupti.h"
#include "harness/gpu/gpu_counters.h"
#include "harness/process/unfit.h"
#include "tests/refusal.h"

#include <cuda_runtime_api.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

struct Driver {
  std::vector<std::string> calls;
  std::map<std::string, int> on;  // how often something is switched on
  std::string refused;            // this call,
  CUptiResult refusal = CUPTI_ERROR_UNKNOWN;
  CUpti_Profiler_Support_Level virtual_gpu = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  int passes = 1, stops = 0;
  size_t dropped = 0;
};
Driver driver;
int context = 0, profiler = 0;  // whose addresses are handles

CUptiResult call(const std::string& name) {
  driver.calls.push_back(name);
  return name == driver.refused ? driver.refusal : CUPTI_SUCCESS;
}

CUptiResult switch_on(const std::string& what, const std::string& name) {
  const CUptiResult result = call(name);
  if (result == CUPTI_SUCCESS) ++driver.on[what];
  return result;
}

CUptiResult switch_off(const std::string& what, const std::string& name) {
  EXPECT_GT(driver.on[what], 0) << name << " without its counterpart";
  --driver.on[what];  // also where it is refused: there is nothing more to try
  return call(name);
}

CUresult give_context(CUcontext* result) {
  *result = reinterpret_cast<CUcontext>(&context);
  return CUDA_SUCCESS;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "Test");
  properties->major = 9;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaFree(void*) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  (void)call("wait");
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  EXPECT_STREQ(symbol, "cuCtxGetCurrent");
  *function = reinterpret_cast<void*>(give_context);
  *status = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params*) { return call("initialize"); }
CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* params) {
  params->pChipName = "GH100";
  return call("chip");
}
CUptiResult cuptiProfilerDeviceSupported(CUpti_Profiler_DeviceSupported_Params* params) {
  EXPECT_EQ(params->api, CUPTI_PROFILER_RANGE_PROFILING);
  params->vGpu = driver.virtual_gpu;
  params->isSupported = driver.virtual_gpu;
  return call("supported");
}
CUptiResult cuptiProfilerGetCounterAvailability(CUpti_Profiler_GetCounterAvailability_Params* params) {
  EXPECT_EQ(params->ctx, reinterpret_cast<CUcontext>(&context));
  params->counterAvailabilityImageSize = 0;  // that is: everything the chip has
  return call("availability");
}
CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params* params) {
  EXPECT_EQ(params->ctx, reinterpret_cast<CUcontext>(&context));
  params->pRangeProfilerObject = reinterpret_cast<CUpti_RangeProfiler_Object*>(&profiler);
  return switch_on("profiler", "enable");
}
CUptiResult cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params*) {
  EXPECT_EQ(driver.on["counting"], 0);
  return switch_off("profiler", "disable");
}
CUptiResult cuptiRangeProfilerGetCounterDataSize(CUpti_RangeProfiler_GetCounterDataSize_Params* params) {
  params->counterDataSize = 64;
  return call("size");
}
CUptiResult cuptiRangeProfilerCounterDataImageInitialize(
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params* params) {
  EXPECT_EQ(params->counterDataSize, 64U);
  return call("image");
}
CUptiResult cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params* params) {
  EXPECT_EQ(params->range, CUPTI_UserRange);
  EXPECT_EQ(params->replayMode, CUPTI_UserReplay);
  EXPECT_GT(params->configSize, 0U);
  EXPECT_EQ(params->counterDataImageSize, 64U);
  return call("configure");
}
CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params*) { return switch_on("counting", "start"); }
CUptiResult cuptiRangeProfilerPushRange(CUpti_RangeProfiler_PushRange_Params*) { return switch_on("range", "push"); }
CUptiResult cuptiRangeProfilerPopRange(CUpti_RangeProfiler_PopRange_Params*) { return switch_off("range", "pop"); }
CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params* params) {
  params->isAllPassSubmitted = ++driver.stops >= driver.passes ? 1 : 0;
  return switch_off("counting", "stop");
}
CUptiResult cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params* params) {
  params->numOfRangeDropped = driver.dropped;
  return call("decode");
}
CUptiResult cuptiRangeProfilerGetCounterDataInfo(CUpti_RangeProfiler_GetCounterDataInfo_Params* params) {
  params->numTotalRanges = 1;
  return call("info");
}
CUptiResult cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params* params) {
  for (size_t i = 0; i < params->numMetrics; ++i) params->pMetricValues[i] = 10.0 + static_cast<double>(i);
  return call("evaluate");
}

namespace {

using harness::Counters;

const std::vector<std::string> two = {"dram__bytes_write.sum", "dram__bytes_read.sum"};

void expect_all_off() {
  for (const auto& [what, times] : driver.on) EXPECT_EQ(times, 0) << what;
}

void work() { (void)call("work"); }

// The first, because a process initializes it once.
TEST(CountersCalls, AProfilerThatDoesNotStartIsTheMachinesFault) {
  driver = {.refused = "initialize"};
  EXPECT_THROW(Counters{two}, harness::Unfit);
  expect_all_off();
}

TEST(CountersCalls, ComeInOrder) {
  driver = {};
  {
    Counters counters(two);
    EXPECT_EQ(counters.chip(), "GH100");
    EXPECT_EQ(counters.passes(), 1);
    const auto values = counters.measure(work);
    ASSERT_EQ(values.size(), 2U);
    EXPECT_EQ(values[0].metric, "dram__bytes_write.sum");
    EXPECT_EQ(values[0].value, 10.0);
    EXPECT_EQ(values[1].metric, "dram__bytes_read.sum");
    EXPECT_EQ(values[1].value, 11.0);
    EXPECT_EQ(values[1].unit, "byte");
  }
  EXPECT_EQ(driver.calls, (std::vector<std::string>{"initialize", "chip",   "supported", "availability", "availability",
                                                    "enable",     "size",   "image",     "configure",    "wait",
                                                    "start",      "push",   "work",      "wait",         "pop",
                                                    "stop",       "decode", "info",      "evaluate",     "disable"}));
  driver.calls.clear();
  EXPECT_EQ(Counters(two).chip(), "GH100");
  EXPECT_EQ(driver.calls.front(), "chip");  // the library stays initialized
  expect_all_off();
}

TEST(CountersCalls, NoMetricsAreTheDefaultSet) {
  driver = {};
  Counters counters({});
  const std::vector<std::string> expected = harness::default_metrics("GH100");
  const auto values = counters.measure(work);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i].metric, expected[i]);
}

TEST(CountersCalls, EachPassIsTheWorkOnceMore) {
  driver = {.passes = 8};
  Counters counters({"sm__throughput.avg.pct_of_peak_sustained_elapsed"});
  EXPECT_EQ(counters.passes(), 8);
  (void)counters.measure(work);
  EXPECT_EQ(std::ranges::count(driver.calls, "work"), 8);
  EXPECT_EQ(std::ranges::count(driver.calls, "enable"), 1);
}

TEST(CountersCalls, WhatGoesWrongUndoesWhatWasDone) {
  std::vector<Driver> wrong{{.passes = 2}, {.dropped = 1}};  // more passes than announced, a range that was dropped
  for (const char* refused : {"chip", "supported", "availability", "enable", "size", "image", "configure", "start",
                              "push", "pop", "stop", "decode", "info", "evaluate"}) {
    wrong.push_back({.refused = refused});
  }
  for (const Driver& one : wrong) {
    SCOPED_TRACE(one.refused);
    driver = one;
    EXPECT_THROW((void)Counters(two).measure(work), std::runtime_error);
    expect_all_off();
  }
  driver = {};
  EXPECT_THROW(Counters({"dram__bytes_reed.sum"}), std::invalid_argument);  // which there is not
  expect_all_off();
}

TEST(CountersCalls, WorkThatFailsUndoesWhatWasDone) {
  driver = {};
  {
    Counters counters(two);
    EXPECT_THROW((void)counters.measure([] { throw std::out_of_range("planted"); }), std::out_of_range);
    EXPECT_EQ(driver.on["profiler"], 0);
    EXPECT_EQ(counters.measure(work).size(), 2U);  // and nothing is in the way of the next
  }
  expect_all_off();
}

TEST(CountersCalls, WhatTheMachineLacksOrRefusesIsNamed) {
  const std::pair<Driver, std::string> refusals[] = {
      {{.refused = "availability", .refusal = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES},
       "NVreg_RestrictProfilingToAdminUsers=0"},
      {{.refused = "enable", .refusal = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED},
       "a tool injected by CUDA_INJECTION64_PATH, /opt/libtool.so, is attached to this process: start it without "
       "[cuptiRangeProfilerEnable: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)]"},
      {{.virtual_gpu = CUPTI_PROFILER_CONFIGURATION_DISABLED},
       "CUPTI cannot read the counters of Test; virtual GPU: switched off by the system"}};
  ::setenv("CUDA_INJECTION64_PATH", "/opt/libtool.so", 1);
  for (const auto& [refusing, words] : refusals) {
    driver = refusing;
    const std::string said = refusal_of<harness::Unfit>([] { return Counters(two).measure(work); });
    EXPECT_NE(said.find(words), std::string::npos) << said;
    EXPECT_EQ(std::ranges::count(driver.calls, "work"), 0);
    expect_all_off();
  }
  ::unsetenv("CUDA_INJECTION64_PATH");
}

// A process's map with one more library in it.
std::string maps_with(const std::string& library) {
  return "55d0c0a00000-55d0c0a80000 r-xp 00000000 08:01 11 /usr/bin/ladder\n"
         "7f10a0000000-7f10a0080000 r-xp 00000000 08:01 12 " +
         library +
         "\n"
         "7f10b0000000-7f10b0080000 r-xp 00000000 08:01 13 /usr/lib/libcupti.so.13\n"
         "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n";
}

TEST(AttachedTool, IsNamedByItsLibraryElseByWhatShowsIt) {
  const std::string ours = "/usr/lib/libcuda.so.1", nsight = "/opt/nvidia/nsight-";
  const std::tuple<std::string, int, const char*, const char*> seen[] = {
      {nsight + "systems/target-linux-x64/libToolsInjection64.so", 4711, "x.so", "Nsight Systems"},
      {nsight + "systems/target-linux-x64/libToolsInjectionProxy64.so", 4711, "x.so", "Nsight Systems"},
      {nsight + "compute/target/linux-desktop-glibc_2_11_3-x64/libcuda-injection.so", 4711, "x.so", "Nsight Compute"},
      {"/usr/local/cuda/compute-sanitizer/libsanitizer-collection.so", 4711, "x.so", "compute-sanitizer"},
      {ours, 4711, "/opt/libtool.so", "a debugger (cuda-gdb?), process 4711,"},
      {ours, 0, "/opt/libtool.so", "a tool injected by CUDA_INJECTION64_PATH, /opt/libtool.so,"},
      {ours, 0, "", "another tool"},
      {"/opt/nvidia/libTreeLauncherTargetInjection.so", 0, "", "another tool"}};  // of Compute and compute-sanitizer
  for (const auto& [library, tracer, injected, tool] : seen) {
    std::string words = std::string(tool) + " is attached to this process";
    if (words.starts_with("another")) words += " (Nsight Systems, Nsight Compute, cuda-gdb, compute-sanitizer)";
    EXPECT_EQ(harness::attached_tool(maps_with(library), tracer, injected), words);
  }
}

}  // namespace
