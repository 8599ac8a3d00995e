// What stands below the charts of a study.
#include "ablations/report/chart_notes.h"

#include "tests/ablations/made_up_study.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace chart_notes_test {

using namespace ablations;
using made_up::lose_number;
using Notes = std::vector<std::string>;

RungLosses losses_of_rung(size_t rung, const std::vector<std::optional<double>>& deviation) {
  RungLosses losses;
  losses.rung = rung;
  losses.deviation = deviation;
  return losses;
}

TEST(ChartNotes, AreOnlyThereWhereThereIsSomethingToSay) {
  EXPECT_TRUE(chart_notes_of(made_up::study(), {}, {}).empty());
}

TEST(ChartNotes, OfLossesNameVoidRungsAndLossesThatAreNotFinite) {
  Study study = made_up::study();
  for (StudyRung& rung : study.rungs) rung.guard.emplace().passed = true;
  const std::vector<RungLosses> losses{losses_of_rung(1, {0.1, std::nullopt, 0.2}), losses_of_rung(2, {0.1})};
  EXPECT_EQ(chart_notes_of(study, {}, losses).at("losses"),
            Notes{"a line breaks where a loss is not finite: + bf16, 1 of 3 steps"});
  study.rungs[1].guard->passed = study.rungs[2].guard->passed = false;
  study.rungs[1].guard->message = "its loss is above";
  study.rungs[2].guard->known_offset = 0.01;
  const Notes notes = chart_notes_of(study, {}, losses).at("losses");
  ASSERT_EQ(notes.size(), 3U);
  EXPECT_EQ(notes[0],
            "Padding columns of a softmax change the loss by a known amount, which the guard does not count.");
  EXPECT_EQ(notes[1], "void: + bf16: its loss is above (and 1 more)");
}

TEST(ChartNotes, OfStepsNameTheFirstDisturbedRun) {
  std::vector<ReportedRun> runs(3);
  for (ReportedRun& run : runs) run.step_ms = {1};
  runs[0].id = "r0-0";
  EXPECT_FALSE(chart_notes_of(made_up::study(), runs, {}).contains("steps"));
  runs[0].flags = {"throttled: the clock fell"};
  runs[2].flags = {"shared"};
  EXPECT_EQ(chart_notes_of(made_up::study(), runs, {}).at("steps"),
            Notes{"disturbed: r0-0 throttled: the clock fell (and 1 more)"});
}

TEST(ChartNotes, OfASweepNameWhatHasNoNumber) {
  Study study = made_up::study();
  study.swept = Swept::batch;
  for (StudyRung& rung : study.rungs) rung.workload.emplace().B = 8;
  EXPECT_FALSE(chart_notes_of(study, {}, {}).contains("sweep"));
  lose_number(study.rungs[2], RungStatus::failed, "exit status 3");
  EXPECT_EQ(chart_notes_of(study, {}, {}).at("sweep"), Notes{"no number: B=8 flash: failed: exit status 3"});
  study.rungs[2].peer = "pytorch-eager";
  study.rungs[2].title = "PyTorch eager";
  study.rungs[2].against = 0;
  EXPECT_TRUE(chart_notes_of(study, {}, {})
                  .at("sweep")[0]
                  .starts_with("no number: B=8 PyTorch eager, " + study.rungs[0].title + ": "));
}

TEST(ChartNotes, OfTheRooflineSayWhereItIsTooLow) {
  Report report;
  EXPECT_TRUE(chart_notes_of(report).empty());
  RooflineRow clip;
  clip.phase = "clip";
  clip.part = "clip";
  clip.measured_ms = 1;
  clip.distance = 0.5;
  TraceDocument trace;
  trace.summary.steps = 5;
  trace.roofline.emplace().limits.source = "measured here";
  trace.roofline->parts = {clip};
  report.traces = {trace};
  EXPECT_EQ(chart_notes_of(report).at("roofline"), (Notes{"limits: measured here", "faster than ideal: clip",
                                                          "median of 5 traced steps of one run, no interval"}));
  report.traces[0].roofline->parts[0].distance = 1.5;
  EXPECT_EQ(chart_notes_of(report).at("roofline").size(), 2U);
}

}  // namespace chart_notes_test
