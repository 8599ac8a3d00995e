#include "harness/stats/change_points.h"

#include "harness/stats/stats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>

namespace harness {
namespace {

constexpr size_t shortest = 3;  // values of one level
constexpr size_t least_permutations = 999;

// Clips to three standard deviations around the median, from the median absolute deviation. Then subtracts the mean.
std::vector<double> clipped(std::span<const double> values) {
  const double center = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - center));
  const double deviation = 1.4826 * median(distances);
  std::vector<double> result(values.begin(), values.end());
  if (deviation > 0) {
    for (double& value : result) value = std::clamp(value, center - 3 * deviation, center + 3 * deviation);
  }
  const double mean = std::accumulate(result.begin(), result.end(), 0.0) / static_cast<double>(result.size());
  for (double& value : result) value -= mean;
  return result;
}

struct Stretch {
  size_t begin = 0, end = 0;  // begin 0: a split at `end`
  double score = 0;
};

// The stretch that differs most from the rest. Its score is its sum of squares between, in units of the variance. A
// stretch that does not begin the series has a second end, which costs `penalty`. `values` are centred.
Stretch most_different(std::span<const double> values, double variance, double penalty) {
  const size_t n = values.size();
  std::vector<double> sums(n + 1, 0.0);
  std::partial_sum(values.begin(), values.end(), sums.begin() + 1);
  Stretch best;
  const auto consider = [&](size_t begin, size_t end, double cost) {
    const auto inside = static_cast<double>(end - begin), all = static_cast<double>(n);
    const double sum = sums[end] - sums[begin];
    const double score = sum * sum * all / (inside * (all - inside)) / variance - cost;
    if (score > best.score) best = {begin, end, score};
  };
  for (size_t end = shortest; end + shortest <= n; ++end) consider(0, end, 0);
  for (size_t begin = shortest; begin + 2 * shortest <= n; ++begin) {
    for (size_t end = begin + shortest; end + shortest <= n; ++end) consider(begin, end, penalty);
  }
  return best;
}

// Adds the steps of `values` to `steps`, index and p. The first value stands at `offset`.
void segment(std::span<const double> values, size_t offset, size_t permutations, std::map<size_t, double>& steps) {
  const size_t n = values.size();
  if (n < 2 * shortest) return;
  std::vector<double> shuffled = clipped(values);
  double variance = 0;
  for (const double value : shuffled) variance += value * value / static_cast<double>(n - 1);
  if (variance <= 0) return;
  const double penalty = 2 * std::log(static_cast<double>(n));
  const Stretch found = most_different(shuffled, variance, penalty);
  if (found.end == 0) return;
  std::mt19937_64 random(20240520);
  size_t as_large = 0;
  const auto outcomes = static_cast<double>(permutations + 1);
  for (size_t i = 0; i < permutations; ++i) {
    for (size_t k = n - 1; k > 0; --k) std::swap(shuffled[k], shuffled[random() % (k + 1)]);
    // Rounding must not make a permutation of equal score a smaller one.
    as_large += most_different(shuffled, variance, penalty).score >= found.score * (1 - 1e-9) ? 1U : 0U;
    if (static_cast<double>(as_large + 1) > false_steps * outcomes) return;
  }
  const double p = static_cast<double>(as_large + 1) / outcomes;
  for (const size_t at : {found.begin, found.end}) {
    if (at > 0) steps[offset + at] = p;
  }
  for (const auto& [begin, end] : {std::pair{size_t{0}, found.begin}, {found.begin, found.end}, {found.end, n}}) {
    segment(values.subspan(begin, end - begin), offset + begin, permutations, steps);
  }
}

