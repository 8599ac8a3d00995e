#include "results/observations.h"

#include <gtest/gtest.h>

#include <string>

namespace monitor_test {

// What a record says of its GPU, made of samples by hand. The samples themselves:
// tests/harness/machine/gpu_monitor_test.cpp.

using namespace results;
using files::Json;

harness::GpuSample sample(std::optional<double> sm_clock, double reasons) {
  return {{"sm_clock_mhz", {sm_clock, sm_clock ? "" : "no clock"}},
          {"memory_clock_mhz", {{}, "Not Supported"}},
          {"power_w", {500.0, ""}},
          {"temperature_c", {60.0, ""}},
          {"utilization_percent", {100.0, ""}},
          {"clocks_event_reasons", {reasons, ""}}};
}

harness::GpuWatch watched(double seconds) {
  return {.samples = {sample(1980, 0), sample(1500, 0x4), sample(1500, 0x4), sample({}, 0x4)},
          .energy_j = {7.5, ""},
          .other_processes = {1.0, ""},
          .seconds = seconds};
}

TEST(MonitorDocument, HasEachSeriesItsEnergyAndWhyClocksWereLower) {
  const MonitorSummary seen = summary_of(watched(2), 100);
  const Json json = json_of(seen);
  EXPECT_EQ(json.at("samples"), 4);
  EXPECT_EQ(json.at("sm_clock_mhz"), (Json{{"min", 1500.0}, {"median", 1500.0}, {"max", 1980.0}}));
  EXPECT_TRUE(json.at("memory_clock_mhz").is_null());
  EXPECT_EQ(json.at("throttle"), Json::parse(R"([{"reason": "SwPowerCap", "share": 0.75}])"));
  EXPECT_EQ(json.at("energy_j"), 7.5);
  EXPECT_EQ(json.at("joules_per_token"), 0.075);
  EXPECT_EQ(json.at("other_processes"), 1);
  EXPECT_EQ(json.at("notes"), (Json{{"memory_clock_mhz", "Not Supported"}, {"sm_clock_mhz", "no clock"}}));
  EXPECT_FALSE(json.contains("unavailable"));
}

// A command may not say how many tokens its steps have.
TEST(MonitorDocument, OfAShortWindowOrWithoutTokensHasNoJoulesForEachToken) {
  const MonitorSummary brief = summary_of(watched(0.9), 100), uncounted = summary_of(watched(2), 0);
  EXPECT_NE(brief.notes.at("joules_per_token").find("took 0.90 s, too short"), std::string::npos);
  for (const MonitorSummary& seen : {brief, uncounted}) {
    EXPECT_EQ(seen.energy_j, 7.5);
    EXPECT_FALSE(seen.joules_per_token.has_value());
  }
}

TEST(MonitorDocument, WithoutASampleHasNoSeriesAndNoThrottling) {
  const MonitorSummary seen = summary_of({.energy_j = {3.0, ""}, .other_processes = {0.0, ""}, .seconds = 2}, 2);
  EXPECT_FALSE(seen.sm_clock_mhz.has_value() || seen.throttle.has_value());
  EXPECT_EQ(seen.notes.at("power_w"), "the timed window was over before the first sample");
  EXPECT_EQ(seen.joules_per_token, 1.5);
}

TEST(MonitorDocument, WhereNobodyLookedHasTheReasonAlone) {
  const Json json = json_of(summary_of({.unavailable = "no libnvidia-ml.so.1"}, 1));
  EXPECT_EQ(json, (Json{{"unavailable", "no libnvidia-ml.so.1"}}));
}

}  // namespace monitor_test
