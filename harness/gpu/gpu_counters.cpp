#include "harness/gpu/gpu_counters.h"

#include "harness/gpu/cupti.h"
#include "harness/machine/machine.h"
#include "harness/process/unfit.h"

#include <cuda_runtime_api.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <utility>

namespace harness {
namespace {

int current_device() {
  if (!this_machine().gpu) throw Unfit("counters need a GPU: " + this_machine().no_gpu_reason);
  int device = 0;
  check_cuda("cudaGetDevice", cudaGetDevice(&device));
  return device;
}

// The context of the run-time library. The driver is called through the run-time library, because a program that is
// linked with libcuda does not start on a machine without a driver.
CUcontext current_context() {
  (void)current_device();
  check_cuda("cudaFree", cudaFree(nullptr));  // makes it
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult status{};
  check_cuda("cudaGetDriverEntryPointByVersion",
             cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &entry, 12000, cudaEnableDefault, &status));
  CUcontext context = nullptr;
  if (status != cudaDriverEntryPointSuccess || entry == nullptr ||
      reinterpret_cast<CUresult (*)(CUcontext*)>(entry)(&context) != CUDA_SUCCESS || context == nullptr) {
    throw std::runtime_error("cuCtxGetCurrent: no context after cudaFree(nullptr)");
  }
  return context;
}

void check_supported() {
  CUpti_Profiler_DeviceSupported_Params params{CUpti_Profiler_DeviceSupported_Params_STRUCT_SIZE};
  params.cuDevice = current_device();
  params.api = CUPTI_PROFILER_RANGE_PROFILING;
  check_cupti("cuptiProfilerDeviceSupported", cuptiProfilerDeviceSupported(&params));
  if (params.isSupported == CUPTI_PROFILER_CONFIGURATION_SUPPORTED) return;
  std::string reasons;
  const auto look = [&](const char* what, CUpti_Profiler_Support_Level level) {
    if (level == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED) reasons += fmt::format("; {}: not supported", what);
    if (level == CUPTI_PROFILER_CONFIGURATION_DISABLED)
      reasons += fmt::format("; {}: switched off by the system", what);
  };
  look("architecture (compute capability 7.5 or higher has counters)", params.architecture);
  look("SLI", params.sli);
  look("virtual GPU", params.vGpu);
  look("confidential computing", params.confidentialCompute);
  look("mining processor", params.cmp);
  look("WSL", params.wsl);
  throw Unfit(fmt::format("CUPTI cannot read the counters of {}{}", this_machine().gpu->name, reasons));
}

// Which counters this device has. This is the first call that a driver refuses to users without permission; a sandboxed
// driver may answer it with any code.
std::vector<uint8_t> availability(CUcontext context) {
  CUpti_Profiler_GetCounterAvailability_Params params{CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE};
  params.ctx = context;
  check_counters_exist("cuptiProfilerGetCounterAvailability", cuptiProfilerGetCounterAvailability(&params));
  std::vector<uint8_t> image(params.counterAvailabilityImageSize);
  params.pCounterAvailabilityImage = image.data();
  check_counters_exist("cuptiProfilerGetCounterAvailability", cuptiProfilerGetCounterAvailability(&params));
  return image;
}

// The range profiler switched on in a context, with room for one range.
class RangeProfiler {
 public:
  RangeProfiler(CUcontext context, const MetricSet& metrics) {
    CUpti_RangeProfiler_Enable_Params enable{CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE};
    enable.ctx = context;
    check_counters_exist("cuptiRangeProfilerEnable", cuptiRangeProfilerEnable(&enable));
    object_ = enable.pRangeProfilerObject;
    try {
      make_room(metrics);
      configure(metrics);
    } catch (...) {
      disable();
      throw;
    }
  }
  ~RangeProfiler() { disable(); }
  RangeProfiler(const RangeProfiler&) = delete;  // owns an object of CUPTI's
  RangeProfiler& operator=(const RangeProfiler&) = delete;

  // One pass over `work`. Returns whether it was the last.
  bool pass(const std::function<void()>& work) {
    check_cuda("cudaDeviceSynchronize", cudaDeviceSynchronize());
    Session session(object_);
    work();
    check_cuda("cudaDeviceSynchronize", cudaDeviceSynchronize());
    return session.end();
  }

  std::vector<double> read(const MetricSet& metrics) {
    CUpti_RangeProfiler_DecodeData_Params decode{CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE};
    decode.pRangeProfilerObject = object_;
    check_cupti("cuptiRangeProfilerDecodeData", cuptiRangeProfilerDecodeData(&decode));
    CUpti_RangeProfiler_GetCounterDataInfo_Params info{CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE};
    info.pCounterDataImage = image_.data();
    info.counterDataImageSize = image_.size();
    check_cupti("cuptiRangeProfilerGetCounterDataInfo", cuptiRangeProfilerGetCounterDataInfo(&info));
    if (decode.numOfRangeDropped != 0 || info.numTotalRanges != 1) {
      throw std::runtime_error(fmt::format("CUPTI read {} ranges and dropped {}; one was measured", info.numTotalRanges,
                                           decode.numOfRangeDropped));
    }
    return metrics.evaluate(image_, 0);
  }

