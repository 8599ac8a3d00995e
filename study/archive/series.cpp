#include "study/archive/series.h"

#include "files/json_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace study {

using files::Json;

namespace {

// "+5.2 %", "-0.31 %"
std::string as_percent(double ratio) {
  const double change = 100 * (ratio - 1);
  return std::abs(change) < 0.995 ? fmt::format("{:+.2f} %", change) : fmt::format("{:+.1f} %", change);
}

std::string commit_name(const SeriesPoint& point) {
  if (!point.git_commit || point.git_commit->empty()) return "an unknown commit";
  return "commit " + as_utf8(point.git_commit->substr(0, 9)) + (point.git_dirty == true ? " with local changes" : "");
}

// "2026-11-21, gpt2-cpu-20261121T135454Z, commit d415b5482"
std::string place(const SeriesPoint& point) {
  return fmt::format("{}, {}, {}", point.time.substr(0, 10), point.study, commit_name(point));
}

// Every step, and the drift.
std::vector<std::string> changes_in_words(const DescribedSeries& series) {
  std::vector<std::string> parts;
  for (const SeriesStep& step : series.steps) {
    const SeriesPoint &at = series.points.at(step.at), &before = series.points.at(step.at - 1);
    parts.push_back(fmt::format("{} at {}, after {}", as_percent(step.ratio), place(at),
                                before.git_commit == at.git_commit ? "the same commit" : commit_name(before)));
  }
  if (series.drift) {
    parts.push_back(fmt::format("a drift of {} a study, together {}{}{}", as_percent(series.drift->ratio_per_study),
                                as_percent(series.drift->ratio), parts.empty() ? " since " : " beside the jumps",
                                parts.empty() ? place(series.points.front()) : ""));
  }
  return parts;
}

std::string finding(const DescribedSeries& series, const SeriesVerdict& verdict, double min_effect) {
  const size_t n = series.points.size();
  if (verdict.trend == Trend::too_few) {
    return fmt::format("{} {}: too few to tell; a drift takes {}, a jump {}", n, n == 1 ? "study" : "studies",
                       harness::least_for_drift, harness::least_for_steps);
  }
  const std::vector<std::string> parts = changes_in_words(series);
  if (parts.empty()) {
    return n < harness::least_for_steps
               ? fmt::format("no drift found in {} studies; to tell a jump takes {}", n, harness::least_for_steps)
               : fmt::format("no change found in {} studies", n);
  }
  std::string text = fmt::format("{}", fmt::join(parts, "; "));
  const std::string now = fmt::format("; now {} against its best level", as_percent(std::exp(verdict.lost)));
  if (verdict.unsure)
    return text + fmt::format("; not sure yet: among {} rungs, chance does as much too often", verdict.judged_together);
  if (verdict.trend == Trend::unchanged)
    return text + now + fmt::format(", less than the {:g} % that matter", 100 * min_effect);
  return verdict.trend == Trend::slower && parts.size() > 1 ? text + now : text;
}

// The verdict as far as the levels tell. `level_used`: p of the surest change behind the word, over the p that a single
// series may have. Without any change it is below x with a probability of at most x (false_steps + false_drifts).
struct Tendency {
  SeriesVerdict verdict;
  double level_used;
};

Tendency tendency_of(const harness::Changes& changes, double min_effect) {
  const std::vector<double>& level = changes.level;
  const double least = std::log1p(min_effect);
  // The last of equal ones: what came after it is what was lost.
  const auto fastest = std::min_element(level.rbegin(), level.rend());
  const auto best_level_at = static_cast<size_t>(level.rend() - fastest - 1);
  Tendency tendency{{.trend = level.size() < harness::least_for_drift ? Trend::too_few : Trend::unchanged,
                     .unsure = false,
                     .lost = level.back() - *fastest,
                     .best_level_at = best_level_at,
                     .judged_together = 0},
                    1};
  const double lost = tendency.verdict.lost, gained = level.front() - level.back();
  const bool slower = lost > 0 && lost >= least, faster = !slower && gained > 0 && gained >= least;
  if (!slower && !faster) return tendency;
  tendency.verdict.trend = slower ? Trend::slower : Trend::faster;
  const auto count = [&](double change, double p, double level_of_one) {
    if ((change > 0) == slower) tendency.level_used = std::min(tendency.level_used, p / level_of_one);
  };
  for (const harness::Step& step : changes.steps) {
    if (faster || step.at > best_level_at) count(step.change, step.p, harness::false_steps);
  }
  if (changes.drift) count(changes.drift->per_value, changes.drift->p, harness::false_drifts);
  return tendency;
}

bool says_changed(const SeriesVerdict& verdict) {
  return verdict.trend == Trend::slower || verdict.trend == Trend::faster;
}

}  // namespace

