// The titles of charts.
#include "ablations/report/findings.h"

#include "tests/ablations/made_up_study.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace findings_test {

using namespace ablations;
using made_up::lose_number;
using made_up::ratio;

constexpr int64_t gib = int64_t{1} << 30;

// What a chart of the study shows; empty: it has no such chart.
std::string finding(const std::string& chart, const Study& study, const std::vector<ReportedRun>& runs = {},
                    const std::vector<RungLosses>& losses = {}) {
  const Findings findings = findings_of(study, runs, losses);
  const auto found = findings.find(chart);
  return found == findings.end() ? "" : found->second;
}

TEST(Findings, OfTheLadderAreItsHeadlineAndItsTimes) {
  Study study = made_up::study();
  EXPECT_EQ(finding("ladder", study), "2.50\u00d7 faster, 100 \u2192 40.0 ms per step");
  study.headline->fastest = 1;
  study.rungs[1].speedup_first = ratio(2.81, 2.7, 2.9);
  EXPECT_EQ(finding("ladder", study), "2.81\u00d7 faster at \u201cbf16\u201d, 100 \u2192 50.0 ms per step");
  study.headline.reset();
  EXPECT_EQ(finding("ladder", study), "No valid speedup: no rung could be compared with the reference rung");
  study.mode = Mode::factorial;
  EXPECT_EQ(finding("ladder", study), "");
}

Worth worth(const std::string& name, double ratio, double half = 0.03, int64_t repeats = 5) {
  Worth made;
  made.lo = ratio * (1 - half);
  made.hi = ratio * (1 + half);
  made.optimization = made.title = name;
  made.method = Method::shapley;
  made.ratio = ratio;
  made.repeats = repeats;
  return made;
}

Worth without_interval(Worth worth, int64_t repeats = 1) {
  worth.lo = worth.hi = std::nullopt;
  worth.repeats = repeats;
  return worth;
}

std::string of_worths(const std::vector<Worth>& worths) {
  Study study = made_up::study();
  study.mode = Mode::factorial;
  study.attribution = worths;
  return finding("attribution", study);
}

TEST(Findings, OfWorthsRankOnlyWhatIntervalsTellApart) {
  EXPECT_EQ(of_worths({worth("a", 1.3), worth("b", 1.2, 0.01), worth("c", 1.1)}),
            "\u201ca\u201d is worth most, 1.30\u00d7; \u201cc\u201d least, 1.10\u00d7");
  EXPECT_EQ(
      of_worths({worth("c", 1.01), worth("a", 1.20), worth("b", 1.18)}),
      "\u201ca\u201d 1.20\u00d7 or \u201cb\u201d 1.18\u00d7 is worth most; \u201cc\u201d least, 1.01\u00d7, no clear "
      "difference");
  EXPECT_EQ(of_worths({worth("a", 1.20), worth("b", 1.19), worth("c", 1.18)}),
            "\u201ca\u201d 1.20\u00d7 or one of 2 others is worth most");
  EXPECT_EQ(of_worths({worth("a", 1.50), worth("b", 1.01), worth("c", 1.00)}),
            "\u201ca\u201d is worth most, 1.50\u00d7");
}

TEST(Findings, OfWorthsAreSilentOnWhatMayBeNothing) {
  EXPECT_EQ(of_worths({worth("a", 1.40), worth("b", 1.20, 0.5)}), "\u201ca\u201d is worth 1.40\u00d7");
  EXPECT_EQ(of_worths({without_interval(worth("a", 1.40)), worth("b", 1.20), worth("c", 1.01)}),
            "\u201cb\u201d is worth 1.20\u00d7");
  EXPECT_EQ(of_worths({worth("a", 1.001)}), "No optimization makes a clear difference");
  EXPECT_EQ(of_worths({worth("a", 0.80), worth("b", 0.30)}),
            "No optimization clearly helps; \u201cb\u201d clearly costs time, 0.30\u00d7");
}

