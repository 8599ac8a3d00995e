// CUPTI: its one subscriber, and an explanation for the user when a call to CUPTI or CUDA is refused.
#pragma once

#include <cupti.h>
#include <driver_types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace harness {

// Throws for everything but success: Unfit with the remedy where the machine refuses (permission, another tool, a
// virtual or partitioned GPU), std::runtime_error otherwise. Both end with what CUPTI said:
// "cuptiRangeProfilerStart: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)".
void check_cupti(const char* call, CUptiResult result);

// Throws std::runtime_error for everything but success.
void check_cuda(const char* call, cudaError_t error);

// As check_cupti, for a first call: whatever error it gives, the machine is the cause.
void check_counters_exist(const char* call, CUptiResult result);

// The one subscriber that CUPTI allows in a process. Released when the work is over, also after an exception.
class CuptiSubscriber {
 public:
  // on_call gets every call to CUDA's run-time library and driver, on the thread that makes it; `user` is handed on to
  // it. Throws as check_cupti.
  CuptiSubscriber(CUpti_CallbackFunc on_call, void* user);
  ~CuptiSubscriber();
  CuptiSubscriber(const CuptiSubscriber&) = delete;  // one owner
  CuptiSubscriber& operator=(const CuptiSubscriber&) = delete;

  // on_call gets this callback of the resource domain, too. Throws as check_cupti.
  void enable_resource(CUpti_CallbackId id);

 private:
  CUpti_SubscriberHandle handle_{};
};

// Which other tool is in a process: "Nsight Systems is attached to this process". It is judged by three facts: its
// /proc/self/maps, the process that traces it (0: none) and its CUDA_INJECTION64_PATH (may be empty). If they do not
// show which tool it is, names all candidates.
std::string attached_tool(std::string_view maps, int64_t tracer, std::string_view injection_path);

}  // namespace harness
