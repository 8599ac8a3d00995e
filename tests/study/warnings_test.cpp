// What a study says of its own runs that makes them doubtful.
#include "ablations/gpt2/run.h"
#include "study/analysis.h"
#include "tests/study/planted_study.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace warnings_test {

using namespace study;
using files::Json;

class Warnings : public planted::PlantedStudy {
 protected:
  // What is said of it now.
  [[nodiscard]] std::string said() const { return study()["warnings"].dump(); }
  [[nodiscard]] bool says(const std::string& words) const { return said().find(words) != std::string::npos; }
};

TEST_F(Warnings, WhatCouldNotBeCountedIsSaid) {
  EXPECT_FALSE(says("could not be counted"));
  plant(1, 0, 100, {{"/observations/cuda_calls", {{"unavailable", "another tool is attached"}}}});
  EXPECT_TRUE(says(
      "\\\"bf16 autocast\\\": launches, and what the host waits for, could not be counted: another tool is attached"))
      << said();
}

TEST_F(Warnings, LossesThatDoNotRepeatAreToldWhereTheyMust) {
  for (const auto& [threads, off, told] :
       std::vector<std::tuple<int64_t, double, bool>>{{1, 0, false},
                                                      {1, 1e-6, true},
                                                      {2, 1e-6, false},
                                                      {2, 0.01, true}}) {  // two threads may add in another order
    plan_.workload.threads = threads;
    plant(0, 0, 100, {{"/timing/loss/1", 9.5 + off}});
    EXPECT_EQ(says("repeats of the same recipe and seed have different losses"), told) << threads << " " << off;
  }
}

TEST_F(Warnings, ACacheThatCouldNotBeEmptiedIsSaid) {
  make_about_batches();
  EXPECT_FALSE(says("page cache")) << "nobody asked for an empty one";
  plan_.workload.cold_cache = true;
  make_about_batches(1000);
  EXPECT_TRUE(says("9 of 9 runs began with their data in the page cache all the same")) << said();
  make_about_batches(10);
  EXPECT_FALSE(says("page cache"));
  plant(1, 0, 50);
  EXPECT_TRUE(says("1 of 9 runs do not tell whether their data were in the page cache")) << said();
}

TEST_F(Warnings, DisturbedRunsAreSaidAndTheirRungIsMarked) {
  EXPECT_FALSE(study()["rungs"][1].contains("flags"));
  EXPECT_EQ(planted::table_of(study()).find("! disturbed"), std::string::npos);
  for (const int64_t repeat : {0, 2}) {
    plant(1, repeat, 50,
          {{"/flags", {"throttled: HwSlowdown in 2 of 9 samples", "shared: 1 other process on the GPU"}}});
  }
  const Json s = study();
  EXPECT_EQ(s["rungs"][1]["status"], "measured");
  const std::string flags = " throttled: HwSlowdown in 2 of 9 samples; shared: 1 other process on the GPU";
  EXPECT_EQ(s["rungs"][1]["flags"], Json::array({run_of(1, 0).id + flags, run_of(1, 2).id + flags}));
  EXPECT_FALSE(s["rungs"][0].contains("flags"));
  const std::string table = planted::table_of(s);
  EXPECT_NE(table.find("\n+ bf16 autocast" + std::string(10, ' ') + "!"), std::string::npos);
  EXPECT_NE(table.find("! disturbed runs"), std::string::npos);
}

TEST_F(Warnings, RunsThatNobodyWatchedAreNamed) {
  for (Rung& rung : plan_.rungs) rung.recipe["device"] = "cuda";
  const Json unseen{{"other_processes", nullptr}, {"notes", {{"other_processes", "the driver shows no process"}}}};
  for (const auto& [seen, reason] :
       std::vector<std::pair<Json, std::string>>{{{{"unavailable", "no libnvidia-ml.so.1"}}, "no libnvidia-ml.so.1"},
                                                 {monitor(), ""},
                                                 {monitor(unseen), "the driver shows no process"}}) {
    plant_all(100, {{"/monitor", seen}});
    EXPECT_EQ(says("not watched for a throttled or shared GPU"), !reason.empty()) << said();
    EXPECT_TRUE(says(reason)) << said();
  }
}

TEST_F(Warnings, ARepeatInTwoSittingsIsTold) {
  const auto begin_last = [&](const char* started) { plant(1, 2, 60, {{"/started", started}, {"/duration_s", 1800}}); };
  begin_last("2026-01-01T00:20:00Z");
  EXPECT_FALSE(says("interrupted"));
  begin_last("2026-01-01T14:00:00Z");
  EXPECT_TRUE(says("repeat 3 was interrupted for 14.0 hours")) << said();
  // A run that failed after long is no pause.
  write(run_of(2, 2), failed_record(run_of(2, 2).id, FailureKind::timeout, "took longer than 50400 s",
                                    "2026-01-01T00:00:01Z", 50400));
  EXPECT_FALSE(says("interrupted")) << said();
}

TEST_F(Warnings, AClockThatIsSetInBetweenIsNoPause) {
  // The last of the repeat's three runs begins 7.1 hours later by the clock, `seconds` by what nobody sets.
  const auto begin_last = [&](const char* boot, double seconds) {
    for (const size_t rung : {0, 1}) {
      plant(rung, 2, 60, {{"/since_boot", {{"boot", "first"}, {"seconds", 100 + 10 * static_cast<double>(rung)}}}});
    }
    plant(2, 2, 60, {{"/started", "2026-01-01T07:06:00Z"}, {"/since_boot", {{"boot", boot}, {"seconds", seconds}}}});
  };
  for (const auto& [boot, seconds, hours] :
       std::vector<std::tuple<const char*, double, std::string>>{{"first", 120, ""},
                                                                 {"first", 7300, "2.0"},
                                                                 {"first", 1, ""},
                                                                 {"second", 5, "7.1"}}) {  // 1: made before the others
    begin_last(boot, seconds);
    EXPECT_EQ(says("interrupted"), !hours.empty()) << said();
    EXPECT_TRUE(hours.empty() || says("repeat 3 was interrupted for " + hours + " hours")) << said();
  }
  begin_last("first", 120);
  plant(0, 2, 60);  // one that does not say
  EXPECT_TRUE(says("repeat 3 was interrupted for 7.1 hours")) << said();
}

TEST_F(Warnings, ARunAtAnEvenlyLowerClockIsTold) {
  const auto clocks = [&](double second) {
    for (const auto& [repeat, mhz] : {std::pair{0, 1980.0}, {1, second}}) {
      plant(1, repeat, 50, {{"/monitor", monitor({{"sm_clock_mhz", {{"min", mhz}, {"median", mhz}, {"max", mhz}}}})}});
    }
    return says("at different clocks, the median from 1410 to 1980 MHz");
  };
  EXPECT_FALSE(clocks(1900) || says("clocks"));
  EXPECT_TRUE(clocks(1410)) << said();
}

}  // namespace warnings_test
