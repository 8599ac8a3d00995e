#include "harness/machine/gpu_monitor.h"

#include "harness/stats/stats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>

namespace harness {

namespace {

constexpr std::chrono::milliseconds first_sample{20};

struct Reason {
  uint64_t bit;
  const char* name;  // NVML's
  bool throttles;
};
constexpr std::array<Reason, 8> reasons{{{0x2, "ApplicationsClocksSetting", false},
                                         {0x4, power_cap, false},
                                         {0x8, "HwSlowdown", true},
                                         {0x10, "SyncBoost", false},
                                         {0x20, "SwThermalSlowdown", true},
                                         {0x40, "HwThermalSlowdown", true},
                                         {0x80, "HwPowerBrakeSlowdown", true},
                                         {0x100, "DisplayClockSetting", false}}};  // 0x1 is GpuIdle

uint64_t bits_of(const GpuSample& sample) {
  return static_cast<uint64_t>(sample.at("clocks_event_reasons").value.value_or(0));
}

}  // namespace

Series series(const GpuWatch& watch, const std::string& name) {
  Series result;
  if (watch.samples.empty()) result.note = "the timed window was over before the first sample";
  for (const GpuSample& sample : watch.samples) {
    const Reading& reading = sample.at(name);
    if (reading.value) result.values.push_back(*reading.value);
    if (!reading.note.empty()) result.note = reading.note;
  }
  return result;
}

std::vector<std::pair<std::string, double>> throttle_shares(const GpuWatch& watch) {
  const std::vector<double> bits = series(watch, "clocks_event_reasons").values;
  std::vector<std::pair<std::string, double>> shares;
  for (const Reason& reason : reasons) {
    const auto seen =
        std::ranges::count_if(bits, [&](double value) { return (static_cast<uint64_t>(value) & reason.bit) != 0; });
    if (seen > 0) shares.emplace_back(reason.name, static_cast<double>(seen) / static_cast<double>(bits.size()));
  }
  return shares;
}

std::vector<std::string> flags(const GpuWatch& watch) {
  std::vector<std::string> result;
  uint64_t seen = 0, slow = 0;
  for (const Reason& reason : reasons) slow |= reason.throttles ? reason.bit : 0;
  size_t throttled = 0;
  for (const GpuSample& sample : watch.samples) {
    const uint64_t bits = bits_of(sample) & slow;
    seen |= bits;
    if (bits != 0) ++throttled;
  }
  if (throttled > 0) {
    std::vector<const char*> names;
    for (const Reason& reason : reasons) {
      if ((seen & reason.bit) != 0) names.push_back(reason.name);
    }
    const std::vector<double> clocks = series(watch, "sm_clock_mhz").values;
    result.push_back(fmt::format("throttled: {} in {} of {} samples{}", fmt::join(names, ", "), throttled,
                                 watch.samples.size(),
                                 clocks.empty() ? ""
                                                : fmt::format(", SM clock from {:.0f} down to {:.0f} MHz",
                                                              std::ranges::max(clocks), std::ranges::min(clocks))));
  }
  if (const double others = watch.other_processes.value.value_or(0); others > 0) {
    result.push_back(fmt::format("shared: {:.0f} other process{} on the GPU", others, others == 1 ? "" : "es"));
  }
  return result;
}

std::string clock_flag(double mhz, std::span<const double> siblings_mhz) {
  constexpr size_t least_siblings = 2;
  constexpr double apart = 0.05;  // runs of one recipe on an undisturbed H200 were up to 3 % apart
  if (siblings_mhz.size() < least_siblings) return "";
  const double usual = median(siblings_mhz);
  if (std::abs(mhz / usual - 1) < apart) return "";
  return fmt::format("throttled: median SM clock of {:.0f} MHz, {:.0f} in the other runs of this rung", mhz, usual);
}

Monitor::Monitor(const std::string& bus_id, const std::string& library)
    : device_(bus_id, library), watch_{.unavailable = device_.unavailable()} {
  if (watch_.unavailable.empty()) (void)device_.energy_j();  // the first call of a function takes longest
}

void Monitor::begin(std::vector<pid_t> measured) {
  measured_ = std::move(measured);
  if (!watch_.unavailable.empty()) return;
  begun_ = std::chrono::steady_clock::now();
  energy_before_ = device_.energy_j();
  sampler_ = std::jthread([this](const std::stop_token& stop) { sample_until(stop); });
}

GpuWatch Monitor::end() {
  if (!watch_.unavailable.empty()) return watch_;
  const Reading after = device_.energy_j();
  watch_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  sampler_.request_stop();
  sampler_.join();
  look_for_others();
  watch_.energy_j = after;
  if (after.value && energy_before_.value) {
    const double used = *after.value - *energy_before_.value;
    watch_.energy_j = used > 0 ? Reading{used, ""}
                               : Reading{{}, "the energy counter did not move: the timed window is too short for it"};
  }
  return watch_;
}

// Between two samples it waits for the next one or for a request to stop.
void Monitor::sample_until(const std::stop_token& stop) try {
  std::mutex mutex;
  std::condition_variable_any waiting;
  std::unique_lock lock(mutex);
  const auto stopped_within = [&](std::chrono::milliseconds time) {
    waiting.wait_for(lock, stop, time, [] { return false; });
    return stop.stop_requested();
  };
  for (auto time = first_sample; !stopped_within(time); time = sample_period) {
    if (watch_.samples.size() % 10 == 0) look_for_others();
    watch_.samples.push_back(device_.sample());
  }
} catch (const std::bad_alloc&) {  // the run itself will soon find out and say so
}

void Monitor::look_for_others() {
  const Reading seen = device_.other_processes(measured_);
  if (!watch_.other_processes.value || (seen.value && *seen.value > *watch_.other_processes.value)) {
    watch_.other_processes = seen;
  }
}

}  // namespace harness
