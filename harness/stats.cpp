#include "harness/stats.h"

#include <boost/math/distributions/students_t.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace harness {
namespace {

double sorted_quantile(std::span<const double> sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

// Half the width of the interval of the median of `logarithms`.
double half_width(std::span<const double> logarithms, double confidence) {
  const size_t n = logarithms.size();
  constexpr int resamples = 2000;
  std::mt19937_64 random(20240520);
  std::vector<double> sample(n);
  double sum = 0, sum_of_squares = 0;
  const double center = median(logarithms);
  for (int i = 0; i < resamples; ++i) {
    for (double& value : sample) value = logarithms[random() % n] - center;
    std::sort(sample.begin(), sample.end());
    const double resampled = sorted_quantile(sample, 0.5);
    sum += resampled;
    sum_of_squares += resampled * resampled;
  }
  const double mean = sum / resamples;
  const double variance = std::max(0.0, sum_of_squares / resamples - mean * mean);
  const double small_sample = static_cast<double>(n) / static_cast<double>(n - 1);
  const boost::math::students_t t(static_cast<double>(n - 1));
  return boost::math::quantile(t, 0.5 + confidence / 2) * std::sqrt(small_sample * variance);
}

}  // namespace

double quantile(std::span<const double> values, double p) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted_quantile(sorted, p);
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

Estimate median_with_interval(std::span<const double> values, double confidence) {
  Estimate estimate{.center = median(values), .interval = std::nullopt, .n = static_cast<int64_t>(values.size())};
  if (values.size() < 2) return estimate;
  std::vector<double> logarithms;
  for (const double value : values) logarithms.push_back(std::log(value));
  const double factor = std::exp(half_width(logarithms, confidence));
  estimate.interval = Interval{estimate.center / factor, estimate.center * factor};
  return estimate;
}

Estimate paired_ratio(std::span<const double> before, std::span<const double> after, double confidence) {
  std::vector<double> logarithms;
  for (size_t i = 0; i < before.size(); ++i) logarithms.push_back(std::log(before[i] / after[i]));
  Estimate estimate{
      .center = std::exp(median(logarithms)), .interval = std::nullopt, .n = static_cast<int64_t>(logarithms.size())};
  if (logarithms.size() < 2) return estimate;
  const double factor = std::exp(half_width(logarithms, confidence));
  estimate.interval = Interval{estimate.center / factor, estimate.center * factor};
  return estimate;
}

Estimate mean_ratio(std::span<const double> logarithms, double confidence) {
  const auto n = static_cast<double>(logarithms.size());
  const double mean = std::accumulate(logarithms.begin(), logarithms.end(), 0.0) / n;
  Estimate estimate{.center = std::exp(mean), .interval = std::nullopt, .n = static_cast<int64_t>(logarithms.size())};
  if (logarithms.size() < 2) return estimate;
  double squares = 0;
  for (const double value : logarithms) squares += (value - mean) * (value - mean);
  const boost::math::students_t t(n - 1);
  const double half = boost::math::quantile(t, 0.5 + confidence / 2) * std::sqrt(squares / (n - 1) / n);
  estimate.interval = Interval{std::exp(mean - half), std::exp(mean + half)};
  return estimate;
}

}  // namespace harness
