// What the cards say of noise, of runs that were disturbed or not watched, of losses and versions.
#include "ablations/report/trust.h"

#include "tests/ablations/made_up_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace trust_test {

using namespace ablations;
using Runs = std::vector<ReportedRun>;

// Five of each rung, as nothing disturbed them.
Runs runs_of(const Study& study) {
  Runs runs;
  for (const StudyRung& rung : study.rungs) {
    for (size_t repeat = 0; repeat < 5; ++repeat) {
      ReportedRun run;
      run.id = "r" + std::to_string(repeat) + "-" + rung.title;
      run.rung = rung.index;
      run.processor_lost = 0.01;
      runs.push_back(run);
    }
  }
  return runs;
}

Card card(const std::string& what, const Study& study, const Runs& runs, const std::vector<Noise>& noise = {}) {
  const std::vector<Card> cards = trust_cards(study, runs, noise);
  const auto found = std::ranges::find(cards, what, &Card::what);
  return found == cards.end() ? Card{} : *found;
}

Card disturbed(const Study& study, const Runs& runs) { return card("Disturbed runs", study, runs); }

Noise noise_of(const std::vector<Floor>& floors, const std::string& label = "+ flash") {
  Noise noise;
  noise.label = label;
  noise.floors = floors;
  return noise;
}

RungGuard guard(bool passed, double deviation, double max_deviation) {
  RungGuard made;
  made.passed = passed;
  made.deviation = deviation;
  made.max_deviation = max_deviation;
  made.tolerance = 0.02;
  return made;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Trust, TheNoiseFloorIsTheOneOfSoManyRepeats) {
  Study study = made_up::study();
  EXPECT_EQ(card("Noise floor", study, {}).value, "not measured");
  const std::vector<Noise> published{noise_of({{6, 0.05}, {8, 0.04}, {12, 0.03}, {48, 0.01}})};
  using Expected = std::tuple<int64_t, const char*, const char*>;
  for (const auto& [repeats, value, pairs] : {Expected{5, "5 %", "6 pairs of runs (this study has 5) find"},
                                              {6, "5 %", "6 pairs of runs find"},
                                              {10, "4 %", "8 pairs of runs (this study has 10) find"},
                                              {60, "1 %", "48 pairs of runs (this study has 60)"}}) {
    study.plan.repeats = repeats;
    const Card shown = card("Noise floor", study, {}, published);
    EXPECT_EQ(shown.value, value);
    EXPECT_TRUE(contains(shown.words, pairs)) << shown.words;
  }
}

TEST(Trust, OfSeveralNoiseFloorsTheNearestCounts) {
  const Study study = made_up::study();
  const Card shown =
      card("Noise floor", study, {},
           {noise_of({{3, 0.05}, {5, 0.031}}, "near"), noise_of({{2, 0.09}}, "far"), noise_of({}, "none")});
  EXPECT_EQ(shown.value, "3.1 %");
  EXPECT_TRUE(shown.words.ends_with("measured on near")) << shown.words;
}

TEST(Trust, DisturbedRunsAreCountedOnceEach) {
  const Study study = made_up::study();
  Runs runs = runs_of(study);
  const Card none = disturbed(study, runs);
  EXPECT_EQ(none.value, "none seen");
  EXPECT_EQ(none.mood, Mood::good);
  EXPECT_EQ(none.words, "something else had the processor for at most 1 % of a run");
  runs[3].flags = {"throttled: heat", "shared: 1 other process"};
  runs[7].flags = {"shared: 1 other process"};
  runs[9].flags = {"shared: 1 other process"};
  runs[9].status = RunStatus::failed;
  EXPECT_EQ(disturbed(study, runs).value, "2 of 15");
  EXPECT_EQ(disturbed(study, runs).mood, Mood::warn);
  EXPECT_EQ(disturbance_words(study, runs), "2 of 15 runs were disturbed");
}

TEST(Trust, RunsMadeAgainAreNotSimplyUndisturbed) {
  const Study study = made_up::study();
  Runs runs = runs_of(study);
  EXPECT_EQ(disturbance_words(study, runs), "no run was disturbed");
  runs[3].first_flags = std::vector<std::string>{"shared: something else had the processor"};
  EXPECT_EQ(disturbed(study, runs).value, "1 run made again");
  EXPECT_EQ(disturbed(study, runs).words,
            "disturbed the first time: r3-float32: shared: something else had the processor");
  EXPECT_EQ(disturbance_words(study, runs), "no run counted is disturbed (1 made again)");
  runs[3].flags = {"shared: again"};
  EXPECT_EQ(disturbed(study, runs).value, "1 of 15");
  EXPECT_TRUE(disturbed(study, runs).words.ends_with("; 1 run made again and disturbed once more"));
  EXPECT_EQ(disturbance_words(study, runs), "1 of 15 runs was disturbed");
}

