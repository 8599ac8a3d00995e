#include "harness/gpu/cupti.h"

#include "harness/process/unfit.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace harness {
namespace {

// Beginnings of the names of files that only one tool loads into a process. Nsight Compute and compute-sanitizer share
// libTreeLauncher*.so and libInterceptor*.so, so these do not show which tool it is.
constexpr auto injected_libraries = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"/libToolsInjection", "Nsight Systems"},
    {"/libcuda-injection", "Nsight Compute"},
    {"/libsanitizer-collection", "compute-sanitizer"},
});

// Files of /proc have size 0, so files::read_file would read nothing.
std::string own_maps() {
  std::ifstream stream("/proc/self/maps");
  std::string text;
  std::getline(stream, text, '\0');
  return text;
}

int64_t own_tracer() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t pid = 0;
    if (word == "TracerPid:" && status >> pid) return pid;
  }
  return 0;
}

std::string tool_attached_here() {
  const char* injection = std::getenv("CUDA_INJECTION64_PATH");
  return attached_tool(own_maps(), own_tracer(), injection == nullptr ? "" : injection);
}

// Empty if the fault is not a property of the machine.
std::string remedy(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return "this user may not read the GPU's counters: run as root (in a container: with --cap-add=SYS_ADMIN), or "
             "permit everybody with \"options nvidia NVreg_RestrictProfilingToAdminUsers=0\" in a file of "
             "/etc/modprobe.d and a reboot of the host";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "the hypervisor does not let this virtual machine read the GPU's counters: the host's administrator can "
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
      return tool_attached_here() + ": start it without";
    case CUPTI_ERROR_NOT_INITIALIZED:
      return "CUPTI lacks a part of itself: libnvperf_host.so and libnvperf_target.so belong beside libcupti.so.13";
    default:
      return "";
  }
}

std::string describe_cupti(const char* call, CUptiResult result) {
  const char* text = nullptr;
  if (cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "unknown";
  return fmt::format("{}: {} ({})", call, text, static_cast<int>(result));
}

}  // namespace

std::string attached_tool(std::string_view maps, int64_t tracer, std::string_view injection_path) {
  for (const auto& [library, tool] : injected_libraries) {
    if (maps.find(library) != std::string_view::npos) return fmt::format("{} is attached to this process", tool);
  }
  if (tracer > 0) return fmt::format("a debugger (cuda-gdb?), process {}, is attached to this process", tracer);
  if (!injection_path.empty()) {
    return fmt::format("a tool injected by CUDA_INJECTION64_PATH, {}, is attached to this process", injection_path);
  }
  return "another tool is attached to this process (Nsight Systems, Nsight Compute, cuda-gdb, compute-sanitizer)";
}

void check_cupti(const char* call, CUptiResult result) {
  if (result == CUPTI_SUCCESS) return;
  const std::string what = describe_cupti(call, result);
  if (const std::string advice = remedy(result); !advice.empty()) throw Unfit(fmt::format("{} [{}]", advice, what));
  throw std::runtime_error(what);
}

CuptiSubscriber::CuptiSubscriber(CUpti_CallbackFunc on_call, void* user) {
  check_cupti("cuptiSubscribe", cuptiSubscribe(&handle_, on_call, user));
  try {
    for (const CUpti_CallbackDomain domain : {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API}) {
      check_cupti("cuptiEnableDomain", cuptiEnableDomain(1, handle_, domain));
    }
  } catch (...) {
    cuptiUnsubscribe(handle_);
    throw;
  }
}

CuptiSubscriber::~CuptiSubscriber() { cuptiUnsubscribe(handle_); }

void CuptiSubscriber::enable_resource(CUpti_CallbackId id) {
  check_cupti("cuptiEnableCallback", cuptiEnableCallback(1, handle_, CUPTI_CB_DOMAIN_RESOURCE, id));
}

void check_cuda(const char* call, cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(fmt::format("{}: {}", call, cudaGetErrorString(error)));
}

void check_counters_exist(const char* call, CUptiResult result) {
  try {
    check_cupti(call, result);
  } catch (const Unfit&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw Unfit(fmt::format("this machine gives no counters [{}]", error.what()));
  }
}

}  // namespace harness
