#include "harness/stats/suspects.h"

#include <boost/math/distributions/students_t.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

namespace harness {
namespace {

using Numbers = std::vector<double>;
using Kind = ChangeWay::Kind;

// Before the runs, of one change 0.6. docs/bisect.md shows how often the verdicts of these are right.
constexpr double prior_none = 0.1, prior_one = 0.6, prior_two = 0.2, prior_steps = 0.1;
constexpr double least_variance = 1e-12;            // of the noise: a program may say its times itself
constexpr double tails = 8;                         // degrees of freedom
constexpr std::array walks{1e-4, 1e-2, 1e-1, 1.0};  // variance of the pace's step over the noise's

double dot(const Numbers& a, const Numbers& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }
double sum_of(const Numbers& a) { return std::accumulate(a.begin(), a.end(), 0.0); }

// A small positive definite matrix, by its Cholesky factor.
class Matrix {
 public:
  explicit Matrix(size_t n) : n_(n), values_(n * n) {}
  double& operator()(size_t i, size_t j) { return values_[i * n_ + j]; }
  double operator()(size_t i, size_t j) const { return values_[i * n_ + j]; }

  void factor() {
    for (size_t j = 0; j < n_; ++j) {
      for (size_t i = j; i < n_; ++i) {
        double sum = (*this)(i, j);
        for (size_t k = 0; k < j; ++k) sum -= (*this)(i, k) * (*this)(j, k);
        (*this)(i, j) = i == j ? std::sqrt(sum) : sum / (*this)(j, j);
      }
    }
  }
  // After factor().
  [[nodiscard]] double log_determinant() const {
    double sum = 0;
    for (size_t i = 0; i < n_; ++i) sum += 2 * std::log((*this)(i, i));
    return sum;
  }
  [[nodiscard]] Numbers solved(Numbers b) const {
    for (size_t i = 0; i < n_; ++i) {
      for (size_t k = 0; k < i; ++k) b[i] -= (*this)(i, k) * b[k];
      b[i] /= (*this)(i, i);
    }
    for (size_t i = n_; i-- > 0;) {
      for (size_t k = i + 1; k < n_; ++k) b[i] -= (*this)(k, i) * b[k];
      b[i] /= (*this)(i, i);
    }
    return b;
  }

 private:
  size_t n_;
  Numbers values_;
};

// The pace of the machine given the runs, with the precision of each run and of each step of the walk, in units of the
// noise. Its precision matrix is tridiagonal: L D L'.
struct Pace {
  double walk;
  Numbers of_run, of_step;
  Numbers d = {}, l = {};