TEST(Findings, OfWorthsWithoutIntervalsSaySo) {
  EXPECT_EQ(of_worths({without_interval(worth("a", 1.40)), without_interval(worth("b", 1.20))}),
            "From \u201ca\u201d 1.40\u00d7 to \u201cb\u201d 1.20\u00d7, one run each, no interval");
  EXPECT_EQ(of_worths({without_interval(worth("a", 1.40), 2), without_interval(worth("b", 1.20))}),
            "From \u201ca\u201d 1.40\u00d7 to \u201cb\u201d 1.20\u00d7, no interval");
  EXPECT_EQ(of_worths({without_interval(worth("a", 1.5))}), "\u201ca\u201d 1.50\u00d7, one run each, no interval");
  Worth failed;
  failed.method = Method::shapley;
  EXPECT_EQ(of_worths({failed}), "No optimization has a number");
}

// At batch sizes of 1, 2 and 4.
Study sweep() {
  Study study = made_up::study();
  study.mode = Mode::sweep;
  study.swept = Swept::batch;
  study.headline.reset();
  for (size_t i = 0; i < 3; ++i) {
    study.rungs[i].workload = StepSize{};
    study.rungs[i].workload->B = int64_t{1} << i;
    study.rungs[i].tokens_per_s->median = 11000 + 1000.0 * static_cast<double>(i);
  }
  return study;
}

TEST(Findings, OfASweepNameTheFastestRungWithItsSize) {
  Study study = sweep();
  EXPECT_EQ(finding("sweep", study), "Up to 13.0K tokens/s (no interval), at B=4 (flash)");
  EXPECT_EQ(finding("throughput", study), "Up to 13.0K tokens/s: B=4 flash");
  study.rungs[2].mfu.emplace().emplace().value = 0.171;
  EXPECT_EQ(finding("throughput", study), "Up to 13.0K tokens/s, MFU 17.1 %: B=4 flash");
  study.rungs[2].tokens_per_s->lo = 1;
  study.rungs[2].tokens_per_s->hi = 1e9;
  EXPECT_EQ(finding("sweep", study), "Up to 13.0K tokens/s (interval unknown), at B=4 (flash)");
  study.rungs[2].tokens_per_s->lo = 12'900;
  study.rungs[2].tokens_per_s->hi = 13'100;
  EXPECT_EQ(finding("sweep", study), "Up to 13.0K tokens/s, at B=4 (flash)");
  for (StudyRung& rung : study.rungs) lose_number(rung, RungStatus::failed, "killed");
  EXPECT_TRUE(findings_of(study, {}, {}).empty());
}

TEST(Findings, OfThroughputGoFromTheReferenceToTheLead) {
  Study study = made_up::study();
  study.rungs[0].tokens_per_s->median = 11000;
  study.rungs[2].tokens_per_s->median = 17000;
  EXPECT_EQ(finding("throughput", study), "11.0K \u2192 17.0K tokens/s");
  study.rungs[2].mfu.emplace().emplace().value = 0.451;
  EXPECT_EQ(finding("throughput", study), "11.0K \u2192 17.0K tokens/s, MFU 45.1 %");
  study.rungs[0].mfu.emplace().emplace().value = 0.031;
  EXPECT_EQ(finding("throughput", study), "11.0K \u2192 17.0K tokens/s, MFU 3.1 % \u2192 45.1 %");
}

// The last rung beside peers that take so many times as long.
Study with_peers(const std::vector<Ratio>& ratios) {
  Study study = made_up::study();
  study.rungs[2].peers.emplace();
  for (const Ratio& ratio : ratios) {
    StudyRung peer =
        made_up::rung(study.rungs.size(), "PyTorch " + std::to_string(study.rungs.size()), 40 * ratio.ratio);
    peer.peer = "pytorch";
    peer.against = 2;
    PeerRatio made;
    made.lo = ratio.lo;
    made.hi = ratio.hi;
    made.rung = peer.index;
    made.ratio = ratio.ratio;
    made.pairs = ratio.pairs;
    study.rungs[2].peers->push_back(made);
    study.rungs.push_back(peer);
  }
  return study;
}

