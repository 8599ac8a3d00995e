// What is said of a claim, with no study, with one of another device, and with one that agrees or does not.
#include "ablations/report/claims.h"

#include "ablations/techniques/techniques.h"
#include "tests/ablations/planted_study.h"

#include <gtest/gtest.h>

namespace claims_test {

using namespace ablations;
using model::Device;

Seen seen(double ratio, double lo, double hi, Device kind = Device::cuda) {
  return {.device = "A device",
          .shape = "B=1 T=8",
          .kind = kind,
          .ratio = ratio,
          .lo = lo,
          .hi = hi,
          .activations = Seen::Bytes{.below = 4 << 20, .own = 2 << 20},
          .peak = Seen::Bytes{.below = 3 << 20, .own = 3 << 20}};
}

Claim of(Claim::About about, double least, double most) {
  return {.claim = "faster", .source = "a test", .about = about, .least = least, .most = most};
}

std::string words(const Claim& claim, const std::vector<Seen>& list) { return checked(claim, "bf16", list).words; }

TEST(Claims, AreMeasuredOnTheirOwnKindOfDeviceOnly) {
  const Claim claim = of(Claim::About::step, 1.5, 2);
  EXPECT_EQ(checked(claim, "bf16", {}).standing, Standing::not_measured);
  EXPECT_EQ(checked(claim, "bf16", {seen(1.7, 1.6, 1.8, Device::cpu)}).standing, Standing::not_measured);
  EXPECT_EQ(checked(claim, "bf16", {seen(1.7, 1.6, 1.8)}).standing, Standing::measured);
  EXPECT_EQ(words(claim, {}), "`ladder ablate --ladder gpt2` measures it on a GPU.");
}

TEST(Claims, StandBesideTheInterval) {
  const Claim claim = of(Claim::About::step, 1.5, 2);
  EXPECT_EQ(words(claim, {seen(1.4, 1.3, 1.5)}), "A device: 1.40x [1.30-1.50], as claimed.");
  EXPECT_EQ(words(claim, {seen(1.2, 1.1, 1.3)}), "A device: 1.20x [1.10-1.30], less than claimed.");
  EXPECT_EQ(words(claim, {seen(2.2, 2.1, 2.3)}), "A device: 2.20x [2.10-2.30], more than claimed.");
  EXPECT_EQ(words(claim, {seen(0.8, 0.7, 0.9)}), "A device: 0.80x [0.70-0.90], slower, not faster.");
  Seen once = seen(1.7, 0, 0);
  once.lo = once.hi = std::nullopt;
  EXPECT_EQ(words(claim, {once}), "A device: 1.70x (no interval).");
}

TEST(Claims, OfMemoryStandBesideMemory) {
  EXPECT_EQ(words(of(Claim::About::activations, 2, 2), {seen(1, 1, 1)}), "A device: 4 -> 2 MiB, as claimed.");
  EXPECT_EQ(words(of(Claim::About::peak, 1.3, 1.3), {seen(1, 1, 1)}), "A device: 3 -> 3 MiB, less than claimed.");
  Seen unknown = seen(1, 1, 1);
  unknown.peak = std::nullopt;
  EXPECT_EQ(checked(of(Claim::About::peak, 1.3, 1.3), "bf16", {unknown}).standing, Standing::not_measured);
}

TEST(Claims, OfABatchStandBesideItsTime) {
  const Claim claim = of(Claim::About::batch, 90, 100);
  EXPECT_EQ(checked(claim, "gather", {seen(1, 1, 1)}).standing, Standing::not_measured) << "it is not about batches";
  Seen about = seen(1, 1, 1);
  about.batch = Seen::Milliseconds{.below = 4.8, .own = 0.05};
  EXPECT_EQ(words(claim, {about}), "A device: 4.8 -> 0.05 ms, as claimed.");
  about.batch->own = 0.4;
  EXPECT_EQ(words(claim, {about}), "A device: 4.8 -> 0.4 ms, less than claimed.");
}

TEST(Claims, ThatCannotBeSoAreContradictedWhateverIsMeasured) {
  Claim claim = of(Claim::About::step, 1.5, 2);
  claim.wrong = "Because.";
  EXPECT_EQ(checked(claim, "bf16", {seen(1.7, 1.6, 1.8)}).standing, Standing::contradicted);
  EXPECT_EQ(words(claim, {}), "Because.");
}

class ClaimsOfAStudy : public planted::PlantedStudy {};

TEST_F(ClaimsOfAStudy, AreLookedUpByTheOptimizationsName) {
  const Study made = analyse(plan_, folder_);
  const std::optional<Seen> bf16 = seen_in(made, "bf16");
  ASSERT_TRUE(bf16);
  EXPECT_NEAR(bf16->ratio, 2, 1e-9);
  EXPECT_FALSE(seen_in(made, "flash"));
  Study other = made;
  other.mode = Mode::leave_one_out;
  EXPECT_FALSE(seen_in(other, "bf16"));
  other = made;
  for (StudyRung& rung : other.rungs) {
    if (rung.optimization == "bf16") rung.status = RungStatus::unproven;
  }
  EXPECT_FALSE(seen_in(other, "bf16"));
}

TEST(Claims, SayWhoAndWhatAndHowToMeasureIt) {
  for (const Optimization& optimization : optimizations()) {
    EXPECT_FALSE(optimization.claims.empty()) << optimization.name;
    for (const Claim& claim : optimization.claims) {
      EXPECT_FALSE(claim.claim.empty() || claim.source.empty()) << optimization.name;
      EXPECT_EQ(claim.about != Claim::About::other, claim.least > 0) << optimization.name << ": " << claim.claim;
      EXPECT_LE(claim.least, claim.most) << optimization.name << ": " << claim.claim;
      EXPECT_FALSE(checked(claim, optimization.name, {}).words.empty()) << optimization.name << ": " << claim.claim;
    }
  }
}

TEST(Claims, ThePageHasEveryClaimInARowOfATable) {
  const std::string page = claims_page({});
  for (const Optimization& optimization : optimizations()) {
    for (const Claim& claim : optimization.claims) {
      EXPECT_NE(page.find("| " + claim.claim + " | " + claim.source + " | **"), std::string::npos) << claim.claim;
    }
  }
}

}  // namespace claims_test