// A drift; values are compared only within their level, [bounds[k], bounds[k + 1]). None where the test finds none.
std::optional<Drift> trend(std::span<const double> values, std::span<const size_t> bounds) {
  double sum_of_signs = 0, variance = 0;
  size_t longest = 0, apart = 0;
  std::vector<double> slopes;
  for (size_t k = 0; k + 1 < bounds.size(); ++k) {
    const std::span<const double> level = values.subspan(bounds[k], bounds[k + 1] - bounds[k]);
    const auto m = static_cast<double>(level.size());
    std::map<double, double> equal;
    for (size_t j = 0; j < level.size(); ++j) {
      ++equal[level[j]];
      for (size_t i = 0; i < j; ++i) {
        sum_of_signs += level[j] > level[i] ? 1 : level[j] < level[i] ? -1 : 0;
        slopes.push_back((level[j] - level[i]) / static_cast<double>(j - i));
      }
    }
    variance += m * (m - 1) * (2 * m + 5) / 18;
    for (const auto& [value, t] : equal) variance -= t * (t - 1) * (2 * t + 5) / 18;
    longest = std::max(longest, level.size());
    apart += level.size() - 1;
  }
  if (longest < least_for_drift || variance <= 0 || sum_of_signs == 0) return std::nullopt;
  const double z = (std::abs(sum_of_signs) - 1) / std::sqrt(variance);
  const double p = std::erfc(z / std::sqrt(2.0));
  const double slope = median(slopes);
  if (p > false_drifts || slope == 0) return std::nullopt;
  return Drift{.per_value = slope, .total = slope * static_cast<double>(apart), .p = p};
}

// The level of each value. In each stretch it is a line of that slope (0: no drift), with as many values above as
// below.
std::vector<double> levels(std::span<const double> values, std::span<const size_t> bounds, double slope) {
  std::vector<double> result;
  for (size_t k = 0; k + 1 < bounds.size(); ++k) {
    std::vector<double> start;
    for (size_t i = bounds[k]; i < bounds[k + 1]; ++i)
      start.push_back(values[i] - slope * static_cast<double>(i - bounds[k]));
    const double first = median(start);
    for (size_t i = bounds[k]; i < bounds[k + 1]; ++i)
      result.push_back(first + slope * static_cast<double>(i - bounds[k]));
  }
  return result;
}

// The BIC of a fit with `parameters`, for residuals with Laplace's distribution. Smaller is better.
double bic(std::span<const double> values, std::span<const double> fitted, size_t parameters) {
  const auto n = static_cast<double>(values.size());
  double sum = 1e-12;  // a perfect fit has no logarithm
  for (size_t i = 0; i < values.size(); ++i) sum += std::abs(values[i] - fitted[i]);
  return 2 * n * std::log(sum / n) + static_cast<double>(parameters) * std::log(n);
}

}  // namespace

Changes find_changes(std::span<const double> values, size_t judged_together) {
  const size_t n = values.size();
  const std::vector<size_t> whole{0, n};
  std::map<size_t, double> found;
  const auto for_all = static_cast<size_t>(std::ceil(static_cast<double>(judged_together) / false_steps));
  if (n >= least_for_steps) segment(values, 0, std::max(least_permutations, for_all), found);
  const std::optional<Drift> line = trend(values, whole);
  if (line) {
    std::vector<size_t> bounds{0};
    for (const auto& [at, p] : found) bounds.push_back(at);
    bounds.push_back(n);
    const std::vector<double> straight = levels(values, whole, line->per_value);
    if (found.empty() || bic(values, straight, 2) < bic(values, levels(values, bounds, 0), 1 + 2 * found.size())) {
      return {.steps = {}, .drift = line, .level = straight};
    }
  }
  Changes changes;
  std::vector<size_t> bounds{0};
  for (const auto& [at, p] : found) bounds.push_back(at);
  bounds.push_back(n);
  if (!found.empty()) changes.drift = trend(values, bounds);
  changes.level = levels(values, bounds, changes.drift ? changes.drift->per_value : 0);
  for (const auto& [at, p] : found)
    changes.steps.push_back({.at = at, .change = changes.level[at] - changes.level[at - 1], .p = p});
  return changes;
}

}  // namespace harness
