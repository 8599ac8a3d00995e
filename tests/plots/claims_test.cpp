// What is said of a claim, with no study, with one of another device, and with one that agrees or does not.
#include "plots/claims.h"

#include "ablations/plan/ladder_file.h"
#include "ablations/techniques/techniques.h"
#include "tests/study/planted_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

namespace claims_test {

using namespace plots;
using model::Device;

Seen seen(double ratio, double lo, double hi, Device kind = Device::cuda) {
  return {.device = "A device",
          .shape = "B=1 T=8",
          .kind = kind,
          .ratio = ratio,
          .lo = lo,
          .hi = hi,
          .below_ms = 170,
          .ms = 100,
          .activations = Seen::Pair<double>{.below = 4 << 20, .own = 2 << 20},
          .peak = Seen::Pair<double>{.below = 3 << 20, .own = 3 << 20}};
}

Claim of(Claim::About about, double least, double most) {
  return {.claim = "faster", .source = {"a test"}, .about = about, .least = least, .most = most};
}

std::string words(const Claim& claim, const std::vector<Seen>& list) { return checked(claim, "bf16", list).words; }

const std::string on_device = "A device, B=1 T=8: ";

TEST(Claims, AreMeasuredOnTheirOwnKindOfDeviceOnly) {
  const Claim claim = of(Claim::About::step, 1.5, 2);
  EXPECT_EQ(checked(claim, "bf16", {}).standing, Standing::not_measured);
  EXPECT_EQ(checked(claim, "bf16", {seen(1.7, 1.6, 1.8, Device::cpu)}).standing, Standing::not_measured);
  EXPECT_EQ(checked(claim, "bf16", {seen(1.7, 1.6, 1.8)}).standing, Standing::measured);
  EXPECT_EQ(words(claim, {}), "`ladder ablate --ladder gpt2` measures it on a GPU.");
}

TEST(Claims, StandBesideTheInterval) {
  const Claim claim = of(Claim::About::step, 1.5, 2);
  EXPECT_EQ(words(claim, {seen(1.4, 1.3, 1.5)}), on_device + "170 -> 100 ms, 1.40x [1.30-1.50], as claimed.");
  EXPECT_EQ(words(claim, {seen(1.2, 1.1, 1.3)}), on_device + "170 -> 100 ms, 1.20x [1.10-1.30], less than claimed.");
  EXPECT_EQ(words(claim, {seen(2.2, 2.1, 2.3)}), on_device + "170 -> 100 ms, 2.20x [2.10-2.30], more than claimed.");
  EXPECT_EQ(words(claim, {seen(0.8, 0.7, 0.9)}), on_device + "170 -> 100 ms, 0.80x [0.70-0.90], slower, not faster.");
  Seen once = seen(1.7, 0, 0);
  once.lo = once.hi = std::nullopt;
  EXPECT_EQ(words(claim, {once}), on_device + "170 -> 100 ms, 1.70x (no interval).");
}

TEST(Claims, OfMemoryStandBesideMemory) {
  EXPECT_EQ(words(of(Claim::About::activations, 2, 2), {seen(1, 1, 1)}), on_device + "4 -> 2 MiB, as claimed.");
  EXPECT_EQ(words(of(Claim::About::peak, 1.3, 1.3), {seen(1, 1, 1)}), on_device + "3 -> 3 MiB, less than claimed.");
  Seen unknown = seen(1, 1, 1);
  unknown.peak = std::nullopt;
  EXPECT_EQ(checked(of(Claim::About::peak, 1.3, 1.3), "bf16", {unknown}).standing, Standing::not_measured);
}

TEST(Claims, OfABatchStandBesideItsTime) {
  const Claim claim = of(Claim::About::batch, 90, 100);
  EXPECT_EQ(checked(claim, "gather", {seen(1, 1, 1)}).standing, Standing::not_measured) << "it is not about batches";
  Seen about = seen(1, 1, 1);
  about.batch = Seen::Pair<double>{.below = 4.8, .own = 0.05};
  EXPECT_EQ(words(claim, {about}), on_device + "4.8 -> 0.05 ms, as claimed.");
  about.batch->own = 0.4;
  EXPECT_EQ(words(claim, {about}), on_device + "4.8 -> 0.4 ms, less than claimed.");
}

TEST(Claims, ThatCannotBeSoAreContradictedWhateverIsMeasured) {
  Claim claim = of(Claim::About::step, 1.5, 2);
  claim.wrong = "Because.";
  EXPECT_EQ(checked(claim, "bf16", {seen(1.7, 1.6, 1.8)}).standing, Standing::contradicted);
  EXPECT_EQ(words(claim, {}), "Because.");
}

TEST(Claims, OfTimesAndKernelsStandBesideTheirFigures) {
  Seen one = seen(1, 1, 1);
  EXPECT_EQ(words(of(Claim::About::milliseconds, 0, 0), {one}), on_device + "100 ms per step.");
  const Claim kernels = of(Claim::About::kernels, 4, 4);
  EXPECT_EQ(checked(kernels, "bf16", {one}).standing, Standing::not_measured);
  one.kernels = Seen::Pair<int64_t>{.below = 400, .own = 200};
  EXPECT_EQ(words(kernels, {one}), on_device + "400 -> 200, less than claimed.");
}

TEST(Claims, ThatNoCommandMeasuresNameNone) {
  Claim claim = of(Claim::About::other, 0, 0);
  claim.command = "";
  claim.note = "It cannot be measured.";
  EXPECT_EQ(words(claim, {}), "It cannot be measured.");
}

class ClaimsOfAStudy : public planted::PlantedStudy {
 protected:
  std::vector<Seen> seen_of_bf16(const Study& study) const { return seen_in(study, "bf16"); }
};

TEST_F(ClaimsOfAStudy, AreLookedUpByTheOptimizationsName) {
  const Study made = analyse(plan_, folder_);
  const std::vector<Seen> bf16 = seen_of_bf16(made);
  ASSERT_EQ(bf16.size(), 1U);
  EXPECT_NEAR(bf16[0].ratio.value_or(0), 2, 1e-9);
  EXPECT_NEAR(bf16[0].below_ms.value_or(0) / bf16[0].ms.value_or(1), 2, 0.1);
  EXPECT_TRUE(bf16[0].shape.starts_with("tiny, bf16, B=1")) << bf16[0].shape;
  EXPECT_TRUE(seen_in(made, "flash").empty());
  Study other = made;
  for (StudyRung& rung : other.rungs) {
    if (rung.optimization == "bf16") rung.status = RungStatus::unproven;
  }
  EXPECT_TRUE(seen_of_bf16(other).empty());
}

TEST_F(ClaimsOfAStudy, TheFirstMeasuredRungHasATimeAndNoRatio) {
  Study study = analyse(plan_, folder_);
  study.rungs[0].status = RungStatus::not_measured;  // as a GPU's ladder leaves out the CPU
  const std::vector<Seen> bf16 = seen_of_bf16(study);
  ASSERT_EQ(bf16.size(), 1U);
  EXPECT_TRUE(bf16[0].ms && !bf16[0].ratio);
}

TEST_F(ClaimsOfAStudy, ALadderCountsUpToTheClaimsLastRung) {
  Study study = analyse(plan_, folder_);
  const auto seen = seen_of_ladder(study, "bf16");
  ASSERT_TRUE(seen);
  EXPECT_NEAR(seen->ratio.value_or(0), 2, 1e-9) << "and not the last rung's";
  EXPECT_FALSE(seen_of_ladder(study, "flash"));
  study.rungs.back().optimization = "bf16";
  study.rungs.at(1).status = RungStatus::unproven;
  study.rungs.back().status = RungStatus::not_measured;
  EXPECT_FALSE(seen_of_ladder(study, "bf16"));
}

TEST_F(ClaimsOfAStudy, OtherModelsAndOlderProgramsAreSaid) {
  Study study = analyse(plan_, folder_);
  EXPECT_TRUE(seen_of_bf16(study).front().shape.starts_with("tiny, "));
  study.workload.model = "gpt2-124m";
  EXPECT_TRUE(seen_of_bf16(study).front().shape.starts_with("bf16, "));
  study.device.kind = Device::cuda;
  study.created = "2026-11-26T10:00:00Z";
  study.rungs.at(1).optimization = "fused_norm";
  EXPECT_TRUE(seen_in(study, "fused_norm").front().shape.ends_with(", an older program"));
  study.created = "2099-01-01T00:00:00Z";
  EXPECT_FALSE(seen_in(study, "fused_norm").front().shape.ends_with(", an older program"));
  study.created = "2026-11-26T10:00:00Z";
  study.device.kind = Device::cpu;
  EXPECT_FALSE(seen_in(study, "fused_norm").front().shape.ends_with(", an older program")) << "its code is the same";
}

// A sweep compares at each size.
TEST_F(ClaimsOfAStudy, ASweepCountsAtEachSize) {
  Study study = analyse(plan_, folder_);
  study.mode = Mode::sweep;
  StudyRung& first = study.rungs[1];
  first.against = 0;
  StudyRung second = first;
  second.workload->T = 2 * first.workload->T;
  study.rungs[2] = second;
  const std::vector<Seen> bf16 = seen_of_bf16(study);
  ASSERT_EQ(bf16.size(), 2U);
  EXPECT_NE(bf16[0].shape, bf16[1].shape);
  EXPECT_TRUE(bf16[1].ratio);
}

TEST_F(ClaimsOfAStudy, OtherModesCountByTheirWorth) {
  Study study = analyse(plan_, folder_);
  study.mode = Mode::factorial;
  Worth worth;
  worth.optimization = "bf16";
  worth.ratio = 1.5;
  worth.lo = 1.4;
  worth.hi = 1.6;
  worth.method = Method::leave_one_out;
  study.attribution = {worth};
  EXPECT_TRUE(seen_of_bf16(study).empty()) << "it is another mode's";
  study.attribution.front().method = Method::shapley;
  const std::vector<Seen> bf16 = seen_of_bf16(study);
  ASSERT_EQ(bf16.size(), 1U);
  EXPECT_EQ(bf16[0].ratio, 1.5);
  EXPECT_TRUE(bf16[0].shape.ends_with("averaged over all orders")) << bf16[0].shape;
}

// Rungs 1 and 2 become PyTorch's, eager and compiled, beside rung 0.
TEST_F(ClaimsOfAStudy, PyTorchCompiledStandsBesideEager) {
  Study study = analyse(plan_, folder_);
  study.rungs[0].peers.emplace();
  for (const auto& [rung, name] : {std::pair(1, "pytorch-eager"), std::pair(2, "pytorch-compile")}) {
    PeerRatio peer;
    peer.peer = name;
    peer.rung = static_cast<size_t>(rung);
    study.rungs[0].peers->push_back(peer);
    study.rungs[rung].peer = name;
  }
  for (const PlannedRun& run : plan_.runs) {
    if (run.rung == 0) continue;
    files::Json record = good(run, 100);
    record["observations"] = {{"compilation", {{"compile_s", run.rung == 2 ? 30.0 + double(run.repeat) : 0.0}}},
                              {"profile", {{"cudaLaunchKernel", 100 / run.rung}, {"cuLaunchKernel", 10}}}};
    write(run, record);
  }
  const std::vector<Seen> compiled = seen_compiled({study, folder_});
  ASSERT_EQ(compiled.size(), 1U);
  EXPECT_NEAR(compiled[0].ratio.value_or(0), 2, 1e-9);
  EXPECT_EQ(compiled[0].compile_s, 32) << "the longest of three";
  ASSERT_TRUE(compiled[0].kernels);
  EXPECT_EQ(compiled[0].kernels->below, 110);
  EXPECT_EQ(compiled[0].kernels->own, 60);
}

TEST(Claims, MicroBenchmarksCountWhatTheProcessorHas) {
  const auto benchmark = [](const std::string& name, double ms) {
    return files::Json{{"name", name + "/manual_time"}, {"real_time", ms}, {"time_unit", "ms"}};
  };
  files::Json micro{
      {"context", {{"cpu", R"({"features":["avx2"],"model":"A CPU"})"}, {"threads", "2"}}},
      {"benchmarks",
       {benchmark("cross_entropy/forward/float32/cpu", 7), benchmark("cross_entropy/backward/float32/cpu", 8),
        benchmark("cross_entropy_in_place/forward/float32/cpu", 7),
        benchmark("cross_entropy_in_place/backward/float32/cpu", 5), benchmark("cross_entropy/forward/bf16/cpu", 7),
        benchmark("cross_entropy_in_place/forward/bf16/cpu", 7), benchmark("cross_entropy/forward/float32/cuda", 0),
        benchmark("batch_loop/64x512/cpu", 4.8), benchmark("batch_gather/64x512/cpu", 0.05)}}};
  std::vector<Seen> loss = seen_alone(micro, *find_optimization("in_place_loss"));
  ASSERT_EQ(loss.size(), 1U) << "neither what was not measured nor what is emulated";
  EXPECT_EQ(loss[0].device, "A CPU, 2 threads, AVX2");
  ASSERT_TRUE(loss[0].alone);
  EXPECT_EQ(loss[0].alone->below, 15);
  EXPECT_EQ(loss[0].alone->own, 12);
  micro["context"]["cpu"] = R"({"features":["avx2","avx512_bf16"],"model":"A CPU"})";
  EXPECT_EQ(seen_alone(micro, *find_optimization("in_place_loss")).size(), 2U);
  const std::vector<Seen> batch = seen_alone(micro, *find_optimization("gather"));
  ASSERT_EQ(batch.size(), 1U);
  EXPECT_FALSE(batch[0].alone);
  EXPECT_EQ(checked(find_optimization("gather")->claims.front(), "gather", batch).standing, Standing::measured);
}

// The word after `flag` in a command; empty: it has none.
std::string word_after(const std::string& command, const std::string& flag) {
  const size_t at = command.find(flag + " ");
  if (at == std::string::npos) return "";
  const size_t begin = at + flag.size() + 1;
  return command.substr(begin, command.find(' ', begin) - begin);
}

TEST(Claims, NameRungsThatTheLadderOfTheirCommandHas) {
  std::vector<Claim> all = other_claims();
  std::ranges::copy(compile_claims(), std::back_inserter(all));
  for (const Optimization& optimization : optimizations())
    std::ranges::copy(optimization.claims, std::back_inserter(all));
  int found = 0;
  for (const Claim& claim : all) {
    const std::string command = claim.command.value_or(""), ladder = word_after(command, "--ladder");
    for (const char* flag : {"--rung", "--diff", "--peer-rung", "--plan"}) {
      const std::string rung = word_after(command, flag);
      if (ladder.empty() || rung.empty()) continue;
      ++found;
      EXPECT_TRUE(std::ranges::count(load_ladder(ladder).rungs, rung) == 1) << command;
    }
  }
  EXPECT_GE(found, 6);
}

TEST(Claims, SayWhoAndWhatAndHowToMeasureIt) {
  for (const Optimization& optimization : optimizations()) {
    for (const Claim& claim : optimization.claims) {
      EXPECT_FALSE(claim.claim.empty() || claim.source.name.empty()) << optimization.name;
      const bool has_size = claim.about != Claim::About::other && claim.about != Claim::About::milliseconds;
      const bool has_note_instead = claim.about == Claim::About::activations && !claim.note.empty();
      EXPECT_TRUE(has_size == (claim.least > 0) || has_note_instead) << optimization.name << ": " << claim.claim;
      EXPECT_LE(claim.least, claim.most) << optimization.name << ": " << claim.claim;
      EXPECT_FALSE(checked(claim, optimization.name, {}).words.empty()) << optimization.name << ": " << claim.claim;
    }
  }
}

TEST(Claims, ThePageHasEveryClaimInARowOfATable) {
  const std::string page = claims_page({});
  for (const Optimization& optimization : optimizations()) {
    for (const Claim& claim : optimization.claims) {
      const ClaimSource& source = claim.source;
      const std::string by = source.url.empty() ? source.name : "[" + source.name + "](" + source.url + ")";
      EXPECT_NE(page.find("| " + claim.claim + " | " + by + " | **"), std::string::npos) << claim.claim;
    }
  }
}

}  // namespace claims_test
