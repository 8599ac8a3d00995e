#include "harness/stats/bisection.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace harness {

using Numbers = std::vector<double>;
using Kind = ChangeWay::Kind;

static double total_of(const Numbers& a) { return std::accumulate(a.begin(), a.end(), 0.0); }

namespace {

// One of the courses that ln(time) may take along the list: where it changes, and by how much.
struct Course {
  double probability;
  const ChangeWay* way;
  std::vector<std::pair<size_t, double>> changes = {};
};

// Samples of the ways: the more probable a way, the more samples it has. A sample of two changes has its second place
// by chance, and all others lie evenly.
std::vector<Course> courses_of(const Suspects& suspects, std::span<const double> weights) {
  std::mt19937_64 random(20261130);
  // Where the share `part` of the commits between two measured places is reached.
  const auto place = [&](size_t g, double part) {
    const size_t begin = suspects.measured[g] + 1, end = suspects.measured[g + 1];
    double left = part * total_of(Numbers(&weights[begin], &weights[end] + 1));
    size_t k = begin;
    while (k < end && (left -= weights[k]) >= 0) ++k;
    return k;
  };
  std::vector<Course> courses;
  for (const ChangeWay& way : suspects.ways) {
    if (way.probability < 1e-3) continue;
    const bool has_places = way.kind == Kind::one || way.kind == Kind::two;
    const int samples = has_places ? static_cast<int>(std::ceil(48 * way.probability)) : 1;
    for (int i = 0; i < samples; ++i) {
      courses.push_back({.probability = way.probability / samples, .way = &way});
      const double half = way.kind == Kind::two && way.first == way.second ? 0.5 : 1;
      if (has_places) {
        courses.back().changes.emplace_back(place(way.first, (i + 0.5) / samples), half * way.sizes[way.first]);
      }
      if (way.kind == Kind::two) {
        const double part = static_cast<double>(random() >> 11) * 0x1p-53;
        courses.back().changes.emplace_back(place(way.second, part), half * way.sizes[way.second]);
      }
    }
  }
  return courses;
}

double level(const Course& course, const std::vector<size_t>& measured, size_t place) {
  double sum = course.way->pace;
  for (const auto& [at, size] : course.changes) sum += place >= at ? size : 0;
  if (course.way->kind != Kind::steps) return sum;
  for (size_t g = 0; g + 1 < measured.size(); ++g) {
    const double width = static_cast<double>(measured[g + 1] - measured[g]);
    const double reached = static_cast<double>(place) - static_cast<double>(measured[g]);
    sum += course.way->sizes[g] * std::clamp(reached / width, 0.0, 1.0);
  }
  return sum;
}

}  // namespace

std::pair<size_t, size_t> choose_pair(const Suspects& suspects, std::span<const double> weights) {
  const std::vector<Course> courses = courses_of(suspects, weights);
  Numbers changes(weights.size());
  for (const Course& course : courses) {
    for (const auto& [at, size] : course.changes) changes[at] += course.probability;
  }
  std::set<size_t> places{0, weights.size() - 1};
  for (const double quartile : {0.25, 0.5, 0.75}) {
    double below = 0;
    size_t k = 0;
    while (k + 1 < weights.size() && (below += changes[k]) < quartile * total_of(changes)) ++k;
    places.insert({k - (k > 0 ? 1 : 0), k});
  }
  std::vector<std::pair<size_t, Numbers>> levels;
  for (const size_t place : places) {
    levels.emplace_back(place, Numbers{});
    for (const Course& course : courses) levels.back().second.push_back(level(course, suspects.measured, place));
  }
  // The covariance of two runs in a row, whatever the course.
  const double both = suspects.pace + suspects.pace_step, first = both + suspects.noise * suspects.noise,
               second = first + suspects.pace_step, determinant = first * second - both * both;
  std::pair<size_t, size_t> chosen;
  double most = -INFINITY;
  for (const auto& [a, of_a] : levels) {
    for (const auto& [b, of_b] : levels) {
      if (b <= a) continue;
      double information = 0;
      for (size_t i = 0; i < courses.size(); ++i) {
        double overlap = 0;
        for (size_t j = 0; j < courses.size(); ++j) {
          const double x = of_a[i] - of_a[j], y = of_b[i] - of_b[j];
          const double distance = (second * x * x - 2 * both * x * y + first * y * y) / determinant;
          overlap += courses[j].probability * std::exp(-distance / 8);
        }
        information -= courses[i].probability * std::log(overlap);
      }
      if (information > most) most = information, chosen = {a, b};
    }
  }
  return chosen;
}

SearchStep search_step(std::span<const PlaceTime> runs, std::span<const double> weights, double min_effect,
                       size_t most_runs) {
  constexpr size_t first_pairs = 4, least_pairs = 6;
  const size_t last = weights.size() - 1;
  Numbers differences;
  for (size_t t = 0; t + 1 < runs.size(); ++t) {
    const size_t a = runs[t].place, b = runs[t + 1].place;
    if (std::min(a, b) != 0 || std::max(a, b) != last) continue;
    differences.push_back((a == 0 ? 1 : -1) * (runs[t + 1].log_time - runs[t].log_time));
    ++t;
  }
  SearchStep step{.verdict = {}, .next = {0, last}, .suspects = {}, .whole = {}};
  if (!differences.empty()) step.whole = symmetric_center(differences);
  if (differences.size() < first_pairs) return step;
  step.suspects = suspects_of(runs, weights);
  const Suspects& of = step.suspects;
  if (of.one[of.alone.place] >= 0.95) {
    step.verdict = Bisected::one;
  } else if (of.best_two >= 0.99) {
    step.verdict = Bisected::two;
  } else if (of.steps >= 0.99) {
    step.verdict = Bisected::steps;
  } else if (of.none > 0.01) {
    const bool is_small = differences.size() >= least_pairs && step.whole.interval->lo > -std::log1p(min_effect) &&
                          step.whole.interval->hi < std::log1p(min_effect);
    if (is_small) step.verdict = Bisected::same;
  } else {
    step.next = choose_pair(of, weights);
  }
  if (!step.verdict && runs.size() >= most_runs) step.verdict = Bisected::open;
  return step;
}

}  // namespace harness