TEST(Trust, RunsThatNobodyCouldWatchAreNotCalledUndisturbed) {
  const Study study = made_up::study();
  Runs runs = runs_of(study);
  runs[4].processor_lost.reset();
  runs[5].processor_lost.reset();
  const Card shown = disturbed(study, runs);
  EXPECT_EQ(shown.value, "not known");
  EXPECT_EQ(shown.words, "2 runs where the system does not count who had the processor");
  EXPECT_EQ(disturbance_words(study, runs), "");
}

TEST(Trust, AGpuThatNobodyWatchedIsNotCalledUndisturbed) {
  Study study = made_up::study();
  for (StudyRung& rung : study.rungs) rung.recipe["device"] = "cuda";
  Runs runs = runs_of(study);
  MonitorSummary watched;
  watched.throttle = std::vector{Throttle{"SwPowerCap", 0.97}};
  watched.other_processes = 0;
  for (ReportedRun& run : runs) run.conditions = watched;
  EXPECT_EQ(disturbed(study, runs).value, "none seen");
  EXPECT_EQ(disturbed(study, runs).words, "no throttling, no other work on the device");
  MonitorSummary no_throttle = watched, no_others = watched;
  no_throttle.throttle.reset();
  no_others.other_processes.reset();
  for (const MonitorSummary& less : {no_throttle, no_others}) {
    runs.back().conditions = less;
    EXPECT_EQ(disturbed(study, runs).value, "not known");
    EXPECT_EQ(disturbed(study, runs).words, "1 run on a GPU that nobody watched");
  }
  runs.back().conditions.reset();
  EXPECT_EQ(disturbed(study, runs).value, "not known");
}

TEST(Trust, ProofsRunsAndGuardsAreCounted) {
  Study study = made_up::study();
  EXPECT_EQ(card("Runs", study, {}).value, "15 of 15");
  EXPECT_EQ(card("Proofs", study, {}).mood, Mood::bad) << "none was given";
  EXPECT_EQ(card("Guard", study, {}).what, "");
  study.plan.runs_ok = 14;
  study.rungs[1].proofs.resize(2);
  study.rungs[1].proofs[0].passed = true;
  study.rungs[1].guard = guard(true, 0.001, 0.002);
  study.rungs[2].guard = guard(false, -0.3, 0.4);
  EXPECT_EQ(card("Runs", study, {}).mood, Mood::warn);
  EXPECT_EQ(card("Proofs", study, {}).value, "1 of 2 passed");
  EXPECT_EQ(card("Guard", study, {}).value, "1 of 2 rungs follows the reference");
  EXPECT_EQ(card("Guard", study, {}).words,
            "the furthest: median difference 0.3 nats (limit 0.02); largest single step 0.4 (limit 0.5)");
  study.rungs[1].guard->deviation = std::optional<double>();
  EXPECT_EQ(card("Guard", study, {}).words, "the furthest: a loss is not finite");
  study.rungs[1].peer = "pytorch-eager";
  EXPECT_EQ(card("Guard", study, {}).value, "0 of 1 rung and 1 of 1 PyTorch mode follows the reference");
  study.rungs[2].peer = "pytorch-compile";
  EXPECT_EQ(card("Guard", study, {}).value, "1 of 2 PyTorch modes follows the reference");
}

TEST(Trust, TheEnvironmentNamesAGpusDriver) {
  Study study = made_up::study();
  EXPECT_EQ(card("Environment", study, {}).value, "torch 2.11.0");
  EXPECT_EQ(card("Environment", study, {}).words, "commit unknown");
  study.device.kind = model::Device::cuda;
  study.environment.driver = std::optional<std::string>();
  study.environment.cuda = std::optional<std::string>("13.0");
  study.environment.git_commit = "0123456789abcdef";
  study.environment.git_dirty = true;
  EXPECT_EQ(card("Environment", study, {}).words,
            "driver unknown, CUDA 13.0, commit 0123456789, with uncommitted changes");
  EXPECT_EQ(card("Environment", study, {}).mood, Mood::warn);
}

}  // namespace trust_test
