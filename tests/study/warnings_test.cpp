// What a study says of its own runs that makes them doubtful.
#include "ablations/gpt2/run.h"
#include "study/analysis.h"
#include "tests/study/planted_study.h"

#include <gtest/gtest.h>

namespace warnings_test {

using namespace study;
using files::Json;

class Warnings : public planted::PlantedStudy {};

TEST_F(Warnings, WhatCouldNotBeCountedIsSaid) {
  EXPECT_EQ(study()["warnings"].dump().find("could not be counted"), std::string::npos);
  Json record = good(run_of(1, 0), 100);
  record["observations"]["cuda_calls"] = {{"unavailable", "another tool is attached"}};
  write(run_of(1, 0), record);
  EXPECT_NE(study()["warnings"].dump().find("\\\"bf16 autocast\\\": launches, and what the host waits for, could not "
                                            "be counted: another tool is attached"),
            std::string::npos)
      << study()["warnings"];
}

TEST_F(Warnings, LossesThatDoNotRepeatAreToldWhereTheyMust) {
  const auto is_said = [&](int64_t threads, double off) {
    plan_.workload.threads = threads;
    Json record = good(run_of(0, 0), 100);
    record["timing"]["loss"][1] = record["timing"]["loss"][1].get<double>() + off;
    write(run_of(0, 0), record);
    return study()["warnings"].dump().find("repeats of the same recipe and seed have different losses") !=
           std::string::npos;
  };
  EXPECT_FALSE(is_said(1, 0));
  EXPECT_TRUE(is_said(1, 1e-6));
  EXPECT_FALSE(is_said(2, 1e-6));  // two threads may add in another order
  EXPECT_TRUE(is_said(2, 0.01));
}

TEST_F(Warnings, ACacheThatCouldNotBeEmptiedIsSaid) {
  const auto said = [&] { return study()["warnings"].dump(); };
  make_about_batches();
  EXPECT_EQ(said().find("page cache"), std::string::npos) << "nobody asked for an empty one";
  plan_.workload.cold_cache = true;
  make_about_batches(1000);
  EXPECT_NE(said().find("9 of 9 runs began with their data in the page cache all the same"), std::string::npos)
      << said();
  make_about_batches(10);
  EXPECT_EQ(said().find("page cache"), std::string::npos);
  write(run_of(1, 0), good(run_of(1, 0), 50));
  EXPECT_NE(said().find("1 of 9 runs do not tell whether their data were in the page cache"), std::string::npos);
}

TEST_F(Warnings, DisturbedRunsAreSaidAndTheirRungIsMarked) {
  EXPECT_FALSE(study()["rungs"][1].contains("flags"));
  EXPECT_EQ(planted::table_of(study()).find("! disturbed"), std::string::npos);
  for (const int64_t repeat : {0, 2}) {
    Json record = good(run_of(1, repeat), 50);
    record["flags"] = {"throttled: HwSlowdown in 2 of 9 samples", "shared: 1 other process on the GPU"};
    write(run_of(1, repeat), record);
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
  const auto warned = [&](const Json& monitor) {
    for (Rung& rung : plan_.rungs) rung.recipe["device"] = "cuda";
    for (const PlannedRun& run : plan_.runs) {
      Json record = good(run, 100);
      record["monitor"] = monitor;
      write(run, record);
    }
    const Json s = study();
    for (const std::string text : s["warnings"]) {
      if (text.find("not watched for a throttled or shared GPU") != std::string::npos) return text;
    }
    return std::string();
  };
  EXPECT_NE(warned({{"unavailable", "no libnvidia-ml.so.1"}}).find("no libnvidia-ml.so.1"), std::string::npos);
  Json monitor{{"samples", 3}, {"throttle", Json::array()}, {"other_processes", 0}, {"notes", Json::object()}};
  for (const char* field : {"sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c", "utilization_percent",
                            "energy_j", "joules_per_token"}) {
    monitor[field] = nullptr;
  }
  EXPECT_EQ(warned(monitor), "");
  monitor["other_processes"] = nullptr;
  monitor["notes"]["other_processes"] = "the driver shows no process";
  EXPECT_NE(warned(monitor).find("the driver shows no process"), std::string::npos);
}

TEST_F(Warnings, ARepeatInTwoSittingsIsTold) {
  const auto warnings = [&](const char* started) {
    Json record = good(run_of(1, 2), 60);
    record["started"] = started;
    record["duration_s"] = 1800;
    write(run_of(1, 2), record);
    return study()["warnings"].dump();
  };
  EXPECT_EQ(warnings("2026-01-01T00:20:00Z").find("interrupted"), std::string::npos);
  EXPECT_NE(warnings("2026-01-01T14:00:00Z").find("repeat 3 was interrupted for 14.0 hours"), std::string::npos);
  // A run that failed after long is no pause.
  const Record failed =
      failed_record(run_of(2, 2).id, FailureKind::timeout, "took longer than 50400 s", "2026-01-01T00:00:01Z", 50400);
  write(run_of(2, 2), failed);
  EXPECT_EQ(study()["warnings"].dump().find("interrupted"), std::string::npos);
}

TEST_F(Warnings, AClockThatIsSetInBetweenIsNoPause) {
  // The last of the repeat's three runs begins 7.1 hours later by the clock, `seconds` by what nobody sets.
  const auto warnings = [&](const char* boot, double seconds) {
    for (size_t rung = 0; rung < 3; ++rung) {
      Json record = good(run_of(rung, 2), 60);
      record["since_boot"] = {{"boot", "first"}, {"seconds", 100 + 10 * static_cast<double>(rung)}};
      if (rung == 2) {
        record["started"] = "2026-01-01T07:06:00Z";
        record["since_boot"] = {{"boot", boot}, {"seconds", seconds}};
      }
      write(run_of(rung, 2), record);
    }
    return study()["warnings"].dump();
  };
  EXPECT_EQ(warnings("first", 120).find("interrupted"), std::string::npos);
  EXPECT_NE(warnings("first", 7300).find("repeat 3 was interrupted for 2.0 hours"), std::string::npos);
  EXPECT_EQ(warnings("first", 1).find("interrupted"), std::string::npos);  // made before the others
  EXPECT_NE(warnings("second", 5).find("repeat 3 was interrupted for 7.1 hours"), std::string::npos);
  Json old = good(run_of(0, 2), 60);  // one that does not say
  write(run_of(0, 2), old);
  EXPECT_NE(study()["warnings"].dump().find("repeat 3 was interrupted for 7.1 hours"), std::string::npos);
}

TEST_F(Warnings, ARunAtAnEvenlyLowerClockIsTold) {
  const auto warnings = [&](double clock) {
    Json record = good(run_of(1, 0), 50);
    for (const auto& [repeat, mhz] : {std::pair{0, 1980.0}, {1, clock}}) {
      record = good(run_of(1, repeat), 50);
      record["monitor"] = {
          {"samples", 3}, {"throttle", Json::array()}, {"other_processes", 0}, {"notes", Json::object()}};
      for (const char* field :
           {"memory_clock_mhz", "power_w", "temperature_c", "utilization_percent", "energy_j", "joules_per_token"}) {
        record["monitor"][field] = nullptr;
      }
      record["monitor"]["sm_clock_mhz"] = {{"min", mhz}, {"median", mhz}, {"max", mhz}};
      write(run_of(1, repeat), record);
    }
    return study()["warnings"].dump();
  };
  EXPECT_EQ(warnings(1900).find("clocks"), std::string::npos);
  EXPECT_NE(warnings(1410).find("at different clocks, the median from 1410 to 1980 MHz"), std::string::npos);
}

}  // namespace warnings_test
