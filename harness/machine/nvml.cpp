#include "harness/machine/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

namespace harness {
namespace {

// As in NVIDIA's reference of NVML's C interface.
using Device = void*;
constexpr unsigned clock_sm = 1, clock_memory = 2, temperature_of_gpu = 0, field_power_instant = 186;
constexpr int not_answered = -1;

struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency_us;
  unsigned type;  // 1: unsigned
  int status;
  union {
    double d;
    unsigned u;
    unsigned long long ull;
  } value;
};

struct Utilization {
  unsigned gpu, memory;
};

struct Memory {
  unsigned long long total, free, used;
};

struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, ids, subsystem;
  char bus_id[32];
};

// Those that CUDA_VISIBLE_DEVICES names, a list of numbers or of beginnings of uuids. CUDA stops at the first that it
// does not know.
std::vector<VisibleGpu> named_of(const std::map<unsigned, VisibleGpu>& gpus) {
  std::vector<VisibleGpu> named;
  const char* const listed = std::getenv("CUDA_VISIBLE_DEVICES");
  if (listed == nullptr) {
    for (const auto& [index, gpu] : gpus) named.push_back(gpu);
    return named;
  }
  std::istringstream items(listed);
  for (std::string item; std::getline(items, item, ',');) {
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    const auto found = std::ranges::find_if(gpus, [&](const auto& gpu) {
      return item == std::to_string(gpu.first) || (item.size() > 4 && gpu.second.uuid.starts_with(item));
    });
    if (found == gpus.end()) break;
    named.push_back(found->second);
  }
  return named;
}

}  // namespace

// The header of some drivers of 2023 had 8 bytes more here, so there is room for twice as many.
struct NvmlDevice::Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};

// Calls the library's function of that name. Returns what went wrong, or an empty text.
template <class Function, class... Arguments>
std::string NvmlDevice::call(const char* name, Arguments... arguments) const {
  auto* const function = reinterpret_cast<Function*>(::dlsym(library_, name));
  if (function == nullptr) return fmt::format("{} is not in {}", name, name_);
  const int status = function(arguments...);
  return status == 0 ? "" : describe(name, status);
}

std::string NvmlDevice::describe(const char* name, int status) const {
  auto* const text_of = reinterpret_cast<const char* (*)(int)>(::dlsym(library_, "nvmlErrorString"));
  return fmt::format("{}: {} ({})", name, text_of != nullptr ? text_of(status) : "error", status);
}