  void factor() {
    const size_t n = of_run.size();
    d.assign(n, 0), l.assign(n, 0);
    for (size_t t = 0; t < n; ++t) {
      d[t] = of_run[t] + (t == 0 ? 0 : of_step[t] / walk) + (t + 1 == n ? 0 : of_step[t + 1] / walk);
      if (t == 0) continue;
      l[t] = -of_step[t] / walk / d[t - 1];
      d[t] -= l[t] * l[t] * d[t - 1];
    }
  }
  [[nodiscard]] Numbers smoothed(const Numbers& x) const {
    Numbers p(x.size());
    for (size_t t = 0; t < x.size(); ++t) p[t] = of_run[t] * x[t] - (t == 0 ? 0 : l[t] * p[t - 1]);
    for (size_t t = x.size(); t-- > 0;) p[t] = p[t] / d[t] - (t + 1 == x.size() ? 0 : l[t + 1] * p[t + 1]);
    return p;
  }
};

// The runs as a regression: levels[g][t] is 1 if run t is of a place above the change g, which lies between two
// measured places.
struct Regression {
  Numbers y;
  std::vector<Numbers> levels;
  Numbers width;  // commits of each change
  Numbers pairs;  // of commits of it, at two places
  double total;   // from GOOD to BAD
  double noise2;
};

struct Explained {
  std::vector<ChangeWay> ways;
  double log_evidence = 0, noise2 = 0, pace = 0, pace_step = 0;
  Matrix gram{0};  // of the levels, without the pace
  Numbers with_y;
};

// What a way adds to the levels, for changes of variance 1: columns over the changes.
std::vector<Numbers> columns_of(const ChangeWay& way, const Regression& of) {
  const size_t n = of.width.size();
  const auto unit = [&](size_t g, double x) {
    Numbers column(n);
    column[g] = x;
    return column;
  };
  if (way.kind == Kind::none) return {};
  if (way.kind == Kind::one) return {unit(way.first, 1)};
  if (way.kind == Kind::two && way.first == way.second) return {unit(way.first, std::sqrt(2))};
  if (way.kind == Kind::two) return {unit(way.first, 1), unit(way.second, 1)};
  const double all = sum_of(of.width);
  std::vector<Numbers> columns{of.width};
  for (double& x : columns.front()) x /= all;
  for (size_t g = 0; g < n; ++g) columns.push_back(unit(g, std::sqrt(of.width[g]) / all));
  return columns;
}

struct Weighed {
  double log_likelihood, rest;  // marginal; the sum of squares that the sizes leave
};

// How well a way explains the runs if its sizes have this variance, over the noise's. Fills in the sizes.
Weighed weigh(ChangeWay& way, const Explained& runs, const Regression& of, double yy, double variance) {
  const std::vector<Numbers> columns = columns_of(way, of);
  const size_t n = of.width.size(), r = columns.size();
  Matrix matrix(r);
  Numbers with_y(r);
  for (size_t i = 0; i < r; ++i) {
    with_y[i] = std::sqrt(variance) * dot(columns[i], runs.with_y);
    Numbers product(n);
    for (size_t g = 0; g < n; ++g) {
      if (columns[i][g] == 0) continue;
      for (size_t k = 0; k < n; ++k) product[k] += columns[i][g] * runs.gram(g, k);
    }
    for (size_t j = 0; j <= i; ++j)
      matrix(i, j) = matrix(j, i) = variance * dot(product, columns[j]) + (i == j ? 1 : 0);
  }
  matrix.factor();
  const Numbers z = matrix.solved(with_y);
  way.sizes.assign(n, 0);
  for (size_t i = 0; i < r; ++i) {
    for (size_t g = 0; g < n; ++g) way.sizes[g] += std::sqrt(variance) * columns[i][g] * z[i];
  }
  double moment = 1;  // E[x^2] or E[x^2 y^2] of the sizes, which are normal
  if (r == 1) moment = z[0] * z[0] / runs.noise2 + matrix.solved({1})[0];
  if (r == 2 && way.kind == Kind::two) {
    const Numbers x = matrix.solved({1, 0}), y = matrix.solved({0, 1});
    const double aa = z[0] * z[0] / runs.noise2, bb = z[1] * z[1] / runs.noise2, ab = z[0] * z[1] / runs.noise2;
    moment = (aa + x[0]) * (bb + y[1]) + 4 * ab * x[1] + 2 * x[1] * x[1];
  }
  const auto n_runs = static_cast<double>(of.y.size());
  const double rest = std::max(yy - dot(z, with_y), 0.0) + n_runs * least_variance;
  return {std::log(moment) - matrix.log_determinant() / 2 - (n_runs - 1) / 2 * std::log(rest), rest};
}

// Student's distribution is a mixture of normal ones (Bishop 2006, "Pattern Recognition and Machine Learning", 10.1):
// what a squared deviation adds to the bound on the evidence, at this precision.
double of_tails(double squared, double precision) {
  return precision * squared / 2 - (tails + 1) / 2 * std::log1p(squared / tails);
}

// Alternates between the ways' probabilities and the precisions of runs and of the pace's steps (variational Bayes).
Explained explain(const Regression& of, std::vector<ChangeWay> ways, double walk) {
  constexpr int iterations = 10;
  const size_t runs = of.y.size(), n = of.width.size();
  Pace pace{.walk = walk, .of_run = Numbers(runs, 1), .of_step = Numbers(runs, 1)};
  Explained out{.noise2 = of.noise2};
  double total = of.total;
  Numbers prior;
  for (const ChangeWay& way : ways) prior.push_back(way.probability);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    pace.factor();
    std::vector<Numbers> smooth, rest, heavy;  // of y, then of the levels
    for (size_t i = 0; i <= n; ++i) {
      const Numbers& x = i == 0 ? of.y : of.levels[i - 1];
      smooth.push_back(pace.smoothed(x));
      rest.push_back(x);
      heavy.emplace_back(runs);
      for (size_t t = 0; t < runs; ++t) heavy[i][t] = pace.of_run[t] * (rest[i][t] -= smooth[i][t]);
    }
    out.gram = Matrix(n);
    out.with_y.resize(n);
    for (size_t g = 0; g < n; ++g) {
      out.with_y[g] = dot(heavy[g + 1], of.y);
      for (size_t h = 0; h < n; ++h) out.gram(g, h) = dot(heavy[g + 1], of.levels[h]);
    }
    // Changes of half of the whole are usual, or as small as half of the noise.
    const double variance = std::max(total * total / out.noise2, 1.0) / 4;
    double best = -INFINITY, sum = 0, noise2 = 0;
    Numbers left;
    for (size_t i = 0; i < ways.size(); ++i) {
      const Weighed weighed = weigh(ways[i], out, of, dot(heavy[0], of.y), variance);
      ways[i].probability = std::log(prior[i]) + weighed.log_likelihood;
      left.push_back(weighed.rest / static_cast<double>(runs - 1));
      best = std::max(best, ways[i].probability);
    }
    for (ChangeWay& way : ways) sum += way.probability = std::exp(way.probability - best);
    total = 0;
    for (size_t i = 0; i < ways.size(); ++i) {
      ways[i].probability /= sum;
      noise2 += ways[i].probability * left[i];
      total += ways[i].probability * sum_of(ways[i].sizes);
    }
    out.noise2 = noise2;
    // Squared deviations over the noise: first by what is not known of the pace, then by the ways' fits.
    Numbers of_run(runs), of_step(runs);
    for (size_t t = runs; t-- > 0;) {
      const double ahead = t + 1 < runs ? pace.l[t + 1] : 0, after = t + 1 < runs ? of_run[t + 1] : 0;
      of_run[t] = 1 / pace.d[t] + ahead * ahead * after;
      if (t + 1 < runs) of_step[t + 1] = (of_run[t] + after + 2 * ahead * after) / walk;
    }
    out.pace = of_run.back() * noise2;
    for (ChangeWay& way : ways) {
      const bool counts = way.probability > 1e-4;
      for (size_t t = counts ? 0 : runs - 1; t < runs; ++t) {
        double r = rest[0][t], p = smooth[0][t];
        for (size_t g = 0; g < n; ++g) r -= way.sizes[g] * rest[g + 1][t], p -= way.sizes[g] * smooth[g + 1][t];
        const double step = p - std::exchange(way.pace, p);
        if (counts) of_run[t] += way.probability * r * r / noise2;
        if (counts && t > 0) of_step[t] += way.probability * step * step / walk / noise2;
      }
    }
    out.log_evidence = best + std::log(sum);
    for (size_t t = 0; t < runs; ++t) {
      out.log_evidence += of_tails(of_run[t], pace.of_run[t]) - std::log(pace.d[t]) / 2;
      pace.of_run[t] = (tails + 1) / (tails + of_run[t]);
      if (t == 0) continue;
      out.log_evidence += of_tails(of_step[t], pace.of_step[t]) - std::log(walk) / 2;
      pace.of_step[t] = (tails + 1) / (tails + of_step[t]);
    }
  }
  out.ways = std::move(ways);
  out.pace_step = walk * out.noise2;
  return out;
}

Regression regression_of(std::span<const PlaceTime> runs, std::span<const double> weights,
                         const std::vector<size_t>& measured) {
  Regression of;
  for (const PlaceTime& run : runs) of.y.push_back(run.log_time);
  const double middle = median(of.y);
  for (double& y : of.y) y -= middle;
  for (size_t g = 0; g + 1 < measured.size(); ++g) {
    of.levels.emplace_back();
    for (const PlaceTime& run : runs) of.levels.back().push_back(run.place > measured[g] ? 1 : 0);
    const Numbers commits(&weights[measured[g] + 1], &weights[measured[g + 1]] + 1);
    of.width.push_back(sum_of(commits));
    of.pairs.push_back((of.width[g] * of.width[g] - dot(commits, commits)) / 2);
  }
  Numbers ends[2], apart;
  for (size_t t = 0; t < runs.size(); ++t) {
    if (runs[t].place == 0 || runs[t].place == measured.back()) ends[runs[t].place == 0 ? 0 : 1].push_back(of.y[t]);
  }
  for (const Numbers& end : ends) {
    for (const double y : end) apart.push_back(std::abs(y - median(end)));
  }
  of.total = median(ends[1]) - median(ends[0]);
  of.noise2 = std::max(std::pow(1.5 * median(apart), 2), least_variance);
  return of;
}

std::vector<ChangeWay> all_ways(const Regression& of) {
  const Numbers& width = of.width;
  const double all = sum_of(width), pairs = std::max(all * (all - 1) / 2, 1.0);
  std::vector<ChangeWay> ways{{.kind = Kind::none, .probability = prior_none}};
  if (all > 2) ways.push_back({.kind = Kind::steps, .probability = prior_steps});
  for (size_t g = 0; g < width.size(); ++g) {
    ways.push_back({.kind = Kind::one, .probability = prior_one * width[g] / all, .first = g, .second = g});
    for (size_t h = g; h < width.size(); ++h) {
      const double here = g == h ? of.pairs[g] : width[g] * width[h];
      if (here > 0)
        ways.push_back({.kind = Kind::two, .probability = prior_two * here / pairs, .first = g, .second = h});
    }
  }
  return ways;
}

// By the runs alone, for the changes `at`, one or two. With Student's noise a run tells (tails + 1) / (tails + 3) of
// what its precision says (Lange, Little and Taylor 1989, "Robust statistical modeling using the t distribution").
std::vector<PlaceChange> sized(const std::vector<size_t>& at, const Explained& by, size_t runs) {
  Matrix gram(at.size());
  Numbers with_y;
  for (size_t i = 0; i < at.size(); ++i) {
    with_y.push_back(by.with_y[at[i]]);
    for (size_t j = 0; j < at.size(); ++j) gram(i, j) = by.gram(at[i], at[j]);
  }
  gram.factor();
  const Numbers sizes = gram.solved(with_y);
  const boost::math::students_t t(static_cast<double>(runs - 1 - at.size()));
  std::vector<PlaceChange> changes;
  for (size_t i = 0; i < at.size(); ++i) {
    Numbers unit(at.size());
    unit[i] = 1;
    const double variance = by.noise2 * gram.solved(unit)[i] * (tails + 3) / (tails + 1);
    const double half = boost::math::quantile(t, 0.5 + confidence / 2) * std::sqrt(variance);
    changes.push_back({.place = 0, .size = sizes[i], .interval = {sizes[i] - half, sizes[i] + half}});
  }
  return changes;
}

}  // namespace