 private:
  // Counts between construction and end(); aborted if end() is not reached.
  class Session {
   public:
    explicit Session(CUpti_RangeProfiler_Object* object) : object_(object) {
      CUpti_RangeProfiler_Start_Params start{CUpti_RangeProfiler_Start_Params_STRUCT_SIZE};
      start.pRangeProfilerObject = object_;
      check_cupti("cuptiRangeProfilerStart", cuptiRangeProfilerStart(&start));
      started_ = true;
      CUpti_RangeProfiler_PushRange_Params push{CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE};
      push.pRangeProfilerObject = object_;
      push.pRangeName = "step";
      const CUptiResult result = cuptiRangeProfilerPushRange(&push);
      pushed_ = result == CUPTI_SUCCESS;
      if (!pushed_) (void)stop(nullptr);
      check_cupti("cuptiRangeProfilerPushRange", result);
    }
    ~Session() {
      if (pushed_) (void)pop();
      if (started_) (void)stop(nullptr);
    }
    Session(const Session&) = delete;  // ends once
    Session& operator=(const Session&) = delete;

    bool end() {
      bool last = false;
      check_cupti("cuptiRangeProfilerPopRange", pop());
      check_cupti("cuptiRangeProfilerStop", stop(&last));
      return last;
    }

   private:
    CUptiResult pop() {
      pushed_ = false;
      CUpti_RangeProfiler_PopRange_Params params{CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE};
      params.pRangeProfilerObject = object_;
      return cuptiRangeProfilerPopRange(&params);
    }
    CUptiResult stop(bool* last) {
      started_ = false;
      CUpti_RangeProfiler_Stop_Params params{CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE};
      params.pRangeProfilerObject = object_;
      const CUptiResult result = cuptiRangeProfilerStop(&params);
      if (last != nullptr) *last = params.isAllPassSubmitted != 0;
      return result;
    }

    CUpti_RangeProfiler_Object* object_;
    bool started_ = false, pushed_ = false;
  };

  void make_room(const MetricSet& metrics) {
    std::vector<const char*> names = metrics.c_names();
    CUpti_RangeProfiler_GetCounterDataSize_Params size{CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE};
    size.pRangeProfilerObject = object_;
    size.pMetricNames = names.data();
    size.numMetrics = names.size();
    size.maxNumOfRanges = 1;
    size.maxNumRangeTreeNodes = 1;
    check_cupti("cuptiRangeProfilerGetCounterDataSize", cuptiRangeProfilerGetCounterDataSize(&size));
    image_.resize(size.counterDataSize);
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params initialize{
        CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE};
    initialize.pRangeProfilerObject = object_;
    initialize.counterDataSize = image_.size();
    initialize.pCounterData = image_.data();
    check_cupti("cuptiRangeProfilerCounterDataImageInitialize",
                cuptiRangeProfilerCounterDataImageInitialize(&initialize));
  }

  void configure(const MetricSet& metrics) {
    CUpti_RangeProfiler_SetConfig_Params params{CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE};
    params.pRangeProfilerObject = object_;
    params.configSize = metrics.config().size();
    params.pConfig = metrics.config().data();
    params.counterDataImageSize = image_.size();
    params.pCounterDataImage = image_.data();
    params.range = CUPTI_UserRange;
    params.replayMode = CUPTI_UserReplay;
    params.maxRangesPerPass = 1;
    params.numNestingLevels = 1;
    params.minNestingLevel = 1;
    params.passIndex = 0;
    params.targetNestingLevel = 1;
    check_cupti("cuptiRangeProfilerSetConfig", cuptiRangeProfilerSetConfig(&params));
  }

  void disable() {
    CUpti_RangeProfiler_Disable_Params params{CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE};
    params.pRangeProfilerObject = object_;
    cuptiRangeProfilerDisable(&params);
  }

  CUpti_RangeProfiler_Object* object_ = nullptr;
  std::vector<uint8_t> image_;  // what was counted
};

}  // namespace

std::string current_chip() {
  const int device = current_device();
  // Once in a process and for good, as other tools do: whether CUPTI allows a second time is not documented.
  static bool is_initialized = false;
  if (!is_initialized) {
    CUpti_Profiler_Initialize_Params initialize{CUpti_Profiler_Initialize_Params_STRUCT_SIZE};
    check_counters_exist("cuptiProfilerInitialize", cuptiProfilerInitialize(&initialize));
    is_initialized = true;
  }
  CUpti_Device_GetChipName_Params params{CUpti_Device_GetChipName_Params_STRUCT_SIZE};
  params.deviceIndex = static_cast<size_t>(device);
  check_cupti("cuptiDeviceGetChipName", cuptiDeviceGetChipName(&params));
  return params.pChipName;
}

Counters::Counters(std::vector<std::string> metrics) : context_(current_context()), chip_(current_chip()) {
  check_supported();
  if (metrics.empty()) metrics = default_metrics(chip_);
  metrics_.emplace(chip_, std::move(metrics), availability(context_));
}

std::vector<CounterValue> Counters::measure(const std::function<void()>& work) {
  RangeProfiler profiler(context_, *metrics_);
  bool done = false;
  for (int64_t pass = 0; pass < passes() && !done; ++pass) done = profiler.pass(work);
  if (!done) throw std::runtime_error(fmt::format("CUPTI wants more than the {} passes that it announced", passes()));
  const std::vector<double> values = profiler.read(*metrics_);
  const std::vector<std::string> units = metrics_->units();
  std::vector<CounterValue> result;
  for (size_t i = 0; i < values.size(); ++i) result.push_back({metrics_->names()[i], values[i], units[i]});
  return result;
}

}  // namespace harness
