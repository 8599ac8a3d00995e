// What a GPU does while steps are timed. A thread asks NVML for clocks, power, temperature and throttling 12.5 times a
// second. The watch also has the energy of the whole window and who else computes there. The thread makes no CUDA call,
// so it may run while a graph is captured. A run on a GPU that was throttled or shared is flagged, and the flag stays
// with the number wherever it is shown.
#pragma once

#include "harness/machine/nvml.h"

#include <unistd.h>

#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace harness {

struct GpuWatch {
  std::string unavailable;  // why nothing was watched; empty when it was
  std::vector<GpuSample> samples;
  Reading energy_j, other_processes;  // of the window; the most that were seen at once
  double seconds = 0;                 // of the window
};

// What the samples have under one name (GpuSample): all values, and the last note.
struct Series {
  std::vector<double> values;
  std::string note;
};
Series series(const GpuWatch& watch, const std::string& name);

// Why clocks were not higher, by NVML's names, without idle. Each has its share of the samples that give reasons.
std::vector<std::pair<std::string, double>> throttle_shares(const GpuWatch& watch);

// "throttled: ..." and "shared: ..."; empty for an undisturbed run. Heat and hardware slowdowns count. The power limit
// does not: a recipe that keeps the GPU busy works at it all the time.
std::vector<std::string> flags(const GpuWatch& watch);

// "throttled: ..." where a run's median SM clock is 5 % or more apart from the median of other runs of its recipe.
// Empty: it is not, or there are fewer than two others.
std::string clock_flag(double mhz, std::span<const double> siblings_mhz);

inline constexpr const char* power_cap = "SwPowerCap";  // NVML's name of the power limit

inline constexpr std::chrono::milliseconds sample_period{80};  // 12.5 Hz

class Monitor {
 public:
  // Loads and starts NVML. It takes a while, so do it before the first step. bus_id, library: as for NvmlDevice.
  explicit Monitor(const std::string& bus_id, const std::string& library = "libnvidia-ml.so.1");

  void begin(std::vector<pid_t> measured = {::getpid()});  // the timed window of these processes begins now
  GpuWatch end();  // and has ended. Without a call of end() the destructor stops the thread.

 private:
  void sample_until(const std::stop_token& stop);
  void look_for_others();

  NvmlDevice device_;
  std::vector<pid_t> measured_;
  std::chrono::steady_clock::time_point begun_;
  GpuWatch watch_;
  Reading energy_before_;
  std::jthread sampler_;  // last: it is joined before what it uses goes
};

}  // namespace harness
