// What is said of a study and of its rungs.
#include "ablations/report/sentences.h"

#include "ablations/report/how_to_read.h"
#include "tests/ablations/made_up_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace sentences_test {

using namespace ablations;
using made_up::lose_number;
using made_up::ratio;

TEST(Sentences, OfARungWithoutANumber) {
  StudyRung rung = made_up::rung(1, "bf16", 50);
  lose_number(rung, RungStatus::not_applicable, "needs a CUDA device");
  EXPECT_EQ(why_no_number(rung), "not applicable: needs a CUDA device");
  lose_number(rung, RungStatus::failed, "exit status 3");
  EXPECT_EQ(why_no_number(rung), "failed: exit status 3");
  lose_number(rung, RungStatus::voided, "losses differ");
  EXPECT_EQ(why_no_number(rung), "void: losses differ");
  lose_number(rung, RungStatus::missing, "");
  EXPECT_EQ(why_no_number(rung), "not run yet");
  lose_number(rung, RungStatus::failed, "Failed twice");  // the word is not said again
  EXPECT_EQ(why_no_number(rung), "Failed twice");
  lose_number(rung, RungStatus::failed, "asked for 80 GiB, 79 were there");
  rung.out_of_memory = true;
  EXPECT_EQ(status_words(rung), "out of memory");
  EXPECT_EQ(why_no_number(rung), "out of memory: asked for 80 GiB, 79 were there");
}

TEST(Sentences, OfAGuard) {
  RungGuard guard;
  guard.deviation = -0.0031;
  guard.max_deviation = 0.0052;
  guard.tolerance = 0.02;
  guard.steps = 20;
  const std::string difference = "median difference 0.0031 nats (limit 0.02); largest single step 0.0052 (limit 0.5)";
  EXPECT_EQ(guard_words(guard), "Guard: failed, " + difference + ", 20 steps.");
  guard.passed = true;
  guard.known_offset = 0.01;
  guard.message = "its loss is above";
  EXPECT_EQ(guard_words(guard), "Guard: passed, " + difference +
                                    ", 20 steps, not counting up to 0.01 of padding columns; its loss is above.");
  guard.deviation.reset();  // an older program's
  EXPECT_EQ(deviation_words(guard), "largest difference 0.0052 nats (limit 0.02)");
  guard.deviation = std::optional<double>();
  EXPECT_EQ(deviation_words(guard), "a loss is not finite");
}

TEST(Sentences, AHeadlineClaimsWhatItsIntervalShows) {
  Study study = made_up::study();
  const auto said = [&](const Ratio& speedup) {
    study.headline->speedup = speedup;
    return headline_words(study);
  };
  EXPECT_EQ(headline_words(study), "2.50\u00d7 faster");
  EXPECT_EQ(said(ratio(0.9, 0.8, 0.95)), "Slower, 0.90\u00d7 the speed");
  EXPECT_EQ(said(ratio(2.05, 0.23, 18.4)), "No clear change");
  EXPECT_EQ(said(ratio(1.01, {}, {}, 2)), "1.01\u00d7, no interval");
  EXPECT_EQ(said(ratio(0.99, {}, {}, 1)), "0.99\u00d7, one run each, no interval");
}

TEST(Sentences, AHeadlineSaysFirstThatAPeerIsFasterThanTheLastRung) {
  Study study = made_up::study();
  study.rungs.push_back(made_up::rung(3, "PyTorch eager", 18));
  study.rungs.back().peer = "pytorch-eager";
  const auto said = [&](size_t own, double center, double lo, double hi) {
    for (StudyRung& rung : study.rungs) rung.peers.reset();
    study.rungs[own].peers = {PeerRatio{{lo, hi}, "pytorch-eager", 3, center, 5}};
    return headline_words(study);
  };
  EXPECT_EQ(said(2, 0.44, 0.43, 0.46),
            "The last rung is slower than PyTorch eager, 0.44\u00d7 its speed. 2.50\u00d7 faster");
  EXPECT_EQ(faster_peer_of(study)->own->title, "flash");
  EXPECT_EQ(said(2, 1.3, 1.2, 1.4), "2.50\u00d7 faster");
  EXPECT_EQ(said(2, 0.98, 0.9, 1.05), "2.50\u00d7 faster");  // not clearly
}

