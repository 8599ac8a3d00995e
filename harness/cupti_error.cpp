#include "harness/cupti_error.h"

#include "harness/unfit.h"

#include <cupti.h>
#include <fmt/format.h>

#include <stdexcept>

namespace harness {
namespace {

// Empty where the fault is no property of the machine.
std::string remedy(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return "this user may not read the GPU's counters: run as root (in a container: with --cap-add=SYS_ADMIN), or "
             "permit everybody with \"options nvidia NVreg_RestrictProfilingToAdminUsers=0\" in a file of "
             "/etc/modprobe.d and a reboot of the host";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "the hypervisor does not let this virtual machine read the GPU's counters: whoever runs the host can "
             "permit profiling for this vGPU";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
      return "this virtual GPU has no counters: use one that is passed through whole";
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
      return "in confidential computing mode a GPU has no counters";
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
      return "this slice of a GPU (MIG) has no counters of its own: use a whole GPU";
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_NOT_SUPPORTED:
      return "this device or its driver has no counters for CUPTI";
    case CUPTI_ERROR_HARDWARE_BUSY:
      return "another program reads the GPU's counters: DCGM can be paused (dcgmi profile --pause), Nsight has to end";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_DISABLED:
      return "another tool is attached to this process (Nsight Systems, Nsight Compute, cuda-gdb, "
             "compute-sanitizer): start it without";
    case CUPTI_ERROR_NOT_INITIALIZED:
      return "CUPTI lacks a part of itself: libnvperf_host.so and libnvperf_target.so belong beside libcupti.so.13";
    default:
      return "";
  }
}

}  // namespace

std::string describe_cupti(const char* call, CUptiResult result) {
  const char* text = nullptr;
  if (cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "unknown";
  return fmt::format("{}: {} ({})", call, text, static_cast<int>(result));
}

void check_cupti(const char* call, CUptiResult result) {
  if (result == CUPTI_SUCCESS) return;
  const std::string what = describe_cupti(call, result);
  if (const std::string advice = remedy(result); !advice.empty()) throw Unfit(fmt::format("{} [{}]", advice, what));
  throw std::runtime_error(what);
}

}  // namespace harness
