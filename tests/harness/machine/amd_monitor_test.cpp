// What amd-smi prints, as versions of it do (26.2 of ROCm 7.2, and older ones without "gpu_data").
#include "harness/machine/amd_monitor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace amd_monitor_test {

const std::string metric = R"({"gpu_data": [
  {"gpu": 0, "usage": {"gfx_activity": {"value": 0, "unit": "%"}, "vcn_activity": ["N/A"]}},
  {"gpu": 1, "usage": {"gfx_activity": {"value": 97, "unit": "%"}, "umc_activity": {"value": 41, "unit": "%"}},
   "power": {"socket_power": {"value": 542, "unit": "W"}, "throttle_status": "THROTTLED"},
   "clock": {"gfx_0": {"clk": {"value": 1877, "unit": "MHz"}, "min_clk": "N/A", "max_clk": {"value": 2100, "unit": "MHz"}},
             "gfx_1": {"clk": "N/A"}, "mem_0": {"clk": {"value": 1300, "unit": "MHz"}}},
   "temperature": {"edge": "N/A", "hotspot": {"value": 71, "unit": "C"}, "mem": {"value": 60, "unit": "C"}}}]})";
const std::string process = R"([
  {"gpu": 0, "process_list": [{"process_info": "No running processes detected"}]},
  {"gpu": 1, "process_list": [
    {"process_info": {"name": "/usr/bin/python3.12", "pid": 4711, "memory_usage": {"vram_mem": {"value": 56000, "unit": "B"}}}},
    {"process_info": {"name": "other", "pid": 4712, "mem_usage": {"value": 0, "unit": "B"}}}]}])";

TEST(AmdMonitor, ReadsWhatItTells) {
  const harness::GpuSample sample = harness::amd_sample(metric, 1);
  EXPECT_EQ(sample.at("sm_clock_mhz").value, 1877);
  EXPECT_EQ(sample.at("memory_clock_mhz").value, 1300);
  EXPECT_EQ(sample.at("power_w").value, 542);
  EXPECT_EQ(sample.at("temperature_c").value, 71);
  EXPECT_EQ(sample.at("utilization_percent").value, 97);
  EXPECT_FALSE(sample.at("clocks_event_reasons").value);
  EXPECT_EQ(harness::amd_processes(process, 1), (std::vector<pid_t>{4711, 4712}));
  const std::string older = metric.substr(metric.find('['), metric.rfind(']') + 1 - metric.find('['));
  EXPECT_EQ(harness::amd_sample(older, 1).at("power_w").value, 542);
}

TEST(AmdMonitor, SaysWhatItDoesNotTell) {
  const harness::GpuSample idle = harness::amd_sample(metric, 0);
  EXPECT_EQ(idle.at("utilization_percent").value, 0);
  EXPECT_FALSE(idle.at("power_w").value);
  EXPECT_EQ(idle.at("power_w").note, "amd-smi tells none: N/A");
  EXPECT_TRUE(harness::amd_processes(process, 0).empty());
  for (const char* odd :
       {"", "{", "null", "7", "[7, {}]", R"({"gpu_data": 3})", R"([{"gpu": 1, "power": "N/A"}])",
        R"([{"gpu": 1, "process_list": [{"process_info": {"pid": -1}}, {"process_info": {"pid": "x"}}]}])"}) {
    EXPECT_FALSE(harness::amd_sample(odd, 1).at("power_w").value) << odd;
    EXPECT_TRUE(harness::amd_processes(odd, 1).empty()) << odd;
  }
}

}  // namespace amd_monitor_test
