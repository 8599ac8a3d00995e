#include "harness/stats/verdict.h"

#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <vector>

namespace harness {

Verdict judge(const Estimate& ratio, double min_effect) {
  if (!ratio.interval) return Verdict::inconclusive;
  const double most = 1 + min_effect, least = 1 / most;
  if (ratio.interval->lo > most) return Verdict::regression;
  if (ratio.interval->hi < least) return Verdict::improvement;
  return ratio.interval->lo >= least && ratio.interval->hi <= most ? Verdict::same : Verdict::inconclusive;
}

std::string why_unusable(int64_t pairs, std::optional<double> lo, std::optional<double> hi) {
  if (pairs < fewest_pairs) {
    return fmt::format("{} pair{} of runs, and a verdict needs {}", pairs, pairs == 1 ? "" : "s", fewest_pairs);
  }
  if (lo && hi && *hi < widest_interval * *lo) return "";
  return lo && hi ? fmt::format("the ratio's interval reaches from {:.3g} to {:.3g}", *lo, *hi)
                  : "the ratio has no interval";
}

PairedVerdict compare(std::span<const double> base, std::span<const double> head, double min_effect) {
  PairedVerdict comparison{.ratio = paired_ratio(head, base)};
  for (size_t i = 0; i < base.size(); ++i) {
    comparison.greater += head[i] > base[i] ? 1 : 0;
    comparison.unequal += head[i] != base[i] ? 1 : 0;
  }
  comparison.sign_test = sign_test(comparison.greater, comparison.unequal);
  comparison.verdict = judge(comparison.ratio, min_effect);
  return comparison;
}

bool is_clear_early(std::span<const double> differences, double min_effect) {
  constexpr size_t fewest = 11;
  if (differences.size() < fewest) return false;
  Estimate ratio = symmetric_center(differences, 0.999);
  ratio.center = std::exp(ratio.center);
  ratio.interval = {std::exp(ratio.interval->lo), std::exp(ratio.interval->hi)};
  return judge(ratio, min_effect) != Verdict::inconclusive;
}

double noise_floor(std::span<const double> differences, int64_t pairs) {
  constexpr int studies = 2000;
  std::mt19937_64 random(20240520);
  std::vector<double> sample(static_cast<size_t>(pairs)), lowest;
  for (int i = 0; i < studies; ++i) {
    for (double& value : sample) {
      const double drawn = differences[random() % differences.size()];
      value = (random() & 1U) != 0 ? drawn : -drawn;
    }
    const Estimate estimate = symmetric_center(sample);
    lowest.push_back(estimate.interval ? estimate.interval->lo : -std::abs(estimate.center));
  }
  return std::exp(-quantile(lowest, 0.05)) - 1;
}

double noise_floor_of_sessions(std::span<const double> sessions) {
  const Estimate one_more = ratio_to_earlier(1, sessions);
  const double half = std::log(one_more.interval->hi / one_more.center);
  const boost::math::students_t t(static_cast<double>(sessions.size() - 1));
  // That the next session's deviation, over the sessions' own, is one of Student's, too, makes the 95 % exact.
  return std::exp(half * (1 + boost::math::quantile(t, 0.95) / boost::math::quantile(t, 0.5 + confidence / 2))) - 1;
}

}  // namespace harness