TEST(Findings, OfPeersAreAboutTheFastest) {
  Study study = with_peers({ratio(2, 1.9, 2.1), ratio(1.25, 1.2, 1.3)});
  EXPECT_EQ(finding("peers", study), "1.25\u00d7 as fast as PyTorch 4, 40.0 ms against 50.0 ms per step");
  study.mode = Mode::one_at_a_time;
  EXPECT_EQ(finding("peers", study),
            "1.25\u00d7 as fast as PyTorch 4 at \u201cflash\u201d, 40.0 ms against 50.0 ms per step");
  EXPECT_EQ(finding("peers", with_peers({ratio(1.01, 0.98, 1.04)})),
            "No clear difference from PyTorch 3, 1.01\u00d7 as fast, 40.0 ms against 40.4 ms per step");
  EXPECT_EQ(finding("peers", with_peers({ratio(2, {}, {}, 1)})),
            "2.00\u00d7 as fast as PyTorch 3, one run each, no interval");
  EXPECT_EQ(finding("peers", made_up::study()), "");
}

TEST(Findings, OfPeersNameARungThatIsNotTheLast) {
  Study study = with_peers({ratio(1.25, 1.2, 1.3)});
  std::swap(study.rungs[1].peers, study.rungs[2].peers);
  EXPECT_EQ(finding("peers", study),
            "1.25\u00d7 as fast as PyTorch 3 at \u201cbf16\u201d, 50.0 ms against 50.0 ms per step");
  lose_number(study.rungs[3], RungStatus::failed, "exit status 1");
  EXPECT_EQ(finding("peers", study), "No rung could be compared with PyTorch");
}

TEST(Findings, OfPeersKeepWhatMakesTheRatioDoubtful) {
  Study study = with_peers({ratio(2, {}, {}, 1)});
  study.mode = Mode::one_at_a_time;
  study.rungs[2].title = study.rungs[3].title = std::string(200, 'x');
  const std::string said = finding("peers", study);
  EXPECT_TRUE(said.ends_with(", one run each, no interval")) << said;
  EXPECT_LE(said.size(), 90U);
}

TEST(Findings, OfMemoryNameTheLargestPart) {
  Study study = made_up::study();
  EXPECT_EQ(finding("memory", study), "");
  for (StudyRung& rung : study.rungs) rung.peak_memory_bytes = (31 - 6 * static_cast<int64_t>(rung.index)) * gib;
  EXPECT_EQ(finding("memory", study), "Peak memory 31.0 \u2192 19.0 GiB");
  for (StudyRung& rung : study.rungs) {
    rung.memory.emplace().weights_bytes = 4 * gib;
    rung.memory->activations_bytes = (20 - 6 * static_cast<int64_t>(rung.index)) * gib;
  }
  EXPECT_EQ(finding("memory", study),
            "Peak memory 31.0 \u2192 19.0 GiB; largest part: activations, 20.0 \u2192 8.0 GiB");
  // What nobody counted may be more than any part.
  study.rungs[2].memory->weights_bytes = 2 * gib;
  EXPECT_EQ(finding("memory", study),
            "Peak memory 31.0 \u2192 19.0 GiB; largest part: libraries and temporaries, 7.0 \u2192 9.0 GiB");
  study.headline.reset();
  EXPECT_EQ(finding("memory", study), "Peak memory 19.0 to 31.0 GiB");
  for (StudyRung& rung : study.rungs) rung.peak_memory_bytes = 512 << 20;
  EXPECT_EQ(finding("memory", study), "Peak memory 512 MiB");
}

