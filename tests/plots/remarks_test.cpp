// What is said of a study: a headline that claims what its interval shows, and remarks for what makes it doubtful.
#include "plots/remarks.h"

#include "plots/report_document.h"
#include "plots/sentences.h"
#include "plots/study_table.h"
#include "tests/study/made_up_study.h"
#include "tests/study/planted_study.h"
#include "text/figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace remarks_test {

using namespace plots;
using made_up::lose_number;
using made_up::ratio;

std::string headline(const Study& study) { return said_of(study).headline; }

// The remark of that code; an empty one where there is none.
Remark remark(const std::string& code, const Study& study, const std::vector<Noise>& noise = {}) {
  const std::vector<Remark> remarks = said_of(study, {}, noise).remarks;
  const auto found = std::ranges::find(remarks, code, &Remark::code);
  return found == remarks.end() ? Remark{} : *found;
}

StudyRung peer(size_t index, const std::string& title, double ms) {
  StudyRung made = made_up::rung(index, title, ms);
  made.peer = "pytorch-eager";
  return made;
}

TEST(Said, ARungWithoutANumberHasAReason) {
  StudyRung rung = made_up::rung(1, "bf16", 50);
  lose_number(rung, RungStatus::missing, "");  // with a reason: study_table_test.cpp
  EXPECT_EQ(why_no_number(rung), "not run yet");
  lose_number(rung, RungStatus::failed, "Failed twice");  // the word is not said again
  EXPECT_EQ(why_no_number(rung), "Failed twice");
  rung.out_of_memory = true;
  EXPECT_EQ(why_no_number(rung), "out of memory: Failed twice");
}

TEST(Said, NobodyIsToldToLookAgainWhereALookFailed) {
  Study study = made_up::study();
  for (StudyRung& rung : study.rungs) rung.command.emplace();
  study.typed.emplace();
  EXPECT_EQ(remark("not-proven", study).fix, "`ladder measure --look` asks PyTorch.");
  for (StudyRung& rung : study.rungs) rung.command->versions["torch"] = "2.11.0";
  EXPECT_EQ(remark("not-proven", study).fix, "");
  EXPECT_FALSE(remark("not-proven", study).text.empty());
  study.typed->flags = {"--no-look"};
  EXPECT_EQ(remark("not-proven", study).fix, "`ladder measure --look` asks PyTorch.");
}

// One that passed: results/evidence.
TEST(Said, AGuardThatFailedTellsWhatItJudgedAndItsLimit) {
  RungGuard guard{.deviation = -0.0031, .max_deviation = 0.0052, .tolerance = 0.02, .steps = 20};
  EXPECT_EQ(
      guard_words(guard),
      "failed, median signed difference 0.0031 nats (limit 0.02); largest single step 0.0052 (limit 0.5), 20 steps");
  guard.deviation = std::optional<double>();
  EXPECT_TRUE(guard_words(guard).starts_with("failed, a loss is not finite, 20 "));
}

TEST(Said, AHeadlineClaimsWhatItsIntervalShows) {
  Study study = made_up::study();
  const auto said = [&](const Ratio& speedup) {
    study.headline->speedup = speedup;
    return headline(study);
  };
  EXPECT_EQ(headline(study), "2.50\u00d7 faster than \u201cfloat32\u201d");
  EXPECT_EQ(said(ratio(2.05, 0.23, 18.4)), "Not usable: the ratio's interval reaches from 0.23 to 18.4");
  EXPECT_EQ(said(ratio(1.01, {}, {}, 1)), "Not usable: 1 pair of runs, and a verdict needs 4");
  study.headline.reset();
  EXPECT_EQ(headline(study), "No valid speedup: no rung could be compared with the reference rung");
  Study single = study;
  single.rungs.resize(1);
  EXPECT_EQ(headline(single), digits3(single.rungs[0].ms_per_step->median) + " ms per step") << "nothing was compared";
  for (StudyRung& rung : study.rungs) lose_number(rung, RungStatus::failed, "");
  EXPECT_EQ(headline(study), "No valid speedup: no rung has a number (failed)");
}

