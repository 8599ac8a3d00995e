#include "study/command_guard.h"

#include "harness/stats/stats.h"
#include "study/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace study {

namespace {

constexpr double spread_allowed = 3, share_allowed = 0.001, share_comparable = 0.01;

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
  const std::vector<int64_t>&steps = run.command->steps, &others = other.command->steps;
  for (size_t i = 0, j = 0; i < run.losses.size() && j < other.losses.size() && common.off.size() < judged_steps;) {
    const int64_t step = steps[i + 1], its = others[j + 1];
    if (step == its) {
      if (common.off.empty()) common.first = step;
      common.last = step;
      common.off.push_back(run.losses[i] - other.losses[j]);
      losses.push_back(other.losses[j]);
    }
    if (step <= its) ++i;
    if (its <= step) ++j;
  }
  if (are_finite(losses) && !losses.empty()) common.loss = std::abs(harness::median(losses));
  return common;
}

bool has_losses(const RunsByRepeat& runs) { return !runs.begin()->second.losses.empty(); }

// The most that two of them are apart, and the loss there; none without two that have a step in common.
std::optional<std::pair<double, double>> apart(const RunsByRepeat& runs) {
  std::optional<std::pair<double, double>> most;
  for (auto one = runs.begin(); one != runs.end(); ++one) {
    for (auto other = std::next(one); other != runs.end(); ++other) {
      const Common common = common_losses(one->second, other->second);
      if (common.off.empty() || !are_finite(common.off)) continue;
      const double off = std::abs(harness::median(common.off));
      if (!most || off > most->first) most = {off, common.loss};
    }
  }
  return most;
}

}  // namespace

std::optional<double> own_spread(const RunsByRepeat& runs) {
  const auto most = runs.empty() ? std::nullopt : apart(runs);
  if (!most || most->second == 0) return std::nullopt;
  return most->first / most->second;
}

CommandGuard guard_command(const RunsByRepeat& runs, const RunsByRepeat& reference_runs) {
  if (!has_losses(runs) || !has_losses(reference_runs)) return {{}, "not checked: no line has one"};
  const auto own = apart(reference_runs);
  if (own && own->first > share_comparable * own->second) {
    return {{}, fmt::format("not comparable: the first command's own runs are {:.3g} apart; seed it", own->first)};
  }
  std::optional<RungGuard> worst;
  Common at;
  for (const auto& [repeat, run] : runs) {
    Common common = common_losses(run, partner_of(repeat, reference_runs));
    if (common.off.empty()) continue;
    if (!are_finite(common.off)) {
      const std::string words = "a loss of one of the two is not finite";
      return {RungGuard{.steps = std::ssize(common.off), .message = words, .repeat = repeat}, words};
    }
    const double deviation = harness::median(common.off);
    if (worst && !(std::abs(deviation) > std::abs(*worst->deviation))) continue;
    const auto furthest = std::ranges::max_element(common.off, {}, [](double off) { return std::abs(off); });
    const double allowed = std::max(spread_allowed * (own ? own->first : 0), share_allowed * common.loss);
    worst = RungGuard{.passed = std::abs(deviation) <= allowed,
                      .deviation = deviation,
                      .max_deviation = std::abs(*furthest),
                      .tolerance = allowed,
                      .steps = std::ssize(common.off),
                      .message = "",
                      .repeat = repeat};
    at = std::move(common);
  }
  if (!worst) return {{}, "not checked: the commands print no step in common"};
  const std::string figures = fmt::format("{:.3g} off at steps {} to {}, {:.3g} allowed", std::abs(*worst->deviation),
                                          at.first, at.last, worst->tolerance);
  if (worst->passed) return {worst, fmt::format("the same ({})", figures)};
  worst->message = fmt::format("other losses: {}; the two are different trainings", figures);
  return {worst, worst->message};
}

}  // namespace study