TEST(Sentences, AHeadlineNamesAReferenceThatTookAnothersPlace) {
  Study study = made_up::study();
  lose_number(study.rungs[0], RungStatus::failed, "asked for 9 GiB of 8");
  study.headline->first = 1;
  study.headline->planned = 0;
  const auto said = [&](const Ratio& speedup) {
    study.headline->speedup = speedup;
    return headline_words(study);
  };
  EXPECT_EQ(said(ratio(1.25, 1.2, 1.3)), "1.25\u00d7 faster than \u201cbf16\u201d");
  EXPECT_EQ(said(ratio(0.9, 0.8, 0.95)), "Slower, 0.90\u00d7 the speed of \u201cbf16\u201d");
  EXPECT_EQ(said(ratio(0.9, 0.8, 1.2)), "No clear change against \u201cbf16\u201d");
  EXPECT_EQ(said(ratio(0.9, {}, {})), "0.90\u00d7 against \u201cbf16\u201d, no interval");
}

TEST(Sentences, AHeadlineIsOfTheRungThatIsClearlyTheFastest) {
  Study study = made_up::study();
  study.headline->fastest = 1;
  study.rungs[1].speedup_first = ratio(2.81, 2.7, 2.9);
  EXPECT_EQ(headline_words(study), "2.81\u00d7 faster");
  EXPECT_EQ(lead_of(study)->rung->title, "bf16");
}

TEST(Sentences, TellWhatStandsBehindTheHeadline) {
  Study study = made_up::study();
  EXPECT_EQ(evidence_words(study), "95 % confidence interval 2.40\u00d7 \u2013 2.60\u00d7, 5 pairs of runs");
  EXPECT_EQ(change_words(study), "From 100 ms per step (float32) to 40.0 ms (flash), 0 tokens/s.");
  study.headline->speedup = ratio(2.05, 0.23, 18.4);
  EXPECT_EQ(evidence_words(study),
            "measured 2.05\u00d7, 95 % confidence interval 0.23\u00d7 \u2013 18.4\u00d7, 5 pairs of runs");
  study.headline->speedup = ratio(2.05, {}, {}, 1);
  EXPECT_EQ(evidence_words(study), "1 pair of runs");
  study.headline->fastest = 1;
  study.rungs[1].speedup_first = ratio(2.81, 2.7, 2.9);
  study.rungs[1].tokens_per_s.reset();
  EXPECT_EQ(evidence_words(study), "95 % confidence interval 2.70\u00d7 \u2013 2.90\u00d7, 5 pairs of runs");
  EXPECT_EQ(change_words(study), "From 100 ms per step (float32) to 50.0 ms (bf16).");
  study.headline.reset();
  EXPECT_EQ(evidence_words(study) + change_words(study), "");
}

TEST(Sentences, HeadTheColumnsOfSpeedups) {
  Study study = made_up::study();
  EXPECT_EQ(vs_previous_words(study.mode), "vs previous");
  EXPECT_EQ(vs_first_words(study), "so far");
  study.headline->first = 1;
  study.headline->planned = 0;
  EXPECT_EQ(vs_first_words(study), "so far, against \u201cbf16\u201d");
  study.mode = Mode::leave_one_out;
  EXPECT_EQ(vs_previous_words(study.mode), "vs everything on");
  EXPECT_EQ(vs_first_words(study), "vs first, against \u201cbf16\u201d");
  EXPECT_EQ(vs_previous_words(Mode::factorial) + vs_previous_words(Mode::sweep), "");
}

TEST(Sentences, TellOfRunsAndIntervals) {
  Study study = made_up::study();
  EXPECT_EQ(runs_words(study), "no runs");
  for (StudyRung& rung : study.rungs) rung.runs_ok = 5;
  EXPECT_EQ(runs_words(study), "median of 5 runs");
  study.rungs[1].runs_ok = 4;
  EXPECT_EQ(runs_words(study), "median of up to 5 runs");
  for (StudyRung& rung : study.rungs) rung.runs_ok = 1;
  EXPECT_EQ(runs_words(study), "a single run");
  EXPECT_EQ(range_words(study.statistics),
            "Ranges are 95 % confidence intervals. A range that includes 1\u00d7 shows no clear difference.");
  EXPECT_EQ(plan_words(study.plan),
            "15 runs planned (5 of each rung), 15 ok; order seed 42. To make them again on the same machine, with "
            "nothing else running:");
}