NvmlDevice::NvmlDevice(const std::string& bus_id, const std::string& library)
    : library_(::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL)), name_(library) {
  if (library_ == nullptr) {
    const char* const failure = ::dlerror();
    unavailable_ = failure != nullptr ? failure : library + " cannot be loaded";
    return;
  }
  unavailable_ = call<int()>("nvmlInit_v2");
  initialized_ = unavailable_.empty();
  if (initialized_) {
    unavailable_ = call<int(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2", bus_id.c_str(), &device_);
  }
}

// The library stays loaded: other code in this process may use it, too.
NvmlDevice::~NvmlDevice() {
  if (initialized_) call<int()>("nvmlShutdown");
}

Reading NvmlDevice::clock_mhz(unsigned type) const {
  unsigned mhz = 0;
  const std::string failure = call<int(Device, unsigned, unsigned*)>("nvmlDeviceGetClockInfo", device_, type, &mhz);
  return failure.empty() ? Reading{mhz, ""} : Reading{{}, failure};
}

Reading NvmlDevice::power_w() const {
  FieldValue field{.field = field_power_instant, .status = not_answered};
  const std::string no_fields = call<int(Device, int, FieldValue*)>("nvmlDeviceGetFieldValues", device_, 1, &field);
  if (no_fields.empty() && field.status == 0 && field.type == 1) return {field.value.u / 1000.0, ""};
  unsigned milliwatts = 0;
  const std::string failure = call<int(Device, unsigned*)>("nvmlDeviceGetPowerUsage", device_, &milliwatts);
  if (!failure.empty()) return {{}, failure};
  return {milliwatts / 1000.0, "a mean over up to a second: the driver tells no momentary power"};
}

Reading NvmlDevice::clocks_event_reasons() const {
  unsigned long long bits = 0;
  using Function = int(Device, unsigned long long*);
  if (call<Function>("nvmlDeviceGetCurrentClocksEventReasons", device_, &bits).empty()) {
    return {static_cast<double>(bits), ""};
  }
  const std::string failure =
      call<Function>("nvmlDeviceGetCurrentClocksThrottleReasons", device_, &bits);  // before 535
  return failure.empty() ? Reading{static_cast<double>(bits), ""} : Reading{{}, failure};
}

GpuSample NvmlDevice::sample() const {
  unsigned celsius = 0;
  Utilization utilization{};
  const std::string no_temperature =
      call<int(Device, unsigned, unsigned*)>("nvmlDeviceGetTemperature", device_, temperature_of_gpu, &celsius);
  const std::string no_utilization =
      call<int(Device, Utilization*)>("nvmlDeviceGetUtilizationRates", device_, &utilization);
  return {{"sm_clock_mhz", clock_mhz(clock_sm)},
          {"memory_clock_mhz", clock_mhz(clock_memory)},
          {"power_w", power_w()},
          {"temperature_c", no_temperature.empty() ? Reading{celsius, ""} : Reading{{}, no_temperature}},
          {"utilization_percent", no_utilization.empty() ? Reading{utilization.gpu, ""} : Reading{{}, no_utilization}},
          {"clocks_event_reasons", clocks_event_reasons()}};
}

Reading NvmlDevice::energy_j() const {
  unsigned long long millijoules = 0;
  const std::string failure =
      call<int(Device, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption", device_, &millijoules);
  return failure.empty() ? Reading{static_cast<double>(millijoules) / 1000.0, ""} : Reading{{}, failure};
}

std::string NvmlDevice::list(std::vector<Process>& processes) const {
  processes.resize(256);
  unsigned count = 0;
  const auto ask = [&](const char* name) {
    count = static_cast<unsigned>(processes.size() / 2);
    return call<int(Device, unsigned*, Process*)>(name, device_, &count, processes.data());
  };
  std::string failure = ask("nvmlDeviceGetComputeRunningProcesses_v3");
  if (!failure.empty()) failure = ask("nvmlDeviceGetComputeRunningProcesses_v2");  // before 510; the same structure
  processes.resize(failure.empty() ? count : 0);
  return failure;
}

Reading NvmlDevice::other_processes(std::span<const pid_t> measured) const {
  std::vector<Process> processes;
  if (const std::string failure = list(processes); !failure.empty()) return {{}, failure};
  const auto count = static_cast<double>(processes.size());
  if (measured.empty()) return {count, ""};
  if (processes.empty())
    return {{}, "the driver shows no process on this GPU, not even the measured one, as in some containers"};
  const auto known = std::ranges::count_if(processes, [&](const Process& process) {
    return std::ranges::find(measured, static_cast<pid_t>(process.pid)) != measured.end();
  });
  return {count - static_cast<double>(std::max<int64_t>(1, known)),
          known > 0 ? ""
                    : "the driver's process ids are not those of this container: one of them is taken for "
                      "the measured process"};
}

Reading NvmlDevice::bytes_of(std::span<const pid_t> measured) const {
  std::vector<Process> processes;
  if (const std::string failure = list(processes); !failure.empty()) return {{}, failure};
  constexpr unsigned long long not_told = ~0ULL;
  double bytes = 0;
  bool any = false;
  for (const Process& process : processes) {
    if (std::ranges::find(measured, static_cast<pid_t>(process.pid)) == measured.end()) continue;
    if (process.memory == not_told) return {{}, "the driver does not tell the memory of a process"};
    bytes += static_cast<double>(process.memory);
    any = true;
  }
  return any ? Reading{bytes, ""} : Reading{{}, "none of these processes is on this GPU"};
}

VisibleGpus visible_gpus(const std::string& library) {
  VisibleGpus found;
  void* const loaded = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (loaded == nullptr) return found;
  const auto call = [&]<class Function>(Function*, const char* name, auto... arguments) {
    auto* const function = reinterpret_cast<Function*>(::dlsym(loaded, name));
    return function != nullptr && function(arguments...) == 0;
  };
  if (!call(static_cast<int (*)()>(nullptr), "nvmlInit_v2")) return found;
  std::array<char, 96> text{};
  using Text = int (*)(Device, char*, unsigned);
  if (call(static_cast<int (*)(char*, unsigned)>(nullptr), "nvmlSystemGetDriverVersion", text.data(),
           static_cast<unsigned>(text.size()))) {
    found.driver = text.data();
  }
  std::map<unsigned, VisibleGpu> gpus;
  unsigned count = 0;
  call(static_cast<int (*)(unsigned*)>(nullptr), "nvmlDeviceGetCount_v2", &count);
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    PciInfo place{};
    Memory memory{};
    if (!call(static_cast<int (*)(unsigned, Device*)>(nullptr), "nvmlDeviceGetHandleByIndex_v2", i, &device)) continue;
    if (!call(static_cast<int (*)(Device, PciInfo*)>(nullptr), "nvmlDeviceGetPciInfo_v3", device, &place)) continue;
    VisibleGpu gpu{.bus_id = fmt::format("{:04x}:{:02x}:{:02x}.0", place.domain, place.bus, place.device)};
    const auto size = static_cast<unsigned>(text.size());
    if (call(static_cast<Text>(nullptr), "nvmlDeviceGetName", device, text.data(), size)) gpu.name = text.data();
    if (call(static_cast<Text>(nullptr), "nvmlDeviceGetUUID", device, text.data(), size)) gpu.uuid = text.data();
    if (call(static_cast<int (*)(Device, Memory*)>(nullptr), "nvmlDeviceGetMemoryInfo", device, &memory)) {
      gpu.memory_bytes = static_cast<int64_t>(memory.total);
    }
    gpus.emplace(i, gpu);
  }
  found.gpus = named_of(gpus);
  call(static_cast<int (*)()>(nullptr), "nvmlShutdown");
  return found;
}

}  // namespace harness
