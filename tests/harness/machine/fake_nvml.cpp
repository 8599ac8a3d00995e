// A small libnvidia-ml.so with NVML's own names and types, which says what a test scripts: by fake_script, or for a
// whole program by FAKE_NVML_SCRIPT. With FAKE_OLD_DRIVER it lacks what a driver of 2021 lacked.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Device = void*;

struct Answers {
  std::vector<std::string> values;  // the last one stays; "!3": status 3
  size_t next = 0;
};

std::mutex mutex;
std::map<std::string, Answers> script;
std::map<std::string, int> calls;
int device_of_ours, another_device;

template <class T>
int answer(const std::string& name, T* result) {
  const std::lock_guard lock(mutex);
  ++calls[name];
  Answers& answers = script[name];
  if (answers.values.empty()) return 3;  // NVML_ERROR_NOT_SUPPORTED
  const std::string& value = answers.values[answers.next];
  if (answers.next + 1 < answers.values.size()) ++answers.next;
  if (value.front() == '!') return std::stoi(value.substr(1));
  *result = static_cast<T>(std::stoull(value));
  return 0;
}

struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};

// "processes 2 77 78": their number, then their ids; the id 0 stands for the asking process. "processes @FILE": of the
// ids in the file those that live.
std::vector<std::string> listed_in(const std::string& file) {
  std::vector<std::string> values{"0"};
  std::ifstream stream(file);
  for (std::string pid; stream >> pid;) {
    if (::kill(std::stoi(pid), 0) == 0) values.push_back(pid);
  }
  values.front() = std::to_string(values.size() - 1);
  return values;
}

int list_processes(unsigned* count, Process* processes) {
  const std::lock_guard lock(mutex);
  ++calls["processes"];
  std::vector<std::string> values = script["processes"].values;
  if (values.empty()) return 3;
  if (values.front().front() == '@') values = listed_in(values.front().substr(1));
  const auto n = static_cast<unsigned>(std::stoul(values.front()));
  if (n > *count) return 7;  // NVML_ERROR_INSUFFICIENT_SIZE
  for (unsigned i = 0; i < n; ++i) {
    const auto pid = static_cast<unsigned>(std::stoul(values[i + 1]));
    processes[i] = {pid != 0 ? pid : static_cast<unsigned>(::getpid()), 1 << 20, 0xFFFFFFFF, 0xFFFFFFFF};
  }
  *count = n;
  return 0;
}

}  // namespace

extern "C" {

// For the tests: lines of a name and its answers, one for each call.
void fake_script(const char* text) {
  const std::lock_guard lock(mutex);
  script.clear();
  calls.clear();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (std::string value; words >> value;) script[name].values.push_back(value);
  }
}

int fake_calls(const char* name) {
  const std::lock_guard lock(mutex);
  return calls[name];
}

// After `script` has come to life, for which a constructor by attribute would not wait.
[[maybe_unused]] const bool scripted = [] {
  const char* text = std::getenv("FAKE_NVML_SCRIPT");
  if (text != nullptr) fake_script(text);
  return text != nullptr;
}();

unsigned ignored = 0;
int nvmlInit_v2() { return answer("init", &ignored); }
int nvmlShutdown() { return answer("shutdown", &ignored); }

const char* nvmlErrorString(int status) {
  return status == 3 ? "Not Supported" : status == 6 ? "Not Found" : status == 9 ? "Driver Not Loaded" : "Other";
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device* device) {
  const bool is_ours = std::strcmp(bus_id, "0000:19:00.0") == 0;
  if (!is_ours && std::strcmp(bus_id, "0000:3b:00.0") != 0) return 6;  // NVML_ERROR_NOT_FOUND
  *device = is_ours ? &device_of_ours : &another_device;
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) { return answer("devices", count); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = index == 0 ? &device_of_ours : &another_device;
  return index > 1 ? 2 : 0;
}

struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, ids, subsystem;
  char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* place) {
  *place = {"", 0, device == &device_of_ours ? 0x19U : 0x3bU, 0, 0, 0, ""};
  return 0;
}

int nvmlDeviceGetName(Device device, char* name, unsigned size) {
  std::snprintf(name, size, "NVIDIA Fake %d", device == &device_of_ours ? 0 : 1);
  return 0;
}

int nvmlDeviceGetUUID(Device device, char* uuid, unsigned size) {
  std::snprintf(uuid, size, "GPU-%dfake-0000", device == &device_of_ours ? 0 : 1);
  return 0;
}

int nvmlDeviceGetMemoryInfo(Device, unsigned long long* total_free_used) { return answer("memory", total_free_used); }

int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  const std::lock_guard lock(mutex);
  if (script["driver"].values.empty()) return 3;
  std::snprintf(version, size, "%s", script["driver"].values.front().c_str());
  return 0;
}

int nvmlDeviceGetClockInfo(Device device, unsigned type, unsigned* mhz) {
  if (device != &device_of_ours && device != &another_device) return 2;
  return answer(type == 1 ? "sm_clock" : type == 2 ? "memory_clock" : "other_clock", mhz);
}

int nvmlDeviceGetTemperature(Device, unsigned sensor, unsigned* celsius) {
  return sensor == 0 ? answer("temperature", celsius) : 2;
}

int nvmlDeviceGetUtilizationRates(Device, unsigned* gpu_and_memory) { return answer("utilization", gpu_and_memory); }

int nvmlDeviceGetPowerUsage(Device, unsigned* milliwatts) { return answer("mean_power", milliwatts); }

int nvmlDeviceGetComputeRunningProcesses_v2(Device, unsigned* count, Process* list) {
  return list_processes(count, list);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Device, unsigned long long* bits) { return answer("reasons", bits); }

#ifndef FAKE_OLD_DRIVER

int nvmlDeviceGetComputeRunningProcesses_v3(Device, unsigned* count, Process* list) {
  return list_processes(count, list);
}

int nvmlDeviceGetCurrentClocksEventReasons(Device, unsigned long long* bits) { return answer("reasons", bits); }

int nvmlDeviceGetTotalEnergyConsumption(Device, unsigned long long* millijoules) {
  return answer("energy", millijoules);
}

struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency_us;
  unsigned type;
  int status;
  union {
    double d;
    unsigned u;
    unsigned long long ull;
  } value;
};

int nvmlDeviceGetFieldValues(Device, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    values[i].type = 1;
    values[i].status = values[i].field == 186 ? answer("power", &values[i].value.u) : 3;
  }
  return 0;
}

#endif
}