TEST(Said, AProgramBesideTheLastRungThatIsFasterIsSaidFirst) {
  Study study = made_up::study();
  study.rungs.push_back(peer(3, "PyTorch 2.15 eager", 18));
  const auto said = [&](double center, std::optional<double> lo, std::optional<double> hi) {
    study.rungs[2].peers = {PeerRatio{{lo, hi}, "pytorch-eager", 3, center, 5}};
    return headline(study);
  };
  EXPECT_EQ(said(0.44, 0.43, 0.46), "0.44\u00d7 as fast as PyTorch 2.15 eager");
  EXPECT_EQ(said(1.3, 1.27, 1.33), "2.50\u00d7 faster than \u201cfloat32\u201d");
  EXPECT_EQ(said(0.98, 0.9, 1.05), "2.50\u00d7 faster than \u201cfloat32\u201d");  // not clearly
  // Of one rung it is what was asked.
  study.headline.reset();
  EXPECT_EQ(said(1.08, 1.04, 1.11), "1.08\u00d7 as fast as PyTorch 2.15 eager");
  EXPECT_EQ(said_of(study).lines.front(), "Speed over PyTorch's: 2.15 eager 1.08\u00d7 \u00b1 3.7 %.");
  EXPECT_EQ(said(1.08, {}, {}), "Not usable: the ratio has no interval");
  EXPECT_EQ(said(1.08, 0.9, 1.2), "No clear difference from PyTorch 2.15 eager");
}

TEST(Said, ARowBesideAnEarlierRungThatTakesLessTimeIsNamed) {
  Study study = made_up::study();
  const double last = study.rungs[2].ms_per_step->median;
  study.rungs.push_back(peer(3, "PyTorch eager", 1.2 * last));
  study.rungs.push_back(peer(4, "PyTorch eager", 0.5 * last));
  const auto is_named = [&] {
    return std::ranges::any_of(said_of(study).lines, [](const std::string& line) {
      return line.find(" PyTorch eager beside \u201cbf16\u201d takes ") != std::string::npos &&
             line.starts_with("Speed over");
    });
  };
  study.rungs[2].peers = {PeerRatio{{1.1, 1.3}, "pytorch-eager", 3, 1.2, 5}};
  EXPECT_FALSE(is_named());
  study.rungs[1].peers = {PeerRatio{{0.2, 0.4}, "pytorch-eager", 4, 0.3, 5}};
  EXPECT_TRUE(is_named());
  study.rungs[4].speedup_first = ratio(2.6, 2.4, 2.8);
  study.rungs[2].speedup_first = ratio(2.5, 2.4, 2.6);
  EXPECT_FALSE(is_named()) << "the intervals overlap";
  study.rungs[4].speedup_first = ratio(5, 4.8, 5.2);
  EXPECT_TRUE(is_named());
  study.rungs[4].ms_per_step->median = 1.01 * last;
  EXPECT_FALSE(is_named());
}

TEST(Said, WorthsAreRankedOnlyAsFarAsIntervalsTellThemApart) {
  Study study = made_up::study();
  study.mode = Mode::leave_one_out;
  study.headline.reset();
  const auto said = [&](const std::vector<std::pair<std::string, Ratio>>& worths) {
    study.attribution = std::vector<Worth>();
    for (const auto& [title, of] : worths) {
      Worth& worth = study.attribution.emplace_back();
      worth.title = title;
      worth.method = Method::leave_one_out;
      static_cast<Bounds&>(worth) = of;
      worth.ratio = of.ratio;
      worth.repeats = of.pairs;
    }
    return headline(study);
  };
  EXPECT_EQ(said({{"bf16", ratio(1.2, 1.1, 1.3)}, {"flash", ratio(2, 1.9, 2.1)}}), "Flash 2.00\u00d7, bf16 1.20\u00d7");
  EXPECT_EQ(said({{"bf16", ratio(1.9, 1.8, 2)}, {"flash", ratio(2, 1.9, 2.1)}}), "Flash 2.00\u00d7, bf16 1.90\u00d7");
  EXPECT_EQ(said({{"bf16", ratio(1.01, 0.9, 1.1)}}), "No clear change: bf16");
  EXPECT_EQ(said({{"bf16", ratio(0.8, 0.7, 0.9)}, {"flash", ratio(0.5, 0.4, 0.6)}}),
            "Slower with flash 0.50\u00d7, bf16 0.80\u00d7");
  EXPECT_EQ(said({{"bf16", ratio(1.2, {}, {}, 1)}, {"flash", ratio(2, {}, {}, 1)}}),
            "From flash 2.00\u00d7 to bf16 1.20\u00d7, one run each");
  EXPECT_EQ(said({}), "No optimization has a number");
}