TEST(Sentences, TellHowTheMfuIsComputedOrWhyThereIsNone) {
  Study study = made_up::study();
  EXPECT_TRUE(mfu_words(study).empty());  // an older study's
  Mfu mfu{.value = {}, .formula = "", .peak_flops = {}, .peak_source = {}, .reason = "there is no table of CPUs"};
  for (StudyRung& rung : study.rungs) rung.mfu = mfu;
  EXPECT_EQ(mfu_words(study), std::vector<std::string>{"No MFU: there is no table of CPUs."});
  mfu = {.value = 0.3,
         .formula = "6 N",
         .type = harness::NumberType::bf16,
         .peak_flops = 989.5e12,
         .peak_source = "datasheet",
         .reason = ""};
  study.rungs[1].mfu = study.rungs[2].mfu = mfu;
  EXPECT_EQ(mfu_words(study), std::vector<std::string>{"MFU: 6 N, 989.5 TFLOP/s (datasheet)."});
}

TEST(Sentences, OfAnotherProgramsRungs) {
  Study study = made_up::study();
  EXPECT_EQ(peer_words(study), "");
  study.rungs[2].peers.emplace().push_back({});
  EXPECT_TRUE(peer_words(study).starts_with("Each row is a rung's recipe, run by a plain PyTorch program"));
}

TEST(Sentences, OfTheFiguresOfARung) {
  StudyRung rung = made_up::rung(1, "bf16", 50);
  rung.runs_ok = 1;
  RungTimes& ms = *rung.ms_per_step;
  ms.q1 = 49.5;
  ms.q3 = 50.5;
  ms.min = 48;
  ms.max = 1234;
  ms.n = 2000;
  const std::string times = "1 run, 2,000 timed steps: quartiles 49.5 and 50.5 ms, min 48.0, max 1,234 ms.";
  EXPECT_EQ(figure_words(rung), times);
  rung.page_faults_per_step = 12;
  rung.skipped_steps = 1;
  rung.joules_per_token = 0.01234;
  EXPECT_EQ(figure_words(rung), times +
                                    " 12 page faults per step. The gradient scaler skipped 1 step. 12.3 mJ of GPU "
                                    "energy per token.");
  lose_number(rung, RungStatus::voided, "losses differ");
  EXPECT_EQ(figure_words(rung), "");
}

TEST(Sentences, ProofsOfARungAreThoseOfWhatItChanges) {
  StudyRung rung = made_up::rung(1, "bf16", 50);
  for (const char* field : {"attention", "autocast"}) {
    rung.proofs.emplace_back();
    rung.proofs.back().field = field;
    rung.proofs.back().passed = true;
  }
  rung.recipe_diff = files::Json::object();
  EXPECT_EQ(own_proofs(rung), (std::vector<size_t>{0, 1}));
  rung.recipe_diff["autocast"] = {"off", "bf16"};
  EXPECT_EQ(own_proofs(rung), std::vector<size_t>{1});
  rung.proofs[0].passed = false;
  EXPECT_EQ(own_proofs(rung), (std::vector<size_t>{0, 1}));
}

TEST(Sentences, WithoutASpeedupItIsSaidWhy) {
  Study study = made_up::study();
  study.headline.reset();
  EXPECT_EQ(headline_words(study), "No valid speedup: no rung could be compared with the reference rung");
  lose_number(study.rungs[1], RungStatus::voided, "losses differ");
  lose_number(study.rungs[2], RungStatus::not_applicable, "needs a GPU");
  EXPECT_EQ(headline_words(study), "No valid speedup: only \u201cfloat32\u201d has a number");
  lose_number(study.rungs[0], RungStatus::not_measured, "comes before the reference");  // which is no fault
  EXPECT_EQ(headline_words(study), "No valid speedup: no rung has a number (void)");
  study.rungs.clear();
  EXPECT_EQ(headline_words(study), "No valid speedup: no rung has a number");
}

TEST(Sentences, RemarksSayWhatNumbersTheseAre) {
  Study study = made_up::study();
  study.finished = "2026-01-01T00:00:00Z";
  EXPECT_EQ(remarks_of(study), std::vector<std::string>{"These are CPU figures; they say nothing about a GPU."});
  study.device.kind = model::Device::cuda;
  EXPECT_TRUE(remarks_of(study).empty());
  study.quick = true;
  study.finished.reset();
  study.plan.runs_ok = 3;
  ASSERT_EQ(remarks_of(study).size(), 2U);
  EXPECT_TRUE(remarks_of(study)[0].starts_with("A quick look: two repeats of a few rungs."));
  EXPECT_EQ(remarks_of(study)[1], "Unfinished: 3 of 15 planned runs are in.");
}

