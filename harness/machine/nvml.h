// One GPU as NVIDIA's management library (NVML) sees it. The driver brings the library; neither CUDA nor torch brings
// its header. So it is loaded at run time, and its prototypes are in nvml.cpp. Nothing here throws. Each driver, chip
// and container lacks something else, so a reading holds its value, or the reason why it has none.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace harness {

struct Reading {
  std::optional<double> value;
  std::string note;  // why there is no value ("nvmlDeviceGetPowerUsage: Not Supported (3)"), or what to know of it
};

// By name: sm_clock_mhz, memory_clock_mhz, power_w, temperature_c, utilization_percent (of the time, in which a kernel
// ran), clocks_event_reasons (NVML's bits: why clocks are not higher).
using GpuSample = std::map<std::string, Reading>;

class NvmlDevice {
 public:
  // bus_id: "00000000:19:00.0" or "0000:19:00.0". library: a name that the loader finds, or a path.
  explicit NvmlDevice(const std::string& bus_id, const std::string& library = "libnvidia-ml.so.1");
  ~NvmlDevice();
  NvmlDevice(const NvmlDevice&) = delete;  // shuts the library down once
  NvmlDevice& operator=(const NvmlDevice&) = delete;

  // Why there is no such device; empty when there is one.
  [[nodiscard]] const std::string& unavailable() const { return unavailable_; }

  [[nodiscard]] GpuSample sample() const;
  // What the GPU has consumed since its driver was loaded. The counter moves in steps of up to 100 ms.
  [[nodiscard]] Reading energy_j() const;
  // Processes that compute on this GPU, without those that are measured on it. None are named: all that compute.
  [[nodiscard]] Reading other_processes(std::span<const pid_t> measured) const;
  // Bytes that these processes hold on it; none where the driver does not tell them apart.
  [[nodiscard]] Reading bytes_of(std::span<const pid_t> processes) const;

 private:
  struct Process;
  std::string list(std::vector<Process>& processes) const;
  template <class Function, class... Arguments>
  std::string call(const char* name, Arguments... arguments) const;
  [[nodiscard]] std::string describe(const char* name, int status) const;
  [[nodiscard]] Reading clock_mhz(unsigned type) const;
  [[nodiscard]] Reading power_w() const;
  [[nodiscard]] Reading clocks_event_reasons() const;

  void* library_ = nullptr;
  void* device_ = nullptr;
  bool initialized_ = false;
  std::string name_, unavailable_;
};

struct VisibleGpu {
  std::string name, uuid;
  std::string bus_id;  // "0000:3b:00.0", as CUDA writes it
  int64_t memory_bytes = 0;
};

// The GPUs that a program started here may use: all, or those that CUDA_VISIBLE_DEVICES names. Empty without a driver.
struct VisibleGpus {
  std::string driver;  // its version; empty: none
  std::vector<VisibleGpu> gpus;
};
VisibleGpus visible_gpus(const std::string& library = "libnvidia-ml.so.1");

}  // namespace harness
