#include "harness/stats.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

namespace harness {
namespace {

double sorted_quantile(std::span<const double> sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

}  // namespace

double quantile(std::span<const double> values, double p) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted_quantile(sorted, p);
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

Estimate median_with_interval(std::span<const double> values, double confidence) {
  const size_t n = values.size();
  Estimate estimate{.center = median(values), .interval = std::nullopt, .n = static_cast<int64_t>(n)};
  if (n < 2) return estimate;

  constexpr int resamples = 10000;
  std::mt19937_64 random(20240520);
  std::vector<double> medians(resamples), sample(n);
  for (double& resampled : medians) {
    for (double& value : sample) value = values[random() % n];
    std::sort(sample.begin(), sample.end());
    resampled = sorted_quantile(sample, 0.5);
  }
  std::sort(medians.begin(), medians.end());

  const boost::math::students_t t(static_cast<double>(n - 1));
  const double widened = std::sqrt(static_cast<double>(n) / static_cast<double>(n - 1)) *
                         boost::math::quantile(t, 0.5 + confidence / 2);
  const double level = boost::math::cdf(boost::math::normal(), -widened);
  estimate.interval = Interval{sorted_quantile(medians, level), sorted_quantile(medians, 1 - level)};
  return estimate;
}

Estimate paired_ratio(std::span<const double> before, std::span<const double> after, double confidence) {
  std::vector<double> logarithms;
  for (size_t i = 0; i < before.size(); ++i) logarithms.push_back(std::log(before[i] / after[i]));
  Estimate estimate = median_with_interval(logarithms, confidence);
  estimate.center = std::exp(estimate.center);
  if (estimate.interval) estimate.interval = Interval{std::exp(estimate.interval->lo), std::exp(estimate.interval->hi)};
  return estimate;
}

}  // namespace harness
