#include "harness/stats/sequential.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace harness {
namespace {

// Noise is known from this on: below, nothing can be told to be far out.
constexpr double known_freedom = 8;
// Earlier experiments count for so many degrees of freedom at most, because a machine's noise changes.
constexpr double most_freedom = 200;
// An experiment whose differences vary this many times as much as the known noise is judged by its own.
constexpr double other_noise = 2.5;

// ln E[exp(c w)], w of the chi distribution with `freedom` degrees of freedom, at least 1: by the trapezoid rule on
// both sides of the integrand's peak.
double log_mean_exp_chi(double c, double freedom) {
  const double n = freedom - 1;
  const double peak = (c + std::sqrt(c * c + 4 * n)) / 2;
  const auto log_density = [&](double w) { return (n > 0 ? n * std::log(w) : 0) - w * w / 2 + c * w; };
  constexpr int points = 80;
  constexpr double reach = 6.5;  // beyond it lie less than 1e-9
  const double lo = std::max(1e-12, peak - reach), step = (peak + reach - lo) / points;
  const double highest = log_density(std::max(peak, lo));
  double sum = 0;
  for (int i = 0; i <= points; ++i) {
    sum += std::exp(log_density(lo + step * i) - highest) * (i == 0 || i == points ? 0.5 : 1);
  }
  return highest + std::log(sum * step) - (freedom / 2 - 1) * std::log(2) - std::lgamma(freedom / 2);
}

struct Sums {
  double n = 0, total = 0, squares = 0;  // of the differences
  double freedom = 0;                    // of all squares
  double all_squares = 0;                // with the known noise's
};

std::vector<double> clipped(std::span<const double> values, double about, const PooledNoise& known) {
  std::vector<double> result(values.begin(), values.end());
  if (known.freedom < known_freedom || known.squares <= 0) return result;
  const double limit = far_out * known.deviation();
  for (double& value : result) value = std::clamp(value, about - limit, about + limit);
  return result;
}

// `differences` are from what they are compared with.
Sums sums_of(std::span<const double> differences, const PooledNoise& known) {
  Sums sums{.n = static_cast<double>(differences.size())};
  for (const double value : clipped(differences, 0, known)) {
    sums.total += value;
    sums.squares += value * value;
  }
  const double share = known.freedom > most_freedom ? most_freedom / known.freedom : 1;
  sums.freedom = sums.n + share * known.freedom;
  sums.all_squares = sums.squares + share * known.squares;
  const double own = sums.squares - sums.total * sums.total / sums.n;
  if (known.freedom > 0 && sums.n > 2 && own / (sums.n - 1) > other_noise * known.squares / known.freedom) {
    sums.freedom = sums.n;
    sums.all_squares = sums.squares;
  }
  return sums;
}

double log_evidence(const Sums& sums, double gain) {
  if (sums.freedom < 2) return 0;
  const double place = sums.all_squares > 0 ? sums.total / std::sqrt(sums.all_squares) : 0;
  return -sums.n * gain * gain / 2 + log_mean_exp_chi(gain * place, sums.freedom);
}

std::vector<double> less(std::span<const double> values, double by) {
  std::vector<double> result(values.begin(), values.end());
  for (double& value : result) value -= by;
  return result;
}

// All means that the differences do not speak against: neither for a lower mean nor for a higher one, at half of the
// error each. The evidence falls with the mean that is tried, so each end is found by halving. None: an end is beyond
// e^50.
std::optional<Interval> interval_of(std::span<const double> gains, double center, double gain,
                                    const PooledNoise& known) {
  const double needed = -std::log((1 - confidence) / 2);
  const auto end = [&](double sign) -> std::optional<double> {
    const auto is_excluded = [&](double mean) {
      return log_evidence(less(gains, mean), -sign * gain, known) >= needed;
    };
    double inside = 0, outside = 1e-6;
    while (!is_excluded(center + sign * outside)) {
      if (outside > 50) return std::nullopt;
      inside = outside;
      outside *= 2;
    }
    for (int i = 0; i < 40; ++i) {
      const double middle = (inside + outside) / 2;
      (is_excluded(center + sign * middle) ? outside : inside) = middle;
    }
    return center + sign * outside;
  };
  const std::optional<double> lo = end(-1), hi = end(1);
  return lo && hi ? std::optional(Interval{*lo, *hi}) : std::nullopt;
}

}  // namespace

double PooledNoise::deviation() const {
  return freedom > 0 ? std::sqrt(squares / freedom) : std::numeric_limits<double>::quiet_NaN();
}

void PooledNoise::add(std::span<const double> differences) {
  if (differences.size() < 2) return;
  const std::vector<double> counted = clipped(differences, median(differences), *this);
  const double mean = moments(counted).mean;
  for (const double value : counted) squares += (value - mean) * (value - mean);
  freedom += static_cast<double>(counted.size() - 1);
}

double gain_shown_by(int64_t pairs, double level) {
  // The logarithm of the evidence has a mean of n g^2 / 2 and a deviation of g sqrt(n): nine of ten exceed ln(1/level).
  constexpr double nine_of_ten = 1.2815515655446004;
  return (nine_of_ten + std::sqrt(nine_of_ten * nine_of_ten - 2 * std::log(level))) /
         std::sqrt(static_cast<double>(pairs));
}

double log_evidence(std::span<const double> differences, double gain, const PooledNoise& known) {
  return log_evidence(sums_of(differences, known), gain);
}

Judged judge_experiment(std::span<const double> gains, const ExperimentTerms& terms, const PooledNoise& known) {
  const double gain = gain_shown_by(terms.most_pairs, terms.level);
  const Sums sums = sums_of(less(gains, terms.least_gain), known);
  const double log_for = log_evidence(sums, gain);
  const double log_against = terms.least_gain > 0 ? log_evidence(sums, -gain) : -log_for;
  if (log_for >= -std::log(terms.level)) return {Decision::keep, log_for};
  return {log_against >= -std::log(discard_level) ? Decision::discard : Decision::undecided, log_for};
}

Estimate gain_at_any_look(std::span<const double> gains, const ExperimentTerms& terms, const PooledNoise& known) {
  Estimate estimate = symmetric_center(gains);
  estimate.interval = interval_of(gains, estimate.center, gain_shown_by(terms.most_pairs, terms.level), known);
  return estimate;
}

double level_of_next(double error, size_t before, size_t kept) {
  // These weights add up to 1, and the first hundred to two thirds.
  constexpr double half_way = 50;
  const auto t = static_cast<double>(before);
  return error * half_way / ((half_way + t) * (half_way + t + 1)) * static_cast<double>(kept + 1);
}

}  // namespace harness
