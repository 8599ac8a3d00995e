// From counter values to the document and the table, with values made by hand.
#include "ablations/profile/profile_counters.h"

#include "tests/refusal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace profile_counters_test {

using namespace ablations;
using files::Json;

RunOptions options() {
  RunOptions options;
  options.id = "flash";
  options.B = 16;
  options.T = 1024;
  options.recipe.device = model::Device::cuda;
  options.data = "shakespeare.txt";
  options.applied = {"gpu", "flash"};
  return options;
}

StepCounters counted() {
  return {.chip = "GH100",
          .workload = workload_of(options(), "0123", 1000),
          .warmup_steps = 10,
          .passes = 1,
          .values = {{"gpu__time_duration.sum", 50e6, "nanosecond"},
                     {"dram__bytes_read.sum", 60e9, "byte"},
                     {"dram__bytes_write.sum", 40e9, "byte"},
                     {"lts__t_bytes.sum", 2.5e11, "byte"},
                     {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed", 97.25, "%"},
                     {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 41.5, "%"}}};
}

TEST(ProfileCounters, MorePassesThanAllowedAndACpuAreRefused) {
  check_passes("GH100", 1, 1);
  EXPECT_EQ(refusal_of([] { return check_passes("GH100", 3, 2), 0; }),
            "--metrics: GH100 needs 3 passes for them, 2 are allowed; ask for fewer, or set --max-passes 3");
  RunOptions on_cpu = options();
  on_cpu.recipe.device = model::Device::cpu;
  EXPECT_THROW(count_step(on_cpu, {}, 1, [](const std::string&) {}), std::invalid_argument);
}

TEST(ProfileCounters, SummaryHasFixedUnits) {
  const Json document = json_of(counters_document(options(), counted()));
  (void)value_from<CountersDocument>(document, "the counters");
  EXPECT_EQ(document.at("summary"), (Json{{"gpu_time_ms", 50.0},
                                          {"dram_read_bytes", 60e9},
                                          {"dram_write_bytes", 40e9},
                                          {"dram_bytes_per_s", 2e12},
                                          {"l2_bytes", 2.5e11},
                                          {"tensor_active_percent", 41.5},
                                          {"sm_active_percent", 97.25}}));
  EXPECT_EQ(document.at("metrics").at("dram__bytes_read.sum"), (Json{{"value", 60e9}, {"unit", "byte"}}));
  EXPECT_EQ(document.at("workload").at("tokens_per_step"), 16 * 1024);
  EXPECT_EQ(document.at("device").at("chip"), "GH100");
  EXPECT_EQ(json_of(value_from<CountersDocument>(document, "the counters")).dump(), document.dump());
}

TEST(ProfileCounters, DramMayBeCountedUnderAnotherName) {
  StepCounters counters = counted();
  counters.values[1].metric = "dram__bytes_op_read.sum";
  counters.values[2].metric = "dram__bytes_op_write.sum";
  const CounterSummary summary = counters_document(options(), counters).summary;
  EXPECT_EQ(summary.dram_read_bytes, 60e9);
  EXPECT_EQ(summary.dram_write_bytes, 40e9);
}

TEST(ProfileCounters, WhatIsNotKnownIsNull) {
  StepCounters counters = counted();
  counters.values = {{"dram__bytes_read.sum", std::nan(""), "byte"}, {"dram__bytes_write.sum", 1.0, "byte"}};
  const CountersDocument document = counters_document(options(), counters);
  const Json json = json_of(document);
  (void)value_from<CountersDocument>(json, "the counters");
  EXPECT_TRUE(json.at("metrics").at("dram__bytes_read.sum").at("value").is_null());
  const CounterSummary& summary = document.summary;
  EXPECT_EQ(summary.dram_write_bytes, 1.0);
  EXPECT_FALSE(summary.gpu_time_ms || summary.dram_read_bytes || summary.dram_bytes_per_s || summary.sm_active_percent);
  EXPECT_NE(counters_table(document).find("   unknown byte dram__bytes_read.sum\n"), std::string::npos);
}

TEST(ProfileCounters, TableFitsATerminal) {
  const std::string table = counters_table(counters_document(options(), counted()));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  for (const char* part : {"One step of flash (gpt2-124m B=16 T=1024)", "GPU time                 50.0 ms\n",
                           "DRAM read                60.0 GB\n", "DRAM rate              2.00 TB/s\n",
                           "tensor pipe active        41.5 %\n", "    6e+10 byte dram__bytes_read.sum\n"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
  EXPECT_EQ(table.find("passes"), std::string::npos);
  StepCounters several = counted();
  several.passes = 3;
  EXPECT_NE(counters_table(counters_document(options(), several)).find("3 passes: the values come from 3 steps"),
            std::string::npos);
}

}  // namespace profile_counters_test
