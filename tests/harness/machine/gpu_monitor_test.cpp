// The monitor and the list of GPUs on a scripted library (fake_nvml.cpp), loaded as the real one is; the monitor's
// judgement on samples made by hand; and a machine without a driver. Real figures: tests/cuda.
#include "harness/machine/gpu_monitor.h"

#include "harness/machine/machine.h"
#include "harness/machine/nvml.h"
#include "harness/stats/stats.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gpu_monitor_test {

using namespace harness;

constexpr const char* bus_id = "0000:19:00.0";
constexpr const char* all_well =
    "init 0\nshutdown 0\nsm_clock 1980 1500\nmemory_clock 3201\npower 700000\nmean_power 650000\ntemperature 61\n"
    "utilization 99\nreasons 1 5\nenergy 1000 5000 12500\nprocesses 2 0 77\n";

class Library {
 public:
  Library(const std::string& path, const char* script) : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
    reinterpret_cast<void (*)(const char*)>(::dlsym(handle_, "fake_script"))(script);
  }
  [[nodiscard]] int calls(const char* name) const {
    return reinterpret_cast<int (*)(const char*)>(::dlsym(handle_, "fake_calls"))(name);
  }
  void wait_for_calls(const char* name, int count) const {
    while (calls(name) < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  void* handle_;
};

GpuSample sample(std::optional<double> sm_clock, double reasons) {
  return {{"sm_clock_mhz", {sm_clock, sm_clock ? "" : "no clock"}},
          {"memory_clock_mhz", {3201.0, ""}},
          {"power_w", {500.0, ""}},
          {"temperature_c", {60.0, ""}},
          {"utilization_percent", {100.0, ""}},
          {"clocks_event_reasons", {reasons, ""}}};
}

using Shares = std::vector<std::pair<std::string, double>>;

double median_of(const GpuWatch& watch, const char* name) { return median(series(watch, name).values); }

std::string note_of(const GpuWatch& watch, const char* name) { return series(watch, name).note; }

TEST(Monitor, WatchesTheTimedWindow) {
  const Library library(FAKE_NVML, all_well);
  Monitor monitor(bus_id, FAKE_NVML);
  EXPECT_EQ(library.calls("sm_clock"), 0);  // nothing is sampled before the window
  monitor.begin();
  library.wait_for_calls("reasons", 4);
  const GpuWatch watch = monitor.end();
  const int asked = library.calls("sm_clock");
  EXPECT_EQ(asked, std::ssize(watch.samples));

  static_assert(sample_period >= std::chrono::milliseconds(50) && sample_period <= std::chrono::milliseconds(100));
  // The first and the last one, and one for each period between them; fewer where the machine is busy.
  EXPECT_LE(static_cast<double>(watch.samples.size()), 2 + watch.seconds / 0.080);
  EXPECT_GT(watch.seconds, 0);
  const std::vector<double> clocks = series(watch, "sm_clock_mhz").values;
  EXPECT_EQ(std::ranges::min(clocks), 1500);
  EXPECT_EQ(std::ranges::max(clocks), 1980);
  EXPECT_EQ(median(clocks), 1500);
  EXPECT_EQ(median_of(watch, "memory_clock_mhz"), 3201);
  EXPECT_EQ(median_of(watch, "power_w"), 700);  // the momentary one
  EXPECT_EQ(median_of(watch, "temperature_c"), 61);
  EXPECT_EQ(median_of(watch, "utilization_percent"), 99);
  EXPECT_EQ(watch.energy_j.value, 7.5);  // from the window's first reading, not the one that warmed the library up
  EXPECT_EQ(watch.other_processes.value, 1);
  const double samples = static_cast<double>(watch.samples.size());
  EXPECT_EQ(throttle_shares(watch), (Shares{{"SwPowerCap", (samples - 1) / samples}}));  // idle is none
  for (const auto& [name, ignored] : watch.samples.front()) EXPECT_EQ(note_of(watch, name.c_str()), "");
  EXPECT_EQ(flags(watch), std::vector<std::string>{"shared: 1 other process on the GPU"});
}

TEST(Monitor, AnOldDriverLacksSomeFunctions) {
  const Library library(FAKE_OLD_NVML, all_well);
  Monitor monitor(bus_id, FAKE_OLD_NVML);
  monitor.begin();
  library.wait_for_calls("reasons", 1);
  const GpuWatch watch = monitor.end();
  EXPECT_EQ(median_of(watch, "power_w"), 650);
  EXPECT_NE(note_of(watch, "power_w").find("a mean over up to a second"), std::string::npos);
  EXPECT_FALSE(watch.energy_j.value);
  EXPECT_EQ(watch.energy_j.note, std::string("nvmlDeviceGetTotalEnergyConsumption is not in ") + FAKE_OLD_NVML);
  EXPECT_EQ(watch.other_processes.value, 1);
  EXPECT_FALSE(series(watch, "clocks_event_reasons").values.empty());
}

TEST(Monitor, ARefusedCallCostsItsOwnFieldOnly) {
  const Library library(FAKE_NVML, "init 0\nsm_clock !3\nmemory_clock !15 3201\nreasons 0\nenergy 10\n");
  Monitor monitor(bus_id, FAKE_NVML);
  monitor.begin();
  library.wait_for_calls("reasons", 2);
  const GpuWatch watch = monitor.end();
  EXPECT_TRUE(series(watch, "sm_clock_mhz").values.empty());
  EXPECT_EQ(note_of(watch, "sm_clock_mhz"), "nvmlDeviceGetClockInfo: Not Supported (3)");
  EXPECT_EQ(median_of(watch, "memory_clock_mhz"), 3201);  // from the second sample on
  EXPECT_EQ(note_of(watch, "memory_clock_mhz"), "nvmlDeviceGetClockInfo: Other (15)");
  EXPECT_EQ(note_of(watch, "power_w"), "nvmlDeviceGetPowerUsage: Not Supported (3)");
  EXPECT_TRUE(throttle_shares(watch).empty());
  EXPECT_FALSE(watch.energy_j.value);
  EXPECT_NE(watch.energy_j.note.find("did not move"), std::string::npos);
  EXPECT_FALSE(watch.other_processes.value);
  EXPECT_TRUE(flags(watch).empty());
}

TEST(Monitor, TellsOtherProcessesFromItself) {
  const auto others = [](const std::string& line) {
    const Library library(FAKE_NVML, ("init 0\n" + line).c_str());
    return NvmlDevice(bus_id, FAKE_NVML).other_processes(std::vector{::getpid()});
  };
  EXPECT_EQ(others("processes 1 0").value, 0);
  EXPECT_EQ(others("processes 3 77 0 78").value, 2);
  // In a container: nobody is seen, or all of them under foreign ids.
  EXPECT_FALSE(others("processes 0").value);
  EXPECT_NE(others("processes 0").note.find("not even the measured one"), std::string::npos);
  EXPECT_EQ(others("processes 1 77").value, 0);
  EXPECT_EQ(others("processes 2 77 78").value, 1);
  EXPECT_NE(others("processes 2 77 78").note.find("not those of this container"), std::string::npos);
  EXPECT_FALSE(others("processes 1000").value);
}

TEST(Monitor, SaysWhyThereIsNone) {
  const auto reason = [](const char* script, const char* bus, const std::string& path) {
    const Library library(FAKE_NVML, script);
    Monitor monitor(bus, path);
    monitor.begin();
    const GpuWatch watch = monitor.end();
    EXPECT_FALSE(watch.unavailable.empty());
    EXPECT_TRUE(flags(watch).empty());
    return watch.unavailable;
  };
  EXPECT_EQ(reason("init !9", bus_id, FAKE_NVML), "nvmlInit_v2: Driver Not Loaded (9)");
  EXPECT_EQ(reason("init 0", "0000:00:00.0", FAKE_NVML), "nvmlDeviceGetHandleByPciBusId_v2: Not Found (6)");
  EXPECT_NE(reason("", bus_id, "libno-such-library.so.1").find("libno-such-library.so.1"), std::string::npos);
}

TEST(Monitor, AMachineWithoutADriver) {
  if (::dlopen("libnvidia-ml.so.1", RTLD_LAZY) != nullptr) GTEST_SKIP() << "there is a driver";
  Monitor monitor(bus_id);
  monitor.begin();
  EXPECT_NE(monitor.end().unavailable.find("libnvidia-ml.so.1"), std::string::npos);
  EXPECT_THROW((void)current_bus_id(), std::runtime_error);
}

TEST(Monitor, StopsAndShutsDownWhenTheRunFails) {
  const Library library(FAKE_NVML, all_well);
  EXPECT_THROW(
      {
        Monitor monitor(bus_id, FAKE_NVML);
        monitor.begin();
        library.wait_for_calls("reasons", 1);
        throw std::runtime_error("a step failed");
      },
      std::runtime_error);
  EXPECT_EQ(library.calls("shutdown"), 1);
}

TEST(Monitor, AWindowWithoutSamplesSaysSo) {
  const GpuWatch watch{.energy_j = {3.0, ""}, .other_processes = {0.0, ""}, .seconds = 2};
  EXPECT_EQ(note_of(watch, "power_w"), "the timed window was over before the first sample");
  EXPECT_TRUE(throttle_shares(watch).empty() && flags(watch).empty());
}

// As an H200 did in all its runs of the last rung: at the power limit of 700 W all the time, and single samples far
// below the median clock.
TEST(Monitor, ThePowerLimitDisturbsNoRun) {
  const auto flagged = [](std::vector<GpuSample> samples) { return flags({.samples = std::move(samples)}); };
  std::vector<GpuSample> at_limit{sample(1890, 0x4), sample(1545, 0x4), sample(1560, 0x4)};
  at_limit.insert(at_limit.end(), 8, sample(1785, 0x4));
  EXPECT_TRUE(flagged(at_limit).empty());
  at_limit.push_back(sample(1785, 0x4 | 0x20));
  EXPECT_EQ(flagged(at_limit),
            std::vector<std::string>{"throttled: SwThermalSlowdown in 1 of 12 samples, SM clock from "
                                     "1890 down to 1545 MHz"});
  for (const auto& [bit, name] : {std::pair{0x8, "HwSlowdown"},
                                  {0x20, "SwThermalSlowdown"},
                                  {0x40, "HwThermalSlowdown"},
                                  {0x80, "HwPowerBrakeSlowdown"}}) {
    EXPECT_EQ(flagged({sample({}, bit | 0x1), sample({}, 0)}),
              std::vector<std::string>{std::string("throttled: ") + name + " in 1 of 2 samples"});
  }
  for (const int harmless : {0x1, 0x2, 0x10, 0x100}) EXPECT_TRUE(flagged({sample(1980, harmless)}).empty());
}

// The median clocks of 17 runs of one program on an H200 (in MHz, head's and base's), none of which was disturbed.
TEST(Monitor, AClockApartFromTheOtherRunsDisturbsARun) {
  const std::vector<double> recorded{1770, 1785, 1785, 1770, 1800, 1785, 1770, 1785, 1770,
                                     1770, 1770, 1785, 1770, 1785, 1785, 1785, 1800};
  for (size_t i = 0; i < recorded.size(); ++i) {
    std::vector<double> others = recorded;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(clock_flag(recorded[i], others), "");
  }
  EXPECT_EQ(clock_flag(1690, recorded), "throttled: median SM clock of 1690 MHz, 1785 in the other runs of this rung");
  EXPECT_NE(clock_flag(1980, recorded), "");  // these others were slow, then
  EXPECT_EQ(clock_flag(1700, recorded), "");
  EXPECT_EQ(clock_flag(1000, std::vector<double>{1785}), "") << "one other run may be the slow one";
}

// ---- Which GPUs a program may use

using Places = std::vector<std::string>;

class VisibleGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* named = std::getenv(variable)) before_ = named;
    ::unsetenv(variable);
  }
  void TearDown() override {
    if (before_) ::setenv(variable, before_->c_str(), 1);
    if (!before_) ::unsetenv(variable);
  }

  static constexpr const char* variable = "CUDA_VISIBLE_DEVICES";
  const Library library_{FAKE_NVML, "init 0\nshutdown 0\ndevices 2\ndriver 570.86\nmemory 85520809984\nprocesses 0\n"};
  std::optional<std::string> before_;
};

