// What a GPU does while steps are timed: a thread asks NVML for clocks, power, temperature and throttling some twelve
// times a second, beside the energy of the whole window and who else computes there. It makes no CUDA call, so it may
// run while a graph is captured. It also judges: a run on a GPU that was throttled or shared is flagged, and the flag
// stays with the number wherever it is shown.
#pragma once

#include "harness/gpu/nvml.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace harness {

struct GpuWatch {
  std::string unavailable;  // why nothing was watched; empty when it was
  std::vector<GpuSample> samples;
  Reading energy_j, other_processes;  // of the window; the most that were seen at once
  double seconds = 0;                 // of the window
};

// The record's "monitor" (results/schemas/record.v1.json): least, median and most of each series, energy in joules, and
// null with a note where there is none; joules per token are null for a window of under a second, which is too short
// for a counter that moves every 100 ms or so. tokens: of the window.
nlohmann::json to_json(const GpuWatch& watch, int64_t tokens);

// "throttled: ..." and "shared: ..."; empty for an undisturbed run. Hardware slowdowns and heat always count. The power
// cap, at which a GPU may work all the time, counts only if clocks fell below 90 % of their median.
std::vector<std::string> flags(const GpuWatch& watch);

// Of the current CUDA device; throws std::runtime_error if CUDA does not give it.
std::string current_bus_id();

inline constexpr std::chrono::milliseconds sample_period{80};  // 12.5 Hz

class Monitor {
 public:
  // Loads and starts NVML, which takes a while: before the first step. bus_id, library: as for NvmlDevice.
  explicit Monitor(const std::string& bus_id, const std::string& library = "libnvidia-ml.so.1");

  void begin(pid_t measured = ::getpid());  // the timed window of that process begins now
  GpuWatch end();                           // and has ended. Without a call of end() the destructor stops the thread.

 private:
  void sample_until(const std::stop_token& stop);
  void look_for_others();

  NvmlDevice device_;
  pid_t measured_ = 0;
  std::chrono::steady_clock::time_point begun_;
  GpuWatch watch_;
  Reading energy_before_;
  std::jthread sampler_;  // last: it is joined before what it uses goes
};

}  // namespace harness
