// What PyTorch and CUDA tell of the machine and of themselves.
#include "harness/machine/machine.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include <array>
#include <stdexcept>

namespace harness {
namespace {

std::string first_line_of(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string version_text(int version) {
  return version <= 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Machine look() {
  Machine machine{.cpu = this_cpu()};
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    int driver = 0;
    const bool no_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
    machine.no_gpu_reason = fmt::format("no CUDA device ({})", no_driver              ? "no NVIDIA driver"
                                                               : error != cudaSuccess ? cudaGetErrorString(error)
                                                                                      : "none is visible");
    return machine;
  }
  cudaDeviceProp properties{};
  if (const cudaError_t failed = cudaGetDeviceProperties(&properties, 0); failed != cudaSuccess) {
    machine.no_gpu_reason = fmt::format("CUDA device 0 does not answer ({})", cudaGetErrorString(failed));
    return machine;
  }
  machine.gpu = Gpu{.name = properties.name,
                    .compute_capability = properties.major * 10 + properties.minor,
                    .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem)};
  return machine;
}

}  // namespace

const Machine& this_machine() {
  static const Machine machine = look();
  return machine;
}

Software software() {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  Software software = own_software();
  software.driver_cuda = version_text(driver);
  software.cuda = version_text(runtime);
  software.torch = TORCH_VERSION;
  software.mkl = first_line_of(at::get_mkl_version());
  software.onednn = first_line_of(at::get_mkldnn_version());
  software.torch_cpu_capability = at::get_cpu_capability();
  if (this_machine().gpu) software.cudnn = at::detail::getCUDAHooks().versionRuntimeCuDNN();
  return software;
}

int operation_threads() { return at::get_num_threads(); }

std::string current_bus_id() {
  int device = 0;
  std::array<char, 32> bus_id{};
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), device);
  if (error != cudaSuccess) throw std::runtime_error(fmt::format("PCI bus id: {}", cudaGetErrorString(error)));
  return bus_id.data();
}

std::string lock_name(bool on_cuda) { return on_cuda ? "gpu-" + current_bus_id() : "cpu"; }

}  // namespace harness