const std::string second = "0000:3b:00.0";

TEST_F(VisibleGpus, AreAllWithoutTheVariable) {
  const harness::VisibleGpus all = visible_gpus(FAKE_NVML);
  EXPECT_EQ(all.driver, "570.86");
  ASSERT_EQ(all.gpus.size(), 2U);
  EXPECT_EQ(all.gpus[0].name, "NVIDIA Fake 0");
  EXPECT_EQ(all.gpus[0].bus_id, bus_id);
  EXPECT_EQ(all.gpus[0].memory_bytes, 85520809984);
  EXPECT_EQ(all.gpus[1].uuid, "GPU-1fake-0000");
  EXPECT_EQ(all.gpus[1].bus_id, second);
}

// By numbers or UUIDs. As CUDA reads it: what comes after a wrong one does not count.
TEST_F(VisibleGpus, AreThoseThatTheVariableLists) {
  const std::map<Places, std::vector<const char*>> all{{{}, {"", "-1", "nonsense", "GPU-", "7", ",0"}},
                                                       {{bus_id}, {"GPU-0f", "0,-1,1", "0,nonsense,1"}},
                                                       {{second}, {"1", " 1", "GPU-1fake-0000"}},
                                                       {{bus_id, second}, {"0,1", "GPU-0f,GPU-1f"}}};
  for (const auto& [expected, lists] : all) {
    for (const char* listed : lists) {
      ::setenv(variable, listed, 1);
      Places places;
      for (const VisibleGpu& gpu : visible_gpus(FAKE_NVML).gpus) places.push_back(gpu.bus_id);
      EXPECT_EQ(places, expected) << listed;
    }
  }
}

TEST_F(VisibleGpus, LackWhatTheDriverDoesNotTell) {
  const Library few(FAKE_NVML, "init 0\nshutdown 0\ndevices 1\n");
  const harness::VisibleGpus found = visible_gpus(FAKE_NVML);
  EXPECT_EQ(found.driver, "");
  ASSERT_EQ(found.gpus.size(), 1U);
  EXPECT_EQ(found.gpus[0].memory_bytes, 0);
  const Library none(FAKE_NVML, "init !9\n");
  EXPECT_TRUE(visible_gpus(FAKE_NVML).gpus.empty());
  EXPECT_TRUE(visible_gpus("no-such-library.so.1").gpus.empty());
}

}  // namespace gpu_monitor_test