RungProfile profile(double busy, double backward, double idle) {
  RungProfile made;
  made.busy_percent = busy;
  made.step.emplace().by_phase = {{"forward", 300}, {"backward", backward}, {"", 4}};
  made.step->idle_ms = idle;
  return made;
}

TEST(Findings, OfPhasesNameTheLargest) {
  Study study = made_up::study();
  study.rungs[2].profile = profile(84, 394, 94);
  EXPECT_EQ(finding("phases", study), "Backward is the largest part of \u201cflash\u201d: 394 ms; device busy 84 %");
  study.rungs[0].profile = profile(90, 400, 100);
  EXPECT_EQ(finding("phases", study),
            "Backward is the largest part of \u201cflash\u201d: 400 \u2192 394 ms; device busy 90 % \u2192 84 %");
  study.rungs[2].profile->step->idle_ms = 5000;
  EXPECT_EQ(finding("phases", study),
            "Idle time is the largest part of \u201cflash\u201d: 100 \u2192 5,000 ms; device busy 90 % "
            "\u2192 84 %");
  study.rungs[0].profile->busy_percent = study.rungs[2].profile->busy_percent = std::nullopt;
  EXPECT_EQ(finding("phases", study), "Idle time is the largest part of \u201cflash\u201d: 100 \u2192 5,000 ms");
  study.rungs[2].profile->step.reset();  // an older study's
  study.rungs[2].profile->by_phase.emplace_back().phase = "backward";
  study.rungs[2].profile->by_phase[0].ms = 700;
  EXPECT_EQ(finding("phases", study), "Backward is the largest part of \u201cflash\u201d: 400 \u2192 700 ms");
}

// A title of another rung would stand above a study of this one.
TEST(Findings, OfPhasesAreOfTheRungThatTheStudyLeadsWith) {
  Study study = made_up::study();
  study.rungs[0].profile = profile(90, 400, 100);
  study.rungs[1].profile = profile(84, 394, 94);
  EXPECT_EQ(finding("phases", study), "\u201cflash\u201d was not traced: `ladder profile --trace --rung flash`");
}

TEST(Findings, OfEnergyHaveOneUnit) {
  Study study = made_up::study();
  EXPECT_EQ(finding("energy", study), "");
  study.rungs[0].joules_per_token = 0.052;
  study.rungs[2].joules_per_token = 0.022;
  EXPECT_EQ(finding("energy", study), "52.0 \u2192 22.0 mJ per token");
  study.rungs[0].joules_per_token = 2.5;
  EXPECT_EQ(finding("energy", study), "2.50 \u2192 0.022 J per token");
  study.headline.reset();
  EXPECT_EQ(finding("energy", study), "0.022 to 2.50 J per token; 1 rung not known: too short a window");
  study.rungs[1].joules_per_token = 0.3;
  EXPECT_EQ(finding("energy", study), "Least energy: 0.022 J per token, flash");
}

ReportedRun run(size_t rung, size_t steps) {
  ReportedRun made;
  made.rung = rung;
  made.warmup_steps = 5;
  made.step_ms.assign(steps, 50);
  made.processor_lost = 0.01;
  return made;
}

TEST(Findings, OfStepsCountThemAndTellOfDisturbances) {
  Study study = made_up::study();
  EXPECT_EQ(finding("steps", study), "");
  std::vector<ReportedRun> runs{run(0, 25), run(1, 25)};
  EXPECT_EQ(finding("steps", study, runs), "40 timed steps of 2 runs; no run was disturbed");
  runs[1].flags = {"throttled"};
  EXPECT_EQ(finding("steps", study, runs), "40 timed steps of 2 runs; 1 of 15 runs was disturbed");
  runs[1].flags.clear();
  runs[1].processor_lost.reset();  // nobody knows
  EXPECT_EQ(finding("steps", study, runs), "40 timed steps of 2 runs");
}

RungGuard guard(bool passed, std::optional<double> deviation) {
  RungGuard made;
  made.passed = passed;
  made.deviation = deviation;
  made.tolerance = 0.02;
  return made;
}