TEST(Sentences, TellWhichRungsWorkAtThePowerLimit) {
  Study study = made_up::study();
  study.device.kind = model::Device::cuda;
  study.finished = "2026-01-01T00:00:00Z";
  study.rungs[0].clock = RungClock{.sm_mhz = 1980, .highest_mhz = 1980, .at_power_limit = 0};
  study.rungs[1].clock = RungClock{.sm_mhz = 1965, .highest_mhz = 1980, .at_power_limit = 0.8};
  study.rungs[2].clock = RungClock{.sm_mhz = 1785, .highest_mhz = 1890, .at_power_limit = 1};
  EXPECT_EQ(clock_words(study, study.rungs[0]), "");
  EXPECT_EQ(clock_words(study, study.rungs[2]), "1,785 of 1,980 MHz");
  EXPECT_EQ(
      remarks_of(study),
      std::vector<std::string>{"2 rungs work at the GPU's power limit, which lowers the SM clock: \u201cflash\u201d "
                               "at 1,785 of 1,980 MHz. No run is disturbed by it."});
}

TEST(Sentences, OfTheWorthsOfAMode) {
  EXPECT_TRUE(worth_words(Mode::leave_one_out).starts_with("What is lost without each optimization: "));
  EXPECT_TRUE(worth_words(Mode::one_at_a_time).starts_with("What each optimization brings alone: "));
  EXPECT_NE(worth_words(Mode::factorial).find("Shapley"), std::string::npos);
  EXPECT_EQ(worth_words(Mode::cumulative) + worth_words(Mode::sweep), "");
  Study study = made_up::study();
  using Methods = std::map<std::string, std::string>;
  EXPECT_EQ(method_words(study), (Methods{{"cumulative", "in the ladder's order"}}));
  study.mode = Mode::factorial;
  study.attribution.emplace().emplace_back().method = Method::shapley;
  EXPECT_EQ(method_words(study), (Methods{{"shapley", "averaged over all orders (Shapley)"}}));
}

TEST(Sentences, MethodsHaveTheOneOfTheModeAlsoWithoutAWorth) {
  Study study = made_up::study();
  study.attribution.reset();
  EXPECT_TRUE(method_words(study).contains("cumulative"));
  study.mode = Mode::leave_one_out;
  EXPECT_EQ(method_words(study).at("leave_one_out"), "on top of all others (leave-one-out)");
}

TEST(Sentences, OfThePartsOfMemory) {
  Study study = made_up::study();
  const auto says = [&](const char* part) { return memory_words(study).find(part) != std::string::npos; };
  EXPECT_EQ(memory_words(study), "");
  study.rungs[1].memory.emplace().peak_source = "resident set";
  EXPECT_EQ(memory_words(study), "Peak: the largest of the runs (resident set).");
  study.rungs[0].memory.emplace().peak_source = "allocator";
  EXPECT_TRUE(says("(allocator, resident set)")) << memory_words(study);
  study.rungs[1].memory->weights_bytes = 1;
  EXPECT_TRUE(says("in the first run; other: the rest")) << memory_words(study);
  study.rungs[1].memory->activations_bytes = 1;
  EXPECT_TRUE(says("run; activations: what the forward pass")) << memory_words(study);
  EXPECT_FALSE(says("did not count apart"));
  study.rungs[1].recipe["autocast"] = "bf16";
  EXPECT_TRUE(says("which these runs did not count apart"));
  study.rungs[1].memory->weight_copies_bytes = 0;
  EXPECT_FALSE(says("did not count apart"));
  EXPECT_TRUE(says("run; 16-bit weights: autocast's copies, ")) << memory_words(study);
  EXPECT_TRUE(says("activations: what else the forward pass"));
}

TEST(Sentences, HowToReadTellsOnlyWhatThePageHas) {
  Study study = made_up::study();
  const auto words_of = [&](const std::string& term) {
    const std::vector<Term> terms = how_to_read(study);
    const auto found = std::ranges::find(terms, term, &Term::term);
    return found == terms.end() ? std::string() : found->words;
  };
  EXPECT_NE(words_of("A run").find("5 warm-up steps, then 20 timed."), std::string::npos);
  EXPECT_EQ(words_of("The number"), "of a rung is: the median.");
  EXPECT_TRUE(words_of("The interval").starts_with("(95 % confidence) is: a bootstrap.")) << words_of("The interval");
  EXPECT_NE(words_of("The interval").find("about 5 in 100 show"), std::string::npos);
  EXPECT_EQ(words_of("The worth"), "");
  EXPECT_EQ(words_of("Went and came"), "");
  study.statistics.attribution = "means of Shapley values";
  study.rungs[1].explanation = "went: a kernel";
  EXPECT_NE(words_of("The worth").find("means of Shapley values (L. S. Shapley, 1953)"), std::string::npos);
  EXPECT_NE(words_of("Went and came"), "");
}

}  // namespace sentences_test