TEST(Said, OnlyOfFlagsEachIsKeptOrDropped) {
  Study study = made_up::study();
  for (StudyRung& rung : study.rungs) {
    rung.command = StudyCommand{.text = "train", .typed = rung.index == 0 ? "train" : "+ " + rung.title, .mean_ms = 40};
  }
  study.rungs[1].speedup_against = ratio(2, 1.9, 2.1);
  study.rungs[2].speedup_against = ratio(0.8, 0.7, 0.9);
  EXPECT_EQ(headline(study), "Keep bf16 2.00\u00d7; drop flash 0.80\u00d7");
  study.rungs[2].command->typed = "train --flash";  // another command, not a flag more
  EXPECT_EQ(headline(study), "2.50\u00d7 faster than \u201cfloat32\u201d");
}

TEST(Said, WaitsForInputAreToldWhereTheyMatter) {
  Study study = made_up::study();
  for (StudyRung& rung : study.rungs) {
    rung.command = StudyCommand{.text = "train", .typed = "train", .mean_ms = 31};
    rung.command->input = InputWait{.wait_ms = rung.index == 0 ? 1.5 : 0.002, .step_ms = 31};
  }
  EXPECT_EQ(remark("input", study).text, "") << "less than a twentieth";
  study.rungs[0].command->input->wait_ms = 9;
  const std::string text = remark("input", study).text;
  EXPECT_TRUE(text.starts_with("The host waits for input in a step: \u201cfloat32\u201d 9.00 of 31.0 ms, ")) << text;
  EXPECT_NE(text.find("\u201cbf16\u201d 0 of 31.0 ms"), std::string::npos) << text;
  EXPECT_NE(remark("input", study).fix, "");
  study.rungs[1].command->input->by_look = true;
  EXPECT_TRUE(
      remark("input", study).text.starts_with("The host waits for input in a step, seen by looking at a few: "));
}

TEST(Said, WorkThatDoesNotFitTheTimeIsTold) {
  Study study = made_up::study();
  for (StudyRung& rung : study.rungs) {
    rung.command = StudyCommand{.text = "train", .typed = "train", .mean_ms = rung.index == 0 ? 10.0 : 5.0};
    rung.command->cpu_ms = rung.index == 0 ? 9.0 : 4.0;
  }
  EXPECT_EQ(remark("work", study).text, "") << "half of the time, and half of the work";
  study.rungs[1].command->cpu_ms = 0.5;
  EXPECT_EQ(remark("work", study).text,
            "The processor works less than the time tells: 9.00 ms of a step of 10.0 in \u201cfloat32\u201d, "
            "\u201cbf16\u201d 0.500 of 5.00 ms.");
}

TEST(Said, AnIntervalIsShownByItsEndsWhereItIsUneven) {
  Study study = made_up::study();
  study.headline->speedup = ratio(0.98, 0.935, 0.995);  // with +- 4.6 % it would include 1
  const std::string figures = said_of(study).lines.front();
  EXPECT_NE(figures.find("0.98\u00d7 [0.94\u00d7 \u2013 0.99\u00d7]"), std::string::npos) << figures;
}

TEST(Said, ATitleTellsWhatWhereAndWhen) {
  Study study = made_up::study();
  study.created = "2026-11-26T12:00:00Z";
  study.device.name = "AMD EPYC(TM) 9B14 96-Core Processor @ 2.60GHz, 2 threads";
  EXPECT_EQ(title_of(study),
            "GPT-2 124M on AMD EPYC 9B14, 2 threads \u00b7 B=4 T=256 \u00b7 2026-11-26 \u00b7 CPU figures");
  EXPECT_EQ(model_on_device("tiny", "NVIDIA H200"), "the tiny model on NVIDIA H200");
}