TEST(Findings, OfLossesNameTheWorst) {
  Study study = made_up::study();
  std::vector<RungLosses> losses(2);
  losses[0].rung = 1;
  losses[1].rung = 2;
  EXPECT_EQ(finding("losses", study, {}, losses), "");
  study.rungs[1].guard = guard(true, -0.0119);
  EXPECT_EQ(finding("losses", study, {}, losses),
            "\u201cbf16\u201d learns what the reference learns: median difference 0.0119 nats at most (limit 0.02)");
  study.rungs[2].guard = guard(true, 0.003);
  EXPECT_EQ(finding("losses", study, {}, losses),
            "All 2 rungs learn what the reference learns: median difference 0.0119 nats at most (limit 0.02)");
  // Void although its median is in bounds.
  study.rungs[2].guard = guard(false, 0.003);
  study.rungs[2].guard->message = "the loss of step 31 is 0.60 nats off";
  EXPECT_EQ(finding("losses", study, {}, losses),
            "1 of 2 rungs is void, \u201cflash\u201d: the loss of step 31 is 0.60 nats off");
  study.rungs[1].guard = guard(false, std::nullopt);
  study.rungs[1].guard->message = "the loss of step 2 is not finite";
  EXPECT_EQ(finding("losses", study, {}, losses),
            "2 of 2 rungs are void, \u201cbf16\u201d: the loss of step 2 is not finite");
}

std::string of_two(const std::optional<Comparison>& comparison) {
  Report report;
  report.studies.resize(2);
  for (ReportedStudy& entry : report.studies) entry.study = made_up::study();
  lose_number(report.studies[0].study.rungs[2], RungStatus::failed, "killed");
  report.comparison = comparison;
  return findings_of(report)["side_by_side"];
}

TEST(Findings, OfTwoStudiesAreAboutTheLastRungOfBoth) {
  EXPECT_EQ(of_two({}), "Fastest step: 50.0 ms in the first, 40.0 ms in the second");
  Comparison comparison;
  ComparedRecipe& entry = comparison.entries.emplace_back();
  entry.label = "+ flash";
  entry.base_ms = 500;
  entry.head_ms = 475;
  entry.ratio = 0.95;
  entry.verdict = harness::Verdict::improvement;
  EXPECT_EQ(of_two(comparison), "flash: 0.95\u00d7 the time in the second, 500 \u2192 475 ms per step");
  entry.verdict = harness::Verdict::inconclusive;
  entry.loss.passed = false;
  entry.flags = {"base r1 throttled"};
  EXPECT_EQ(of_two(comparison),
            "flash: its losses differ; 0.95\u00d7 the time in the second, 500 \u2192 475 ms per step, inconclusive, of "
            "disturbed runs");
}

TEST(Findings, OfARooflineNameThePartWithMostToGain) {
  Report report;
  EXPECT_TRUE(findings_of(report).empty());
  RooflineRow gelu;
  gelu.phase = "forward";
  gelu.part = "gelu";
  gelu.limit_ms = 3;
  gelu.measured_ms = 4;
  gelu.distance = 4.0 / 3;
  gelu.ms_above = 1;
  RooflineRow head = gelu;
  head.phase = "backward";
  head.part = "head";
  head.limit_ms = 5;
  head.measured_ms = 12;
  head.ms_above = 7;
  report.traces.emplace_back().roofline.emplace().parts = {gelu, head};
  report.traces.emplace_back();  // without a roofline
  EXPECT_EQ(findings_of(report)["roofline"], "Backward head has most to gain, 12.0 ms per step against 5.00 ms ideal");
  report.traces[0].roofline->parts[1].distance.reset();
  report.traces[0].roofline->parts[1].part = "backward";
  EXPECT_EQ(findings_of(report)["roofline"], "Backward has most to gain, 12.0 ms per step");
}

}  // namespace findings_test