Suspects suspects_of(std::span<const PlaceTime> runs, std::span<const double> weights) {
  std::set<size_t> places;
  for (const PlaceTime& run : runs) places.insert(run.place);
  Suspects out{.one = Numbers(weights.size()), .measured = {places.begin(), places.end()}};
  const Regression of = regression_of(runs, weights, out.measured);
  std::vector<Explained> by_walk;
  for (const double walk : walks) by_walk.push_back(explain(of, all_ways(of), walk));
  const Explained& best = *std::ranges::max_element(by_walk, {}, &Explained::log_evidence);
  double sum = 0;
  for (const Explained& by : by_walk) sum += std::exp(by.log_evidence - best.log_evidence);
  out.ways = best.ways;
  out.noise = std::sqrt(best.noise2);
  out.pace = best.pace;
  out.pace_step = best.pace_step;
  // Of a change between measured places, the place with most commits.
  const auto likeliest = [&](size_t g) {
    const auto begin = weights.begin() + static_cast<std::ptrdiff_t>(out.measured[g]) + 1;
    const auto end = weights.begin() + static_cast<std::ptrdiff_t>(out.measured[g + 1]) + 1;
    return static_cast<size_t>(std::max_element(begin, end) - weights.begin());
  };
  double most = 0;
  for (size_t i = 0; i < out.ways.size(); ++i) {
    ChangeWay& way = out.ways[i];
    way.probability = 0;
    for (const Explained& by : by_walk) {
      way.probability += by.ways[i].probability * std::exp(by.log_evidence - best.log_evidence) / sum;
    }
    if (way.kind == Kind::none) out.none = way.probability;
    if (way.kind == Kind::steps) out.steps = way.probability;
    const size_t first = likeliest(way.first), second = likeliest(way.second);
    const double share = way.probability * weights[first] / of.width[way.first];
    if (way.kind == Kind::one) {
      for (size_t k = out.measured[way.first] + 1; k <= out.measured[way.first + 1]; ++k) {
        out.one[k] = way.probability * weights[k] / of.width[way.first];
      }
      if (share > most) out.alone = sized({way.first}, best, runs.size())[0], out.alone.place = first, most = share;
    }
    if (way.kind != Kind::two) continue;
    out.two += way.probability;
    const double both = way.first == way.second ? 0 : share * weights[second] / of.width[way.second];
    if (both <= out.best_two) continue;
    const std::vector<PlaceChange> pair = sized({way.first, way.second}, best, runs.size());
    out.best_two = both, out.first = pair[0], out.second = pair[1];
    out.first.place = first, out.second.place = second;
  }
  return out;
}

}  // namespace harness
