// Which times make a series, and what is said of it.
#include "study/archive/history_points.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>

namespace history_points_test {

using namespace study;
using files::Json;

StudyRung rung(const char* label, double ms, const Json& recipe) {
  StudyRung rung;
  rung.title = rung.label = label;
  rung.recipe = recipe;
  rung.ms_per_step = RungTimes{{{ms * 0.99, ms * 1.01}, ms}};
  return rung;
}

const Json float32{{"device", "cpu"}}, bf16{{"device", "cpu"}, {"autocast", "bf16"}};

// The `day`-th study, of one rung.
Study study(int day, double ms, const Json& recipe = bf16) {
  return {
      .id = fmt::format("night-{}", day),
      .created = "2026-01-01T00:00:00Z",
      .finished = fmt::format("2026-{:02}-{:02}T01:00:00Z", 1 + day / 28, 1 + day % 28),
      .ladder = {.name = "nightly"},
      .workload = {.model = "tiny", .B = 2, .T = 16},
      .rungs = {rung("+ bf16", ms, recipe)},
      .environment = {
          .cpu = {.model = "AMD EPYC"}, .torch = "2.11.0", .git_commit = fmt::format("commit{}", day), .threads = 2}};
}

Json series_of_studies(const std::vector<Study>& studies) {
  std::vector<HistoryPoint> points;
  std::vector<std::string> notes;
  for (const Study& one : studies) add_points(one, one.id, points, notes);
  EXPECT_TRUE(notes.empty());
  return json_of(describe(series_of(points), 0.02));
}

// Seven values of noise, 0.4 % at most.
double noise(int i) { return 1 + 0.001 * ((i * 3) % 7 - 3); }

TEST(History, OneRecipeUnderEqualCircumstancesIsASeriesInOrderOfTime) {
  const Json series = series_of_studies({study(2, 30), study(0, 10), study(1, 20)});
  ASSERT_EQ(series.size(), 1U);
  const Json& points = series[0].at("points");
  ASSERT_EQ(points.size(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(points[i].at("median"), 10 * (i + 1));
  EXPECT_EQ(points[2].at("git_commit"), "commit2");
  EXPECT_EQ(series[0].at("against_first"), 3);
  EXPECT_EQ(series[0].at("against_best"), 3);
  EXPECT_EQ(series[0].at("best"), 0);
  EXPECT_EQ(series[0].at("verdict"), "too_few");
  EXPECT_EQ(series[0].at("device_slug"), "amd-epyc-2-threads");
}

TEST(History, OtherKernelsMakeAnotherSeriesAndAnOlderStudyThatDoesNotSayNone) {
  using Switches = std::map<std::string, std::string>;
  const auto with = [](int day, const char* capability, const std::optional<Switches>& switches) {
    Study one = study(day, 10);
    one.environment.torch_cpu_capability = capability;
    one.environment.kernel_switches = switches;
    return one;
  };
  const Json series = series_of_studies({study(0, 10), with(1, "AVX512", Switches{}), with(2, "DEFAULT", std::nullopt),
                                         with(3, "AVX512", Switches{{"OMP_PROC_BIND", "close"}}), study(4, 10),
                                         with(5, "AVX512", Switches{})});
  ASSERT_EQ(series.size(), 3U);
  EXPECT_EQ(series[0].at("points").size(), 4U);  // what is not known joins
  EXPECT_EQ(series[1].at("new_because").at(0), "cpu_capability: DEFAULT against AVX512");
  EXPECT_EQ(series[2].at("setting").at("kernel_switches"), "OMP_PROC_BIND=close");
}

TEST(History, AnotherRecipeSizeOrDeviceIsAnotherSeries) {
  Study larger = study(1, 10), elsewhere = study(2, 10), swept = study(3, 10);
  larger.workload.B = 4;
  elsewhere.environment.cpu.model = "Intel Xeon";
  swept.rungs[0].workload = StepSize{{.B = 8, .T = 16}, 128};
  const Json series = series_of_studies({study(0, 10), larger, elsewhere, swept, study(4, 10, float32), study(5, 10)});
  ASSERT_EQ(series.size(), 5U);
  EXPECT_EQ(series[0].at("points").size(), 2U);
  for (const Json& one : series) EXPECT_TRUE(one.at("new_because").empty());
  EXPECT_EQ(series[4].at("setting").at("device"), "Intel Xeon");
}

TEST(History, NewCircumstancesBeginANewSeriesAndSayWhy) {
  std::vector<Study> studies;
  for (int day = 0; day < 24; ++day) {
    studies.push_back(study(day, day < 12 ? 10 * noise(day) : 20 * noise(day)));
    if (day >= 12) studies.back().environment.torch = "2.12.0";
  }
  const Json series = series_of_studies(studies);
  ASSERT_EQ(series.size(), 2U);
  for (const Json& one : series) EXPECT_EQ(one.at("verdict"), "unchanged") << one.at("finding");
  EXPECT_EQ(series[0].at("current"), false);
  EXPECT_EQ(series[1].at("current"), true);
  EXPECT_EQ(series[1].at("new_because"), Json::array({"torch: 2.12.0 against 2.11.0"}));
}

TEST(History, AStepIsNamedWithItsStudyAndCommits) {
  std::vector<Study> studies;
  for (int day = 0; day < 30; ++day) studies.push_back(study(day, (day < 20 ? 100 : 105) * noise(day)));
  const Json series = series_of_studies(studies)[0];
  ASSERT_EQ(series.at("steps").size(), 1U);
  EXPECT_EQ(series.at("steps")[0].at("at"), 20);
  EXPECT_NEAR(series.at("steps")[0].at("ratio").get<double>(), 1.05, 0.003);
  EXPECT_EQ(series.at("verdict"), "slower");
  EXPECT_NEAR(series.at("slowdown").at("ratio").get<double>(), 1.05, 0.003);
  EXPECT_EQ(series.at("slowdown").at("best_level_at"), 19);
  const std::string finding = series.at("finding");
  EXPECT_NE(finding.find("% at 2026-01-21, night-20, commit commit20, after commit commit19"), std::string::npos)
      << finding;
}

TEST(History, ASpeedupIsFasterAndOneThatWasLostAgainIsSlower) {
  std::vector<Study> faster, lost;
  for (int day = 0; day < 30; ++day) {
    faster.push_back(study(day, (day < 15 ? 100 : 90) * noise(day)));
    lost.push_back(study(day, (day >= 10 && day < 20 ? 90 : 100) * noise(day)));
  }
  EXPECT_EQ(series_of_studies(faster)[0].at("verdict"), "faster");
  EXPECT_TRUE(series_of_studies(faster)[0].at("slowdown").is_null());
  const Json series = series_of_studies(lost)[0];
  EXPECT_EQ(series.at("verdict"), "slower");
  EXPECT_EQ(series.at("slowdown").at("best_level_at"), 19);
  EXPECT_NE(series.at("finding").get<std::string>().find("against its best level"), std::string::npos);
}

TEST(History, AMendedSlowdownIsNoneAndKeepsItsSteps) {
  std::vector<Study> studies;
  for (int day = 0; day < 30; ++day)
    studies.push_back(study(day, (day >= 10 && day < 20 ? 110 : day < 10 ? 100 : 100.5) * noise(day)));
  const Json series = series_of_studies(studies)[0];
  EXPECT_EQ(series.at("verdict"), "unchanged");
  EXPECT_EQ(series.at("steps").size(), 2U);
  EXPECT_TRUE(series.at("slowdown").is_null());
  const std::string finding = series.at("finding");
  for (const char* words : {"+9.9 % at 2026-01-11, night-10, ", "-8.6 % at 2026-01-21, night-20, ",
                            "; now +0.50 % against its best level, less than the 2 % that matter"})
    EXPECT_NE(finding.find(words), std::string::npos) << words << " in " << finding;
}

TEST(History, SmallStepsThatAddUpAreADriftWithItsTotal) {
  std::vector<Study> studies;
  for (int day = 0; day < 30; ++day) studies.push_back(study(day, 100 * std::pow(1.002, day) * noise(day)));
  const Json series = series_of_studies(studies)[0];
  ASSERT_FALSE(series.at("drift").is_null()) << series.at("finding");
  EXPECT_NEAR(series.at("drift").at("ratio").get<double>(), std::pow(1.002, 29), 0.006);
  EXPECT_EQ(series.at("verdict"), "slower");
  EXPECT_NE(series.at("finding").get<std::string>().find("since 2026-01-01, night-0"), std::string::npos);
}

Study without_time(Study study, RungStatus status, const char* reason = "") {
  study.rungs[0].status = status;
  study.rungs[0].reason = reason;
  study.rungs[0].ms_per_step.reset();
  return study;
}

TEST(History, ARungThatTheNewestStudyWasToMeasureAndDidNotIsMissed) {
  for (const RungStatus status : {RungStatus::failed, RungStatus::voided, RungStatus::unproven, RungStatus::missing}) {
    const Json one = series_of_studies({study(0, 10), study(1, 10), without_time(study(2, 0), status, "exit 7")})[0];
    EXPECT_EQ(one.at("current"), true);
    ASSERT_FALSE(one.at("missed").is_null()) << name_of(status);
    EXPECT_EQ(one.at("missed").at("study"), "night-2");
    EXPECT_EQ(one.at("missed").at("reason"), name_of(status) + ": exit 7");
    EXPECT_EQ(one.at("points").size(), 2U);
  }
  Study part = study(1, 10);
  part.runs = {{.id = "r1-00", .status = RunStatus::ok}, {.id = "r2-00", .status = RunStatus::missing}};
  const Json partly = series_of_studies({study(0, 10), part})[0];
  EXPECT_EQ(partly.at("missed").at("reason"), "1 of its runs is missing");
  EXPECT_EQ(partly.at("points").size(), 2U);
  // Known again: what was missed once is past.
  EXPECT_TRUE(
      series_of_studies({without_time(study(0, 0), RungStatus::failed), study(1, 10)})[0].at("missed").is_null());
  // A recipe that never had a time has no history.
  EXPECT_TRUE(series_of_studies({without_time(study(0, 0), RungStatus::failed)}).empty());
}

TEST(History, ARungThatTheNewestStudyDoesNotHaveIsNotCurrent) {
  Study both = study(0, 10), never = study(1, 10), larger = study(2, 10, float32), swept = study(3, 10, float32);
  both.rungs.push_back(rung("float32", 20, float32));
  const auto dropped = [&](const Study& newest) { return series_of_studies({both, newest})[1].at("dropped"); };
  EXPECT_EQ(dropped(never), true);
  EXPECT_EQ(series_of_studies({both, never})[1].at("current"), false);
  EXPECT_EQ(series_of_studies({both, never})[0].at("current"), true);
  never.rungs.push_back(rung("float32", 20, float32));
  never.rungs[1].status = RungStatus::not_applicable;
  EXPECT_EQ(dropped(never), true);
  // Another ladder, mode or size has its own newest study.
  never = study(1, 10);
  never.ladder.name = "other";
  EXPECT_EQ(dropped(never), false);
  larger.workload.B = 4;
  EXPECT_EQ(dropped(larger), false);
  swept.mode = Mode::sweep;
  EXPECT_EQ(series_of_studies({both, swept})[0].at("dropped"), false);
}

TEST(History, OnlyMeasuredRungsOfThisProgramCount) {
  Study mixed = study(0, 10);
  StudyRung peer = rung("PyTorch", 20, float32), failed = rung("failed", 30, float32);
  peer.peer = "pytorch-eager";
  failed.status = RungStatus::voided;
  mixed.rungs.push_back(peer);
  mixed.rungs.push_back(failed);
  mixed.rungs.push_back(rung("the same again", 11, bf16));
  const Json series = series_of_studies({mixed});
  ASSERT_EQ(series.size(), 1U);
  ASSERT_EQ(series[0].at("points").size(), 1U);
  EXPECT_EQ(series[0].at("points")[0].at("median"), 10);
}

TEST(History, WhatCannotBeUsedIsSaid) {
  Study odd = study(0, 10);
  odd.rungs.push_back(rung("impossible", -1, float32));
  odd.environment.git_commit.reset();
  std::vector<HistoryPoint> points;
  std::vector<std::string> notes;
  add_points(odd, "odd/study.json", points, notes);
  EXPECT_EQ(points.size(), 1U);
  EXPECT_FALSE(points[0].git_commit.has_value());
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("\"impossible\" is left out: its ms_per_step are no times"), std::string::npos) << notes[0];
  odd.metric = Metric{.name = "val_loss", .pattern = "(?P<value>.*)"};
  add_points(odd, "odd/study.json", points, notes);
  EXPECT_EQ(points.size(), 1U);
  EXPECT_NE(notes[1].find("it compares val_loss, not times"), std::string::npos) << notes[1];
  odd.metric.reset();
  odd.finished = "yesterday";
  EXPECT_THROW(add_points(odd, "odd/study.json", points, notes), std::invalid_argument);
}

TEST(History, AnUnfinishedStudyCountsWithTheTimeOfItsBeginning) {
  Study unfinished = study(3, 10);
  unfinished.finished.reset();
  const Json points = series_of_studies({study(1, 20), unfinished})[0].at("points");
  EXPECT_EQ(points[0].at("time"), "2026-01-01T00:00:00Z");
  EXPECT_EQ(points[0].at("median"), 10);
}

TEST(History, OfALongSeriesTheLatestThousandCount) {
  std::vector<HistoryPoint> points;
  std::vector<std::string> notes;
  add_points(study(0, 10), "study.json", points, notes);
  for (int i = 1; i < 1003; ++i) {
    points.push_back(points[0]);
    points.back().study = fmt::format("{}", i);
    points.back().time = fmt::format("{}-01-01T00:00:00Z", 3000 + i);
  }
  const DescribedSeries series = describe(series_of(points), 0.02)[0];
  EXPECT_EQ(series.points.size(), 1000U);
  EXPECT_EQ(series.left_out, 3U);
  EXPECT_EQ(series.points[0].study, "3");
}

}  // namespace history_points_test
