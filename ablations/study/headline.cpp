#include "ablations/study/headline.h"

#include "ablations/study/rung_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string>
#include <vector>

namespace ablations {

using harness::Json;

namespace {

// The fastest of the rungs between the reference and `last` that are clearly faster than `last`, and faster than the
// reference. The best of many is better by luck alone: not only the interval of their ratio must say so, but those of
// their times lie apart.
std::optional<size_t> overtaking(const Plan& plan, const Measured& measured, const Json& rungs, size_t reference,
                                 size_t last) {
  const auto is_clear = [&](size_t i) {
    const Json ahead = speedup(measured.runs_of[last], measured.runs_of[i]);
    if (ahead.is_null() || ahead.at("lo").is_null() || ahead.at("lo") <= 1.0) return false;
    const Json& high = rungs[i].at("ms_per_step").at("hi");
    const Json& low = rungs[last].at("ms_per_step").at("lo");
    return high.is_number() && low.is_number() && high < low;
  };
  std::optional<size_t> fastest;
  double best = 1;
  for (size_t i = reference + 1; i < last; ++i) {
    const Json& ratio = rungs[i].at("speedup_first");
    if (!plan.rungs[i].peer.empty() || ratio.is_null() || ratio.at("ratio") <= best || !is_clear(i)) continue;
    best = ratio.at("ratio");
    fastest = i;
  }
  return fastest;
}

double ratio_of(const Json& speedup) { return speedup.at("ratio"); }

// As tables show it: two decimals, three where these would hide a change.
std::string shown(double ratio) {
  const std::string text = fmt::format("{:.2f}", ratio);
  return text == "1.00" && ratio != 1 ? fmt::format("{:.3f}", ratio) : text;
}

bool counts(const Plan& plan, const Json& rungs, size_t i) {
  return plan.rungs[i].peer.empty() && rungs[i].at("status") == "measured";
}

std::string what_costs_time(const Plan& plan, const Json& rungs, const Json& headline) {
  std::vector<std::string> slower;
  for (size_t i = 0; i < rungs.size(); ++i) {
    const Json& step = rungs[i].at("speedup_previous");
    if (!counts(plan, rungs, i) || step.is_null() || step.at("hi").is_null() || step.at("hi") >= 1.0) continue;
    slower.push_back(fmt::format("\"{}\" ({}x)", rungs[i].at("title").get<std::string>(), shown(ratio_of(step))));
  }
  const Json fastest = headline.is_null() ? Json() : harness::field_or_null(headline, "fastest");
  std::string text;
  if (!slower.empty()) text = fmt::format("What costs time here: {}.", fmt::join(slower, ", "));
  if (!fastest.is_null()) {
    const Json& last = rungs[headline.at("last").get<size_t>()];
    text += fmt::format("{}At the ladder's last rung, \"{}\", {}x is left.", text.empty() ? "" : " ",
                        last.at("title").get<std::string>(), shown(ratio_of(last.at("speedup_first"))));
  }
  if (!text.empty()) text += " `ladder ablate --mode leave-one-out` says what each is worth.";
  return text;
}

// The rung whose "so far" is farthest from that of the rung before it times its own step, as a reader would multiply
// what is shown; empty where rounding explains all of them.
std::string what_does_not_multiply(const Plan& plan, const Json& rungs) {
  std::string text;
  double farthest = 0;
  std::optional<size_t> before;
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (!counts(plan, rungs, i)) continue;
    const Json &so_far = rungs[i].at("speedup_first"), &step = rungs[i].at("speedup_previous");
    if (before && !so_far.is_null() && !step.is_null() && !rungs[*before].at("speedup_first").is_null()) {
      const std::string first = shown(ratio_of(rungs[*before].at("speedup_first"))), second = shown(ratio_of(step)),
                        result = shown(ratio_of(so_far));
      const double a = std::stod(first), b = std::stod(second), c = std::stod(result);
      const double apart = std::abs(std::log(a * b / c));
      constexpr double rounding = 0.005;
      if (std::abs(a * b - c) > rounding * (a + b + 1) && apart > farthest) {
        farthest = apart;
        text = fmt::format(
            "\"{}\" is at {}x so far, not at {} x {} = {:.2f}x: each ratio is the middle of its own pairs "
            "of runs, and middles do not multiply exactly; the difference is the runs' noise.",
            rungs[i].at("title").get<std::string>(), result, first, second, a * b);
      }
    }
    before = i;
  }
  return text;
}

}  // namespace

size_t reference_that_counts(const Plan& plan, const Json& rungs) {
  for (size_t i = plan.reference; plan.mode == Mode::cumulative && i < rungs.size(); ++i) {
    if (counts(plan, rungs, i)) return i;
  }
  return plan.reference;
}

Json headline_of(const Plan& plan, const Measured& measured, const Json& rungs, size_t reference,
                 std::optional<size_t> last) {
  if (plan.mode == Mode::leave_one_out) last = 1;
  if (plan.mode == Mode::factorial) last = plan.rungs.size() - 1;
  if (plan.mode == Mode::one_at_a_time || plan.mode == Mode::sweep) last.reset();
  if (!last || *last == reference || rungs[*last].at("speedup_first").is_null()) return {};
  Json headline{{"first", reference}, {"last", *last}, {"speedup", rungs[*last].at("speedup_first")}};
  if (reference != plan.reference) headline["planned"] = plan.reference;
  if (plan.mode == Mode::cumulative) {
    if (const auto fastest = overtaking(plan, measured, rungs, reference, *last)) headline["fastest"] = *fastest;
  }
  return headline;
}

Json notes_of(const Plan& plan, const Json& rungs, const Json& headline) {
  Json notes = Json::array();
  if (plan.mode != Mode::cumulative) return notes;
  for (const std::string& note : {what_costs_time(plan, rungs, headline), what_does_not_multiply(plan, rungs)}) {
    if (!note.empty()) notes.push_back(note);
  }
  return notes;
}

}  // namespace ablations
