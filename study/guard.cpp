#include "study/guard.h"

#include "harness/stats/stats.h"

#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace study {

namespace {

// Padding columns raise a loss of `reference` nats by at least and at most so much.
std::pair<double, double> range_of_padding(double reference, double known_offset) {
  constexpr double drawn = 0.01;  // of the offset: padding rows are a random sample
  const double size = std::abs(known_offset), unpadded = reference - (known_offset < 0 ? size : 0);
  const double share = std::clamp(1 - std::exp(hardest_text - unpadded), 0.0, 1.0);
  const double least = (1 - drawn) * std::log1p(share * std::expm1(size)), most = (1 + drawn) * size;
  return known_offset < 0 ? std::pair(-most, -least) : std::pair(least, most);
}

}  // namespace

Band band_of(const std::vector<double>& reference, double known_offset, int64_t skipped) {
  Band band;
  for (size_t i = 0; i < reference.size(); ++i) {
    const auto behind = static_cast<size_t>(std::clamp<int64_t>(skipped, 0, static_cast<int64_t>(i)));
    const std::span<const double> near = std::span(reference).subspan(i - behind, behind + 1);
    if (!std::ranges::all_of(near, [](double loss) { return std::isfinite(loss); })) {
      band.lo.push_back(NAN);
      band.hi.push_back(NAN);
      continue;
    }
    const auto [least, most] = std::ranges::minmax(near);
    band.lo.push_back(least + range_of_padding(least, known_offset).first);
    band.hi.push_back(most + range_of_padding(most, known_offset).second);
  }
  return band;
}

std::vector<double> deviations(const std::vector<double>& losses, const Band& band) {
  std::vector<double> result;
  for (size_t i = 0; i < std::min(losses.size(), band.lo.size()); ++i) {
    const bool is_finite = std::isfinite(losses[i]) && std::isfinite(band.lo[i]);
    result.push_back(is_finite ? losses[i] - std::clamp(losses[i], band.lo[i], band.hi[i]) : NAN);
  }
  return result;
}

Guard guard(const std::vector<double>& losses, const std::vector<double>& reference, double tolerance,
            double known_offset, int64_t skipped) {
  const std::vector<double> off = deviations(losses, band_of(reference, known_offset, skipped));
  Guard result{.tolerance = tolerance, .known_offset = known_offset, .steps = std::ssize(losses), .message = ""};
  if (const auto bad = std::ranges::find_if_not(off, [](double x) { return std::isfinite(x); }); bad != off.end()) {
    result.message = fmt::format("the loss of step {} is not finite", bad - off.begin() + 1);
    return result;
  }
  if (off.empty()) {
    result.message = "there are no steps to compare";
    return result;
  }
  const auto judged = std::span(off).first(std::min(off.size(), judged_steps));
  const double deviation = harness::median(judged);
  result.deviation = deviation;
  const auto furthest = std::ranges::max_element(off, {}, [](double x) { return std::abs(x); });
  result.max_deviation = std::abs(*furthest);
  if (std::abs(deviation) > tolerance) {
    result.message =
        fmt::format("its loss is {:.4f} nats {} the reference's, the median over the first {} step{}; {:g} is allowed",
                    std::abs(deviation), deviation > 0 ? "above" : "below", judged.size(),
                    judged.size() == 1 ? "" : "s", tolerance);
  } else if (*result.max_deviation > largest_deviation) {
    result.message = fmt::format("the loss of step {} is {:.2f} nats off the reference's; {:g} is the most at any step",
                                 furthest - off.begin() + 1, *result.max_deviation, largest_deviation);
  }
  result.passed = result.message.empty();
  return result;
}

bool is_worse(const Guard& one, const Guard& other) {
  if (one.passed != other.passed) return !one.passed;
  const auto size_of = [](const Guard& of) { return of.deviation ? std::abs(*of.deviation) : INFINITY; };
  return size_of(one) > size_of(other);
}

Guard guard_rung(const Rung& rung, const RunsByRepeat& runs, const Rung& reference,
                 const RunsByRepeat& reference_runs) {
  const ExpectedLosses &own = rung.losses.value(), &its = reference.losses.value();
  return worst_of(runs, reference_runs, std::max(own.tolerance, its.tolerance), own.offset - its.offset);
}

const RunData& partner_of(int64_t repeat, const RunsByRepeat& reference_runs) {
  const auto pair = reference_runs.find(repeat);
  return pair == reference_runs.end() ? reference_runs.begin()->second : pair->second;
}

Guard worst_of(const RunsByRepeat& runs, const RunsByRepeat& reference_runs, double tolerance, double known_offset) {
  Guard worst;
  bool first = true;
  for (const auto& [repeat, run] : runs) {
    Guard one =
        guard(run.losses, partner_of(repeat, reference_runs).losses, tolerance, known_offset, run.skipped_steps);
    one.repeat = repeat;
    if (first || is_worse(one, worst)) worst = one;
    first = false;
  }
  return worst;
}

namespace {

constexpr double share_allowed = 0.001, share_comparable = 0.01, confidence = 0.99;

// The losses of two runs at the first steps that both printed.
struct Common {
  std::vector<double> off;  // one minus the other
  double loss = 0;          // the median loss of the other run
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
double apart(const std::vector<const RunData*>& runs) {
  double squares = 0;
  int64_t pairs = 0;
  for (size_t one = 0; one < runs.size(); ++one) {
    for (size_t other = one + 1; other < runs.size(); ++other) {
      const Common common = common_losses(*runs[one], *runs[other]);
      if (common.off.empty() || !are_finite(common.off)) continue;
      const double off = harness::median(common.off);
      squares += off * off;
      ++pairs;
    }
  }
  return pairs > 0 ? std::sqrt(squares / static_cast<double>(pairs)) : 0;
}

// Those with the seed of the first, as far as the study gave one.
std::vector<const RunData*> of_one_seed(const RunsByRepeat& runs) {
  const auto seed_of = [](const RunData& run) { return run.command ? run.command->seed : std::nullopt; };
  std::vector<const RunData*> same;
  for (const auto& [repeat, run] : runs) {
    if (seed_of(run) == seed_of(runs.begin()->second)) same.push_back(&run);
  }
  return same;
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
  const std::vector<const RunData*> of_reference = of_one_seed(reference_runs);
  const double own = apart(of_reference);
  guard.tolerance = std::max(share_allowed * worst.loss,
                             by_chance(own, std::min(deviations.size(), reference_runs.size()), of_reference.size()));
  if (guard.tolerance > share_comparable * worst.loss) {
    return {{},
            fmt::format("not comparable in {} runs: the first command's own are {:.3g} apart; seed it",
                        of_reference.size(), own)};
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
