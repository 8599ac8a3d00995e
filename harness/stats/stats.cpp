#include "harness/stats/stats.h"

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
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

// Student's half width of an interval about `center`, with the standard error that `statistic` has over resamples.
template <class Statistic>
double half_width(std::span<const double> values, double center, Statistic statistic) {
  const size_t n = values.size();
  constexpr int resamples = 2000;
  std::mt19937_64 random(20240520);
  std::vector<double> sample(n);
  double sum = 0, sum_of_squares = 0;
  for (int i = 0; i < resamples; ++i) {
    for (double& value : sample) value = values[random() % n] - center;
    const double resampled = statistic(sample);
    sum += resampled;
    sum_of_squares += resampled * resampled;
  }
  const double mean = sum / resamples;
  const double variance = std::max(0.0, sum_of_squares / resamples - mean * mean);
  const double small_sample = static_cast<double>(n) / static_cast<double>(n - 1);
  const boost::math::students_t t(static_cast<double>(n - 1));
  return boost::math::quantile(t, 0.5 + confidence / 2) * std::sqrt(small_sample * variance);
}

// center +- t_{n-1} s factor, s the standard deviation of `values`.
Estimate about(double center, std::span<const double> values, double factor) {
  Estimate estimate{.center = center, .interval = std::nullopt, .n = static_cast<int64_t>(values.size())};
  if (values.size() < 2) return estimate;
  const boost::math::students_t t(static_cast<double>(values.size() - 1));
  const double half = boost::math::quantile(t, 0.5 + confidence / 2) * moments(values).deviation * factor;
  estimate.interval = Interval{center - half, center + half};
  return estimate;
}

// The estimate of x from `estimate`, the one of ln x.
Estimate exp_of(Estimate estimate) {
  estimate.center = std::exp(estimate.center);
  if (estimate.interval) estimate.interval = Interval{std::exp(estimate.interval->lo), std::exp(estimate.interval->hi)};
  return estimate;
}

// Averages of all pairs, each value with itself too, sorted.
std::vector<double> walsh_averages(std::span<const double> values) {
  std::vector<double> averages;
  averages.reserve(values.size() * (values.size() + 1) / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i; j < values.size(); ++j) averages.push_back((values[i] + values[j]) / 2);
  }
  std::sort(averages.begin(), averages.end());
  return averages;
}

// How many of the smallest Walsh averages of n values lie below an interval that misses with probability `tail` on
// either side. It is the number of sums w with P(W <= w) <= tail, W the signed-rank statistic. 0: there is no such
// interval. Beyond 1000 values, where 2^-n is no double any more, it is W's normal approximation.
size_t averages_cut_off(size_t n, double tail) {
  if (n > 1000) {
    const auto m = static_cast<double>(n);
    const double sd = std::sqrt(m * (m + 1) * (2 * m + 1) / 24);
    return static_cast<size_t>(m * (m + 1) / 4 + boost::math::quantile(boost::math::normal(), tail) * sd);
  }
  // Kept, because a noise floor simulates thousands of studies of as many runs.
  thread_local struct {
    size_t n = 0, cut = 0;
    double tail = 0;
  } last;
  if (last.n == n && last.tail == tail) return last.cut;
  std::vector<double> ways(n * (n + 1) / 2 + 1, 0.0);  // of the ranks 1..n to sum up to w, over 2^n
  ways[0] = std::ldexp(1.0, -static_cast<int>(n));
  for (size_t rank = 1; rank <= n; ++rank) {
    for (size_t sum = ways.size(); sum-- > rank;) ways[sum] += ways[sum - rank];
  }
  size_t cut = 0;
  for (double below = ways[0]; below <= tail; below += ways[cut]) ++cut;
  last = {.n = n, .cut = cut, .tail = tail};
  return cut;
}

}  // namespace

double quantile(std::span<const double> values, double p) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted_quantile(sorted, p);
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

Moments moments(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / (n - 1))};
}

Estimate median_with_interval(std::span<const double> values) {
  Estimate estimate{.center = median(values), .interval = std::nullopt, .n = static_cast<int64_t>(values.size())};
  if (values.size() < 2) return estimate;
  std::vector<double> logarithms;
  for (const double value : values) logarithms.push_back(std::log(value));
  const double factor = std::exp(
      half_width(logarithms, median(logarithms), [](std::span<const double> sample) { return median(sample); }));
  estimate.interval = Interval{estimate.center / factor, estimate.center * factor};
  return estimate;
}

Estimate symmetric_center(std::span<const double> differences, double level) {
  const std::vector<double> averages = walsh_averages(differences);
  Estimate estimate{.center = sorted_quantile(averages, 0.5),
                    .interval = std::nullopt,
                    .n = static_cast<int64_t>(differences.size())};
  if (differences.size() < 2) return estimate;
  const size_t cut = averages_cut_off(differences.size(), (1 - level) / 2);
  if (cut > 0) {
    estimate.interval = Interval{averages[cut - 1], averages[averages.size() - cut]};
  } else {
    const double half = half_width(differences, estimate.center, [](std::span<const double> sample) {
      return sorted_quantile(walsh_averages(sample), 0.5);
    });
    estimate.interval = Interval{estimate.center - half, estimate.center + half};
  }
  return estimate;
}

Estimate paired_ratio(std::span<const double> before, std::span<const double> after) {
  std::vector<double> logarithms;
  for (size_t i = 0; i < before.size(); ++i) logarithms.push_back(std::log(before[i] / after[i]));
  return exp_of(symmetric_center(logarithms));
}

Estimate unpaired_ratio(std::span<const double> before, std::span<const double> after) {
  const auto logarithms = [](std::span<const double> values) {
    std::vector<double> result;
    for (const double value : values) result.push_back(std::log(value));
    return result;
  };
  const Moments b = moments(logarithms(before)), a = moments(logarithms(after));
  const auto nb = static_cast<double>(before.size()), na = static_cast<double>(after.size());
  Estimate estimate{.center = b.mean - a.mean, .n = std::ssize(before.size() < after.size() ? before : after)};
  if (estimate.n > 1) {
    const double vb = b.deviation * b.deviation / nb, va = a.deviation * a.deviation / na, variance = vb + va;
    const double freedom = variance * variance / (vb * vb / (nb - 1) + va * va / (na - 1));
    double half = 0;
    if (variance > 0) {
      half = boost::math::quantile(boost::math::students_t(freedom), 0.5 + confidence / 2) * std::sqrt(variance);
    }
    estimate.interval = Interval{estimate.center - half, estimate.center + half};
  }
  return exp_of(estimate);
}

double sign_test(int64_t heads, int64_t n) {
  if (n == 0) return 1;
  const boost::math::binomial coins(static_cast<double>(n), 0.5);
  return std::min(1.0, 2 * boost::math::cdf(coins, static_cast<double>(std::min(heads, n - heads))));
}

Estimate mean_with_interval(std::span<const double> values) {
  return about(moments(values).mean, values, 1 / std::sqrt(static_cast<double>(values.size())));
}

Estimate mean_ratio(std::span<const double> logarithms) { return exp_of(mean_with_interval(logarithms)); }

Estimate ratio_to_earlier(double value, std::span<const double> earlier) {
  std::vector<double> logarithms;
  for (const double one : earlier) logarithms.push_back(std::log(one));
  return exp_of(about(std::log(value) - moments(logarithms).mean, logarithms,
                      std::sqrt(1 + 1 / static_cast<double>(earlier.size()))));
}

}  // namespace harness
