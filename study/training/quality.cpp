#include "study/training/quality.h"

#include "ablations/plan/make_plan.h"
#include "harness/stats/stats.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace study {

namespace {

using harness::Quality;

// None where a figure of a made-up document is too large to be counted with.
std::optional<OverSeeds> over_seeds(const harness::Estimate& estimate) {
  if (!std::isfinite(estimate.center)) return std::nullopt;
  const bool has_bounds =
      estimate.interval && std::isfinite(estimate.interval->lo) && std::isfinite(estimate.interval->hi);
  return OverSeeds{has_bounds ? bounds(estimate) : Bounds{}, estimate.center};
}

// Of the trainings that ended well, as far as all of them go.
std::vector<LossAt> median_curve(const std::vector<const SeedTraining*>& trainings) {
  std::vector<LossAt> medians;
  if (trainings.empty()) return medians;
  for (size_t i = 0; i < trainings.front()->curve.size(); ++i) {
    std::vector<double> seconds, losses;
    for (const SeedTraining* training : trainings) {
      if (i >= training->curve.size()) return medians;
      seconds.push_back(training->curve[i].seconds);
      losses.push_back(training->curve[i].loss);
    }
    medians.push_back(trainings.front()->curve[i]);
    medians.back().seconds = harness::median(seconds);
    medians.back().loss = harness::median(losses);
  }
  return medians;
}

using BySeed = std::map<uint64_t, const SeedTraining*>;

// Against the reference's trainings that ended well.
void compare_with(const BySeed& reference, const std::vector<const SeedTraining*>& trainings, bool diverged,
                  double margin, RungToLoss& rung) {
  std::vector<double> losses, reference_losses, ratios;
  bool all_reached = true;
  for (const SeedTraining* training : trainings) {
    const auto found = reference.find(training->seed);
    if (found == reference.end()) continue;
    const SeedTraining& other = *found->second;
    losses.push_back(training->curve.back().loss);
    reference_losses.push_back(other.curve.back().loss);
    all_reached = all_reached && training->reached && other.reached;
    if (all_reached) ratios.push_back(std::log(other.reached->seconds / training->reached->seconds));
  }
  if (!losses.empty()) {
    const harness::QualityTest test = harness::test_quality(losses, reference_losses, margin);
    rung.difference = over_seeds(test.difference);
    rung.quality = test.quality;
    if (all_reached) rung.speedup = over_seeds(harness::mean_ratio(ratios));
  }
  if (diverged) rung.quality = Quality::worse;
  rung.counts = rung.speedup && rung.quality == Quality::same;
}

}  // namespace

std::optional<LossReached> reached_at(const std::vector<LossAt>& curve, double loss) {
  const auto at = std::ranges::find_if(curve, [&](const LossAt& one) { return one.loss <= loss; });
  if (at == curve.end()) return std::nullopt;
  if (at == curve.begin()) return LossReached{static_cast<double>(at->step), at->seconds};
  const LossAt& before = *(at - 1);
  const double share = (before.loss - loss) / (before.loss - at->loss);
  return LossReached{std::lerp(static_cast<double>(before.step), static_cast<double>(at->step), share),
                     std::lerp(before.seconds, at->seconds, share)};
}

TimeToLoss with_verdicts(TimeToLoss study) {
  study.reference = reference_rung({study.rungs.begin(), study.rungs.end()});
  for (SeedTraining& training : study.trainings) training.reached = reached_at(training.curve, study.loss);
  BySeed reference;
  for (const SeedTraining& training : study.trainings) {
    if (training.rung == study.reference && training.has_ended()) reference[training.seed] = &training;
  }
  for (size_t i = 0; i < study.rungs.size(); ++i) {
    RungToLoss rung;
    static_cast<Rung&>(rung) = study.rungs[i];
    std::vector<const SeedTraining*> ended;
    bool diverged = false;
    std::vector<double> losses, times;
    for (const SeedTraining& training : study.trainings) {
      if (training.rung != i) continue;
      diverged = diverged || (!training.not_finite.empty() && reference.contains(training.seed));
      if (!training.has_ended()) continue;
      ended.push_back(&training);
      losses.push_back(training.curve.back().loss);
      if (training.reached) times.push_back(std::log(training.reached->seconds));
    }
    rung.medians = median_curve(ended);
    rung.ended = std::ssize(ended);
    rung.reached = std::ssize(times);
    if (!losses.empty()) rung.loss = harness::mean_with_interval(losses).center;
    if (!times.empty() && times.size() == ended.size()) rung.seconds = harness::mean_ratio(times).center;
    if (i != study.reference) compare_with(reference, ended, diverged, study.margin, rung);
    study.rungs[i] = std::move(rung);
  }
  return study;
}

std::optional<double> SpikeWatch::take(double loss) {
  if (!std::isfinite(loss)) return std::nullopt;
  std::optional<double> z;
  if (before_.size() >= spike_least) {
    const auto n = static_cast<double>(before_.size());
    const double mean = std::accumulate(before_.begin(), before_.end(), 0.0) / n;
    double squares = 0;
    for (const double other : before_) squares += (other - mean) * (other - mean);
    z = (loss - mean) / std::max(std::sqrt(squares / (n - 1)), least_deviation);
  }
  before_.push_back(loss);
  if (before_.size() > spike_window) before_.pop_front();
  return z && *z >= spike_z ? z : std::nullopt;
}

}  // namespace study
