#include "study/guard.h"

#include "ablations/plan/peer.h"
#include "ablations/techniques/techniques.h"
#include "harness/stats/stats.h"

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
  const double tolerance = std::max(tolerance_between(rung.recipe, reference.recipe), peer_tolerance(rung.peer));
  return worst_of(runs, reference_runs, tolerance, known_offset(rung.recipe, reference.recipe, !rung.peer.empty()));
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

}  // namespace study
