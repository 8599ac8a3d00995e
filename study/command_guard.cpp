#include "study/command_guard.h"

#include "harness/stats/stats.h"
#include "study/guard.h"

#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace study {

namespace {

constexpr double share_allowed = 0.001, share_comparable = 0.01, confidence = 0.99;

// The losses of two runs at the first steps that both printed.
struct Common {
  std::vector<double> off;  // one minus the other
  double loss = 0;          // median of the other's
  int64_t first = 0, last = 0;
};

bool are_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double one) { return std::isfinite(one); });
}

Common common_losses(const RunData& run, const RunData& other) {
  Common common;
  std::vector<double> losses;
  const std::vector<int64_t>&steps = run.loss_steps, &others = other.loss_steps;
  for (size_t i = 0, j = 0; i < run.losses.size() && j < other.losses.size() && common.off.size() < judged_steps;) {
    const int64_t step = steps[i], its = others[j];
    if (step == its) {
      if (common.off.empty()) common.first = step;
      common.last = step;
      common.off.push_back(run.losses[i] - other.losses[j]);
      losses.push_back(other.losses[j]);
    }
    if (step <= its) ++i;
    if (its <= step) ++j;
  }
  if (!losses.empty() && are_finite(losses)) common.loss = std::abs(harness::median(losses));
  return common;
}

bool has_losses(const RunsByRepeat& runs) { return !runs.begin()->second.losses.empty(); }

// How far two of them are apart: the root of the mean square over all pairs. 0 without two that have a step in common.
double apart(const RunsByRepeat& runs) {
  double squares = 0;
  int64_t pairs = 0;
  for (auto one = runs.begin(); one != runs.end(); ++one) {
    for (auto other = std::next(one); other != runs.end(); ++other) {
      const Common common = common_losses(one->second, other->second);
      if (common.off.empty() || !are_finite(common.off)) continue;
      const double off = harness::median(common.off);
      squares += off * off;
      ++pairs;
    }
  }
  return pairs > 0 ? std::sqrt(squares / static_cast<double>(pairs)) : 0;
}

// What a mean over so many runs may be off by chance, where two of so many runs of the reference are `apart`.
double by_chance(double apart, size_t runs, size_t reference_runs) {
  if (apart == 0) return 0;
  const boost::math::students_t t(static_cast<double>(reference_runs - 1));
  return boost::math::quantile(t, 0.5 + confidence / 2) * apart / std::sqrt(static_cast<double>(runs));
}

}  // namespace

CommandGuard guard_command(const RunsByRepeat& runs, const RunsByRepeat& reference_runs) {
  if (!has_losses(runs) || !has_losses(reference_runs)) return {{}, "none read, not guarded"};
  RungGuard guard{.max_deviation = 0};
  Common worst;
  std::vector<double> deviations;
  for (const auto& [repeat, run] : runs) {
    Common common = common_losses(run, partner_of(repeat, reference_runs));
    if (common.off.empty()) continue;
    if (!are_finite(common.off)) {
      const std::string words = "a loss of one of the two is not finite";
      return {RungGuard{.steps = std::ssize(common.off), .message = words, .repeat = repeat}, words};
    }
    deviations.push_back(harness::median(common.off));
    for (const double off : common.off) guard.max_deviation = std::max(*guard.max_deviation, std::abs(off));
    if (worst.off.empty() || std::abs(deviations.back()) > std::abs(harness::median(worst.off))) {
      worst = std::move(common);
      guard.repeat = repeat;
    }
  }
  if (deviations.empty()) return {{}, "not checked: the commands print no step in common"};
  const double own = apart(reference_runs);
  guard.tolerance = std::max(share_allowed * worst.loss,
                             by_chance(own, std::min(deviations.size(), reference_runs.size()), reference_runs.size()));
  if (guard.tolerance > share_comparable * worst.loss) {
    return {{},
            fmt::format("not comparable in {} runs: the first command's own are {:.3g} apart; seed it",
                        reference_runs.size(), own)};
  }
  guard.deviation = harness::mean_with_interval(deviations).center;
  guard.passed = std::abs(*guard.deviation) <= guard.tolerance;
  guard.steps = std::ssize(worst.off);
  const std::string figures = fmt::format("{:.3g} off at steps {} to {}, limit {:.3g}", std::abs(*guard.deviation),
                                          worst.first, worst.last, guard.tolerance);
  if (guard.passed) return {guard, fmt::format("the same ({})", figures)};
  guard.message = fmt::format(
      "other losses: {}; the two are different trainings (--losses free compares their times all the same)", figures);
  return {guard, guard.message};
}

}  // namespace study
