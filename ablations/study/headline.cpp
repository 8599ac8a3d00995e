#include "ablations/study/headline.h"

#include "ablations/study/rung_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string>
#include <vector>

namespace ablations {

namespace {

using Rungs = std::vector<StudyRung>;

// The fastest of the rungs between the reference and `last` that are clearly faster than `last`, and faster than the
// reference. The best of many is better by luck alone: not only the interval of their ratio must say so, but those of
// their times lie apart.
std::optional<size_t> overtaking(const Plan& plan, const Measured& measured, const Rungs& rungs, size_t reference,
                                 size_t last) {
  const auto is_clear = [&](size_t i) {
    const auto ahead = speedup(measured.runs_of[last], measured.runs_of[i]);
    if (!ahead || !ahead->is_faster()) return false;
    const auto &high = rungs[i].ms_per_step->hi, &low = rungs[last].ms_per_step->lo;
    return high && low && *high < *low;
  };
  std::optional<size_t> fastest;
  double best = 1;
  for (size_t i = reference + 1; i < last; ++i) {
    const auto& ratio = rungs[i].speedup_first;
    if (!plan.rungs[i].peer.empty() || !ratio || ratio->ratio <= best || !is_clear(i)) continue;
    best = ratio->ratio;
    fastest = i;
  }
  return fastest;
}

// As tables show it: two decimals, three where these would hide a change.
std::string shown(const Ratio& speedup) {
  const std::string text = fmt::format("{:.2f}", speedup.ratio);
  return text == "1.00" && speedup.ratio != 1 ? fmt::format("{:.3f}", speedup.ratio) : text;
}

bool counts(const StudyRung& rung) { return !rung.peer && rung.is_measured(); }

std::string what_costs_time(const Rungs& rungs, const std::optional<Headline>& headline) {
  std::vector<std::string> slower;
  for (const StudyRung& rung : rungs) {
    const auto& step = rung.speedup_against;
    if (counts(rung) && step && step->is_slower())
      slower.push_back(fmt::format("\"{}\" ({}x)", rung.title, shown(*step)));
  }
  std::string text;
  if (!slower.empty()) text = fmt::format("What costs time here: {}.", fmt::join(slower, ", "));
  if (headline && headline->fastest) {
    text += fmt::format("{}At the ladder's last rung, \"{}\", {}x is left.", text.empty() ? "" : " ",
                        rungs[headline->last].title, shown(headline->speedup));
  }
  if (!text.empty()) text += " `ladder ablate --mode leave-one-out` says what each is worth.";
  return text;
}

// The rung whose "so far" is farthest from that of the rung before it times its own step, as a reader would multiply
// what is shown; empty where rounding explains all of them.
std::string what_does_not_multiply(const Rungs& rungs) {
  std::string text;
  double farthest = 0;
  const StudyRung* before = nullptr;
  for (const StudyRung& rung : rungs) {
    if (!counts(rung)) continue;
    const auto &so_far = rung.speedup_first, &step = rung.speedup_against;
    if (before != nullptr && so_far && step && before->speedup_first) {
      const std::string first = shown(*before->speedup_first), second = shown(*step), result = shown(*so_far);
      const double a = std::stod(first), b = std::stod(second), c = std::stod(result);
      const double apart = std::abs(std::log(a * b / c));
      constexpr double rounding = 0.005;
      if (std::abs(a * b - c) > rounding * (a + b + 1) && apart > farthest) {
        farthest = apart;
        text = fmt::format(
            "\"{}\" is at {}x so far, not at {} x {} = {:.2f}x: each ratio is the middle of its own pairs "
            "of runs, and middles do not multiply exactly; the difference is the runs' noise.",
            rung.title, result, first, second, a * b);
      }
    }
    before = &rung;
  }
  return text;
}

}  // namespace

size_t reference_that_counts(const Plan& plan, const Rungs& rungs) {
  for (size_t i = plan.reference; plan.mode == Mode::cumulative && i < rungs.size(); ++i) {
    if (counts(rungs[i])) return i;
  }
  return plan.reference;
}

std::optional<Headline> headline_of(const Plan& plan, const Measured& measured, const Rungs& rungs, size_t reference,
                                    std::optional<size_t> last) {
  if (plan.mode == Mode::leave_one_out) last = 1;
  if (plan.mode == Mode::factorial) last = plan.rungs.size() - 1;
  if (plan.mode == Mode::one_at_a_time || plan.mode == Mode::sweep) last.reset();
  if (!last || *last == reference || !rungs[*last].speedup_first) return std::nullopt;
  Headline headline{.first = reference, .last = *last, .speedup = *rungs[*last].speedup_first};
  if (reference != plan.reference) headline.planned = plan.reference;
  if (plan.mode == Mode::cumulative) headline.fastest = overtaking(plan, measured, rungs, reference, *last);
  return headline;
}

std::vector<std::string> notes_of(const Plan& plan, const Rungs& rungs, const std::optional<Headline>& headline) {
  if (plan.mode != Mode::cumulative) return {};
  std::vector<std::string> notes{what_costs_time(rungs, headline), what_does_not_multiply(rungs)};
  std::erase(notes, "");
  return notes;
}

}  // namespace ablations
