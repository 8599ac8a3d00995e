// Counters where there are none, and what a refusal of CUPTI's is told as. Real counters: tests/cuda.
#include "harness/gpu/gpu_counters.h"

#include "harness/gpu/cuda_calls.h"
#include "harness/gpu/cupti.h"
#include "harness/gpu/metrics.h"
#include "harness/machine/machine.h"
#include "harness/process/unfit.h"
#include "tests/refusal.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace gpu_counters_test {

using namespace harness;

TEST(Counters, WithoutADeviceTheReasonIsTold) {
  if (this_machine().gpu) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(refusal_of<Unfit>([] { const Counters counters({}); }),
            "counters need a GPU: " + this_machine().no_gpu_reason);
}

TEST(CuptiError, SaysWhatToDoWhereTheMachineRefuses) {
  // Of the driver, of a hypervisor, of a tool in the way; what is no property of the machine is an ordinary error.
  const std::pair<CUptiResult, std::vector<std::string>> refusals[] = {
      {CUPTI_SUCCESS, {"no error"}},
      {CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
       {"NVreg_RestrictProfilingToAdminUsers=0", "SYS_ADMIN",
        "[cuptiRangeProfilerStart: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)]"}},
      {CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES, {"hypervisor"}},
      {CUPTI_ERROR_HARDWARE_BUSY, {"dcgmi profile --pause"}},
      {CUPTI_ERROR_UNKNOWN, {"not unfit"}},
      {CUPTI_ERROR_INVALID_PARAMETER, {"not unfit"}}};
  for (const auto& [result, parts] : refusals) {
    std::string said = "no error";
    try {
      check_cupti("cuptiRangeProfilerStart", result);
    } catch (const Unfit& error) {
      said = error.what();
    } catch (const std::runtime_error&) {
      said = "not unfit";
    }
    for (const std::string& part : parts) EXPECT_NE(said.find(part), std::string::npos) << said;
  }
}

// What counts as a launch and what as a wait. Real calls: tests/cuda.
TEST(CudaCalls, TellsLaunchesFromWaits) {
  using Names = std::set<std::string>;
  const Names launches{"__cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernelExC",
                       "cuLaunchKernelEx"},  // nvcc 13's <<<>>>
      waits{"cudaMemcpy", "cudaFree", "cuMemFree_v2", "cudaStreamSynchronize", "cudaEventSynchronize"},
      others{"cudaLaunchHostFunc", "cudaMemcpyAsync", "cudaFreeAsync", "cudaEventQuery", "cudaStreamWaitEvent"};
  CudaCalls seen{.calls = {{"cudaGraphLaunch", 1}}, .unavailable = ""};
  for (const Names& names : {launches, waits, others}) {
    for (const std::string& name : names) seen.calls[name] = 3;
  }
  const auto names_of = [](const auto& calls) {
    Names names;
    for (const auto& [name, count] : calls) names.insert(name);
    return names;
  };
  EXPECT_EQ(names_of(seen.kernel_launches()), launches);
  EXPECT_EQ(harness::sum(seen.kernel_launches()), 12);
  EXPECT_EQ(names_of(seen.graph_launches()), Names{"cudaGraphLaunch"});
  EXPECT_EQ(names_of(seen.host_waits()), waits);
}

TEST(CudaCalls, TheWorkIsDoneWithoutADriver) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess) GTEST_SKIP() << "there is a driver";
  bool done = false;
  const CudaCalls seen = harness::cuda_calls([&] { done = true; });
  EXPECT_TRUE(done);
  EXPECT_TRUE(seen.calls.empty());
  EXPECT_NE(seen.unavailable, "");
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

std::string refusal(const std::string& chip, const std::vector<std::string>& metrics) {
  return refusal_of([&] { const MetricSet set(chip, metrics); });
}

bool contains(const std::vector<std::string>& metrics, const std::string& name) {
  return std::ranges::find(metrics, name) != metrics.end();
}

TEST(Metrics, DefaultSetIsWhatTheChipHas) {
  for (const std::string& chip : counter_chips()) {
    if (chip == "GV11B") continue;  // the one that is only a name
    SCOPED_TRACE(chip);
    const std::vector<std::string> metrics = default_metrics(chip);
    const bool is_large = chip == "GA100" || chip == "GH100" || chip == "GB100";
    EXPECT_LE(passes(chip, metrics), is_large ? 1 : 3);
    EXPECT_TRUE(!is_large || (metrics.size() == 15 && contains(metrics, "dram__bytes_read.sum")));
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

TEST(Metrics, WhatThereIsNotIsRefusedWithWhatThereIs) {
  const std::string gmma = "sm__inst_executed_pipe_tensor_op_gmma.sum";
  const std::tuple<const char*, std::vector<std::string>, std::vector<std::string>> refusals[] = {
      {"GH100",
       {"sm__cycles_active.avg", "dram_bytes_read.sum"},
       {"metric \"dram_bytes_read.sum\": GH100 has no metric of this name; similar: dram__bytes_read.sum"}},
      {"GA100", {"frobnications"}, {"metric \"frobnications\": GA100 has no metric", "--list-metrics --chip GA100"}},
      {"GA100", {gmma}, {"GA100 has no metric of this name"}},  // another chip's
      {"GH100",
       {"dram__bytes_read.summ"},
       {"metric \"dram__bytes_read.summ\": the counter dram__bytes_read has no such ending on GH100; possible: .sum"}},
      {"GH100",
       {"sm__throughput"},
       {"metric \"sm__throughput\": the throughput sm__throughput has no such ending on GH100; possible: "
        ".avg.pct_of_peak_sustained_active, .max.pct_of_peak_sustained_active, .min.pct_of_peak_sustained_active, "
        ".sum.pct_of_peak_sustained_active, .avg.pct_of_peak_sustained_elapsed"}},
      {"GH10", {"dram__bytes_read.sum"}, {"chip \"GH10\"", "GH100", "GA100"}},
      {"GV11B", {"dram__bytes_read.sum"}, {"chip \"GV11B\": this CUPTI knows its name but cannot count on it"}},
      {"GH100", {}, {"no metrics to count"}}};
  for (const auto& [chip, metrics, parts] : refusals) {
    const std::string said = refusal(chip, metrics);
    for (const std::string& part : parts) EXPECT_NE(said.find(part), std::string::npos) << said;
  }
  EXPECT_EQ(passes("GH100", {"l1tex__t_sector_hit_rate.pct"}), 1);  // a ratio has endings of its own
}

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