TEST(Said, DisturbedRunsAreCountedOnceAndWhatToDoIsSaid) {
  Study study = made_up::study();
  EXPECT_EQ(remark("trust", study).severity, Severity::good);
  study.rungs[1].flags = {"r1-01-bf16 shared: 1 other process on the GPU"};
  const Remark one = remark("disturbed", study);  // a median bears it
  EXPECT_EQ(one.text, "1 of 15 runs was disturbed: r1-01-bf16 shared: 1 other process on the GPU.");
  EXPECT_EQ(one.severity, Severity::info);
  EXPECT_EQ(one.fix, "");
  EXPECT_EQ(remark("trust", study).severity, Severity::good);
  study.rungs[2].flags = study.rungs[1].flags;
  EXPECT_EQ(remark("disturbed", study).severity, Severity::warn);
  EXPECT_EQ(remark("disturbed", study).fix, "Stop the other work and measure again.");
  EXPECT_EQ(remark("trust", study).severity, Severity::info);
  EXPECT_EQ(remedy_for({"r1-00 paused: a step took 10 s among steps of 0.02 s"}), "let it run without a pause");
  EXPECT_EQ(remedy_for({"r1-00 memory: the allocator went to the device"}), "take a smaller batch");
}

TEST(Said, AStudyWithMostRunsDisturbedClaimsNothing) {
  Study study = made_up::study();
  study.rungs[1].speedup_first = study.rungs[1].speedup_against = ratio(0.5, 0.4, 0.6);
  study.rungs[2].peers = std::vector<PeerRatio>(1);
  study.rungs[2].peers->front().ratio = 1.2;
  study.attribution = std::vector<Worth>(1);
  study.attribution.front().ratio = 1.5;
  const auto disturb = [&](size_t runs, const std::string& flag) {
    study.rungs[1].flags = std::vector<std::string>(runs, "r1-01-bf16 " + flag);
  };
  disturb(7, "shared: 1 other process on the GPU");
  EXPECT_EQ(headline(study), "2.50\u00d7 faster than \u201cfloat32\u201d");
  const std::string usable = study_table(study);
  disturb(8, "shared: 1 other process on the GPU");
  const StudySaid said = said_of(study);
  EXPECT_EQ(said.headline, "Not usable: other work ran during 8 of 15 runs");
  EXPECT_TRUE(said.lines.empty());
  EXPECT_EQ(said.remarks.front().code, "unusable");
  EXPECT_EQ(said.remarks.front().severity, Severity::bad);
  EXPECT_EQ(said.remarks.front().fix, "Stop the other work and begin a new study.");
  const std::string table = study_table(study);
  for (const char* claim : {"0.50x", "2.50x"}) {
    EXPECT_NE(usable.find(claim), std::string::npos) << claim << usable;
    EXPECT_EQ(table.find(claim), std::string::npos) << claim << table;
  }
  const Study empty = without_claims(study);
  EXPECT_FALSE(empty.rungs[2].peers->front().ratio);
  EXPECT_EQ(empty.attribution.front().reason, "other work ran during 8 of 15 runs");
  disturb(15, "throttled: HwThermalSlowdown in 3 of 11 samples");
  EXPECT_EQ(headline(study), "Not usable: the GPU was throttled during 15 of 15 runs");
  EXPECT_EQ(remark("unusable", study).fix, "Let the GPU cool and begin a new study.");
}

TEST(Said, ProofsGuardsAndRunsAreCounted) {
  Study study = made_up::study();
  study.rungs[0].proofs = {Proof{.field = "device", .passed = true}};
  study.rungs[1].proofs = {Proof{.field = "autocast", .passed = true}, Proof{.field = "device", .passed = true}};
  study.rungs[1].guard = RungGuard{.passed = true};
  EXPECT_EQ(remark("trust", study).text,
            "15 of 15 runs, 3 of 3 proofs passed. The losses of 1 of 1 rung follow the reference's.");
  study.rungs[2].proofs = {Proof{.field = "device", .passed = true}};
  EXPECT_EQ(remark("trust", study).text,
            "15 of 15 runs, every rung proven. 4 proofs passed. The losses of 1 of 1 rung follow the reference's.");
  study.rungs[1].proofs[0].passed = false;
  study.plan.runs_ok = 14;
  EXPECT_EQ(remark("trust", study).text,
            "14 of 15 runs, 3 of 4 proofs passed. The losses of 1 of 1 rung follow the reference's.");
  EXPECT_EQ(remark("trust", study).severity, Severity::info);
  study.rungs[2].flags = std::vector<std::string>(14, "r1-02-flash shared: 1 other process on the GPU");
  EXPECT_TRUE(remark("trust", study).text.starts_with("14 of 15 runs, not usable."));
  study.plan.runs_ok = 0;
  EXPECT_TRUE(remark("trust", study).text.starts_with("0 of 15 runs, nothing measured."));
}

