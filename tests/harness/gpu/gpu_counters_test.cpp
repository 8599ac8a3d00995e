// Counters where there are none, and what a refusal of CUPTI's is told as. Real counters: tests/cuda.
#include "harness/gpu/gpu_counters.h"

#include "harness/gpu/cupti.h"
#include "harness/gpu/metrics.h"
#include "harness/machine/machine.h"
#include "harness/process/unfit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace gpu_counters_test {

using namespace harness;

std::string unfit(CUptiResult result) {
  try {
    check_cupti("cuptiRangeProfilerStart", result);
  } catch (const Unfit& error) {
    return error.what();
  } catch (const std::exception&) {
    return "not unfit";
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Counters, WithoutADeviceTheReasonIsTold) {
  if (this_machine().gpu) GTEST_SKIP() << "there is a GPU";
  try {
    const Counters counters({});
    FAIL() << "counters without a device";
  } catch (const Unfit& error) {
    EXPECT_EQ(std::string(error.what()), "counters need a GPU: " + this_machine().no_gpu_reason);
  }
}

TEST(CuptiError, SuccessIsNone) { EXPECT_NO_THROW(check_cupti("cuptiRangeProfilerStart", CUPTI_SUCCESS)); }

TEST(CuptiError, ARefusalSaysHowToPermit) {
  const std::string user = unfit(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  EXPECT_TRUE(has(user, "NVreg_RestrictProfilingToAdminUsers=0")) << user;
  EXPECT_TRUE(has(user, "SYS_ADMIN")) << user;
  EXPECT_TRUE(has(user, "[cuptiRangeProfilerStart: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)]")) << user;
  const std::string guest = unfit(CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
  EXPECT_TRUE(has(guest, "hypervisor")) << guest;
}

TEST(CuptiError, ToolsInTheWayAreNamed) {
  EXPECT_TRUE(has(unfit(CUPTI_ERROR_HARDWARE_BUSY), "dcgmi profile --pause"));
  EXPECT_TRUE(has(unfit(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED), "Nsight"));
}

TEST(CuptiError, WhatIsNoPropertyOfTheMachineIsAnOrdinaryError) {
  EXPECT_EQ(unfit(CUPTI_ERROR_UNKNOWN), "not unfit");
  EXPECT_THROW(check_cupti("cuptiRangeProfilerStart", CUPTI_ERROR_INVALID_PARAMETER), std::runtime_error);
}

}  // namespace gpu_counters_test

namespace metrics_test {

// CUPTI's host half: what it knows of chips that are not here. The counts of passes are those of CUPTI 13.0.

using namespace harness;

int64_t passes(const std::string& chip, std::vector<std::string> metrics) {
  return MetricSet(chip, std::move(metrics)).passes();
}

std::vector<std::string> with_default(const std::string& metric) {
  std::vector<std::string> metrics = default_metrics("GH100");
  metrics.push_back(metric);
  return metrics;
}

std::string refusal(const std::string& chip, std::vector<std::string> metrics) {
  try {
    const MetricSet set(chip, std::move(metrics));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool contains(const std::vector<std::string>& metrics, const std::string& name) {
  return std::ranges::find(metrics, name) != metrics.end();
}

TEST(Metrics, DefaultSetIsOnePass) {
  for (const char* chip : {"GA100", "GH100", "GB100"}) {
    SCOPED_TRACE(chip);
    const std::vector<std::string> metrics = default_metrics(chip);
    EXPECT_EQ(metrics.size(), 15U);
    EXPECT_TRUE(contains(metrics, "dram__bytes_read.sum"));
    EXPECT_EQ(passes(chip, metrics), 1);
  }
}

TEST(Metrics, DefaultSetIsWhatTheChipHas) {
  for (const std::string& chip : counter_chips()) {
    if (chip == "GV11B") continue;  // the one that is only a name
    SCOPED_TRACE(chip);
    const std::vector<std::string> metrics = default_metrics(chip);
    EXPECT_LE(passes(chip, metrics), 3);
    EXPECT_TRUE(contains(metrics, "lts__t_bytes.sum"));
    EXPECT_TRUE(contains(metrics, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"));
  }
  const std::vector<std::string> gddr7 = default_metrics("GB202");
  EXPECT_FALSE(contains(gddr7, "dram__bytes_read.sum"));
  EXPECT_TRUE(contains(gddr7, "dram__bytes_op_read.sum"));
  EXPECT_TRUE(contains(gddr7, "dram__bytes_op_write.sum"));
}

TEST(Metrics, WhatDoesNotFitCostsPasses) {
  EXPECT_EQ(passes("GH100", with_default("sm__ops_path_tensor_src_bf16_dst_fp32.sum")), 2);
  EXPECT_EQ(passes("GH100", with_default("sm__inst_executed_pipe_tensor_op_gmma.sum")), 2);
  EXPECT_EQ(passes("GH100", {"dram__bytes_read.sum"}), 1);
  EXPECT_EQ(passes("GH100", {"sm__throughput.avg.pct_of_peak_sustained_elapsed"}), 8);
}

TEST(Metrics, AnUnknownNameIsRefusedWithSimilarOnes) {
  const std::string typo = refusal("GH100", {"sm__cycles_active.avg", "dram_bytes_read.sum"});
  EXPECT_TRUE(
      has(typo, "metric \"dram_bytes_read.sum\": GH100 has no metric of this name; similar: dram__bytes_read.sum"))
      << typo;
  const std::string nonsense = refusal("GA100", {"frobnications"});
  EXPECT_TRUE(has(nonsense, "metric \"frobnications\": GA100 has no metric")) << nonsense;
  EXPECT_TRUE(has(nonsense, "--list-metrics --chip GA100")) << nonsense;
  const std::string other_chip = refusal("GA100", {"sm__inst_executed_pipe_tensor_op_gmma.sum"});
  EXPECT_TRUE(has(other_chip, "GA100 has no metric of this name")) << other_chip;
}

TEST(Metrics, AnUnknownEndingIsRefusedWithPossibleOnes) {
  EXPECT_EQ(
      refusal("GH100", {"dram__bytes_read.summ"}),
      "metric \"dram__bytes_read.summ\": the counter dram__bytes_read has no such ending on GH100; possible: .sum");
  EXPECT_EQ(refusal("GH100", {"sm__throughput"}),
            "metric \"sm__throughput\": the throughput sm__throughput has no such ending on GH100; possible: "
            ".avg.pct_of_peak_sustained_active, .max.pct_of_peak_sustained_active, .min.pct_of_peak_sustained_active, "
            ".sum.pct_of_peak_sustained_active, .avg.pct_of_peak_sustained_elapsed");
  EXPECT_EQ(passes("GH100", {"l1tex__t_sector_hit_rate.pct"}), 1);  // a ratio has endings of its own
}

TEST(Metrics, AnUnknownChipIsRefusedWithThoseThatAreKnown) {
  const std::string message = refusal("GH10", {"dram__bytes_read.sum"});
  EXPECT_TRUE(has(message, "chip \"GH10\"")) << message;
  EXPECT_TRUE(has(message, "GH100")) << message;
  EXPECT_TRUE(has(message, "GA100")) << message;
}

TEST(Metrics, AChipThatIsOnlyANameIsRefused) {
  EXPECT_EQ(refusal("GV11B", {"dram__bytes_read.sum"}),
            "chip \"GV11B\": this CUPTI knows its name but cannot count on it");
}

TEST(Metrics, NoMetricsAreRefused) { EXPECT_EQ(refusal("GH100", {}), "no metrics to count"); }

TEST(Metrics, UnitsFollowTheName) {
  const MetricSet set("GH100", {"dram__bytes_read.sum", "dram__bytes_read.sum.per_second",
                                "dram__bytes_read.sum.pct_of_peak_sustained_elapsed", "gpu__time_duration.sum",
                                "sm__cycles_active.avg"});
  EXPECT_EQ(set.units(), (std::vector<std::string>{"byte", "byte/second", "%", "nanosecond", "gpc_cycle"}));
}

TEST(Metrics, AChipListsItsBaseMetrics) {
  const std::vector<BaseMetric> metrics = base_metrics("GH100");
  for (const char* kind : {"counter", "ratio", "throughput"}) {
    EXPECT_GE(std::ranges::count(metrics, kind, &BaseMetric::kind), 50) << kind;
  }
  for (const std::string& name : default_metrics("GH100")) {
    const auto found = std::ranges::find(metrics, name.substr(0, name.find('.')), &BaseMetric::name);
    ASSERT_NE(found, metrics.end()) << name;
    EXPECT_NE(found->description, "") << name;
  }
}

}  // namespace metrics_test