std::string as_utf8(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

std::vector<SeriesVerdict> verdicts_of(std::span<const harness::Changes> family, double min_effect) {
  std::vector<Tendency> tendencies;
  for (const harness::Changes& changes : family) tendencies.push_back(tendency_of(changes, min_effect));
  const auto judged = static_cast<size_t>(
      std::ranges::count_if(tendencies, [](const Tendency& one) { return one.verdict.trend != Trend::too_few; }));
  std::vector<double> used;
  for (const Tendency& one : tendencies) {
    if (says_changed(one.verdict)) used.push_back(one.level_used);
  }
  std::ranges::sort(used);
  // The largest rank k whose series uses at most k of `judged` shares of the level. It and the ranks before it are
  // sure.
  double most_used = 0;
  for (size_t k = 0; k < used.size(); ++k) {
    if (used[k] * static_cast<double>(judged) <= static_cast<double>(k + 1)) most_used = used[k];
  }
  std::vector<SeriesVerdict> verdicts;
  for (const Tendency& one : tendencies) {
    SeriesVerdict verdict = one.verdict;
    verdict.judged_together = judged;
    verdict.unsure = says_changed(verdict) && one.level_used > most_used;
    if (verdict.unsure) verdict.trend = Trend::unchanged;
    verdicts.push_back(verdict);
  }
  return verdicts;
}

namespace {

double ms_of(const HistoryPoint& point) { return point.ms_per_step->center; }

DescribedSeries described(const Series& one, const harness::Changes& changes, const SeriesVerdict& verdict,
                          double min_effect) {
  const std::vector<HistoryPoint>& points = one.points;
  const HistoryPoint& latest = points.back();
  const auto best = std::ranges::min_element(points, {}, ms_of);
  DescribedSeries series{.device_slug = latest.setting.device_slug(),
                         .recipe_hash = latest.recipe_hash,
                         .label = latest.label,
                         .ladder = latest.ladder,
                         .setting = latest.setting,
                         .current = one.current,
                         .dropped = one.dropped,
                         .missed = {},
                         .new_because = one.new_because,
                         .left_out = one.left_out,
                         .points = {},
                         .best = static_cast<size_t>(best - points.begin()),
                         .against_first = ms_of(latest) / ms_of(points.front()),
                         .against_best = ms_of(latest) / ms_of(*best),
                         .steps = {},
                         .drift = {},
                         .slowdown = {},
                         .verdict = verdict.trend,
                         .finding = {}};
  if (one.missed)
    series.missed = MissedStudy{one.missed->study, one.missed->file, one.missed->time, one.missed->failure};
  for (size_t i = 0; i < points.size(); ++i) {
    const HistoryPoint& point = points[i];
    series.points.push_back({bounds(*point.ms_per_step), point.study, point.file, point.time, point.git_commit,
                             point.git_dirty, ms_of(point), std::exp(changes.level[i]), point.disturbed});
  }
  for (const harness::Step& step : changes.steps) series.steps.push_back({step.at, std::exp(step.change), step.p});
  if (changes.drift) {
    series.drift = SeriesDrift{std::exp(changes.drift->per_value), std::exp(changes.drift->total), changes.drift->p};
  }
  if (verdict.trend == Trend::slower) series.slowdown = Slowdown{std::exp(verdict.lost), verdict.best_level_at};
  series.finding = finding(series, verdict, min_effect);
  return series;
}

}  // namespace

std::vector<DescribedSeries> describe(const std::vector<Series>& all, double min_effect) {
  std::vector<DescribedSeries> result(all.size());
  for (const bool current : {true, false}) {
    std::vector<size_t> members;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].current == current) members.push_back(i);
    }
    std::vector<harness::Changes> family;
    for (const size_t i : members) {
      std::vector<double> logarithms;
      for (const HistoryPoint& point : all[i].points) logarithms.push_back(std::log(ms_of(point)));
      family.push_back(harness::find_changes(logarithms, members.size()));
    }
    const std::vector<SeriesVerdict> verdicts = verdicts_of(family, min_effect);
    for (size_t k = 0; k < members.size(); ++k)
      result[members[k]] = described(all[members[k]], family[k], verdicts[k], min_effect);
  }
  return result;
}

}  // namespace study