TEST(Said, WhatIsMissingOrDoubtfulIsARemarkTheWorstFirst) {
  Study study = made_up::study();
  study.warnings = {"load average 9.00 on 2 cores"};
  study.quick = true;
  study.environment.git_dirty = true;
  lose_number(study.rungs[1], RungStatus::unproven, "host_memory: 12 faults");
  const std::vector<Remark> remarks = said_of(study).remarks;
  EXPECT_EQ(remarks.front().code, "no-number");
  EXPECT_EQ(remarks.front().text, "\u201cbf16\u201d has no number: unproven: host_memory: 12 faults.");
  EXPECT_EQ(sorted(remarks), remarks);
  EXPECT_EQ(std::ranges::find(remarks, Severity::info, &Remark::severity) - remarks.begin(), 2);
  for (const char* code : {"unfinished", "quick", "warning", "changed-program", "cpu"}) {
    EXPECT_NE(remark(code, study).text, "") << code;
  }
  EXPECT_EQ(remark("unfinished", study).fix, "`ladder ablate --resume --out FOLDER` makes the others.");
  study.finished = "2026-11-26T12:00:00Z";
  EXPECT_EQ(remark("unfinished", study).text, "");
  study.headline->planned = 0;
  study.headline->first = 1;
  EXPECT_EQ(remark("reference", study).text,
            "\u201cfloat32\u201d has no number that counts, so \u201cbf16\u201d is the reference.");
}

TEST(Said, TheNoiseFloorIsTheOneOfSoManyRepeats) {
  const auto noise = [](const std::vector<Floor>& floors, const char* label) {
    Noise made;
    made.label = label;
    made.floors = floors;
    return made;
  };
  const Study study = made_up::study();
  EXPECT_EQ(remark("noise-floor", study).text, "");
  EXPECT_EQ(remark("noise-floor", study, {noise({{4, 0.031}, {5, 0.02}, {8, 0.01}}, "flash")}).text,
            "Noise floor here: 2 % with 5 pairs of runs; a larger difference is found in 95 % of studies (flash).");
  EXPECT_EQ(remark("noise-floor", study, {noise({{16, 0.01}}, "far"), noise({{6, 0.02}}, "near")}).text,
            "Noise floor here: 2 % with 6 pairs of runs; a larger difference is found in 95 % of studies (near).");
}

// ---- in a report's document

class SaidInReport : public planted::PlantedStudy {
 protected:
  SaidInReport() { repeats_ = 4; }
};

TEST_F(SaidInReport, OfTwoStudiesIsTheComparison) {
  const StudyFiles files = computed_study(plan_, folder_);
  Report both = with_said(report_document({files, files}));
  EXPECT_TRUE(both.said->headline.starts_with("A and B take the same time at ")) << both.said->headline;
  ComparedRecipe& last = both.comparison->entries.back();
  last.verdict = harness::Verdict::regression;
  last.ratio = 1.5;
  both.comparison->entries.front().verdict = harness::Verdict::improvement;
  both.comparison->entries.front().ratio = 0.8;
  const Said said = said_of(both);
  EXPECT_TRUE(said.headline.starts_with("B is 1.50\u00d7 slower than A at ")) << said.headline;
  EXPECT_TRUE(said.lines.front().starts_with("B is faster at ")) << said.lines.front();
  EXPECT_TRUE(said.lines.back().starts_with("B: ")) << said.lines.back();
  both.studies[1].study.device.name = "Another(R) Device, 8 threads";
  EXPECT_TRUE(said_of(both).headline.starts_with("Another Device is 1.50\u00d7 slower than "))
      << said_of(both).headline;
}

}  // namespace remarks_test
