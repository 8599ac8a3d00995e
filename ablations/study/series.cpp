#include "ablations/study/series.h"

#include "ablations/run/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ablations {

using harness::Json;

namespace {

// "+5.2 %", "-0.31 %"
std::string percent(double ratio) {
  const double change = 100 * (ratio - 1);
  return std::abs(change) < 0.995 ? fmt::format("{:+.2f} %", change) : fmt::format("{:+.1f} %", change);
}

std::string commit_name(const Json& point) {
  const Json& commit = point.at("git_commit");
  if (!commit.is_string() || commit.get<std::string>().empty()) return "an unknown commit";
  return "commit " + as_utf8(commit.get<std::string>().substr(0, 9)) +
         (point.at("git_dirty") == true ? " with local changes" : "");
}

// "2026-11-21, gpt2-cpu-20261121T135454Z, commit d415b5482"
std::string place(const Json& point) {
  return fmt::format("{}, {}, {}", point.at("time").get<std::string>().substr(0, 10),
                     point.at("study").get<std::string>(), commit_name(point));
}

// Every step, and the drift.
std::vector<std::string> changes_in_words(const Json& series) {
  const Json& points = series.at("points");
  std::vector<std::string> parts;
  for (const Json& step : series.at("steps")) {
    const Json& at = points.at(step.at("at").get<size_t>());
    const Json& before = points.at(step.at("at").get<size_t>() - 1);
    parts.push_back(
        fmt::format("{} at {}, after {}", percent(step.at("ratio").get<double>()), place(at),
                    before.at("git_commit") == at.at("git_commit") ? "the same commit" : commit_name(before)));
  }
  if (!series.at("drift").is_null()) {
    const Json& drift = series.at("drift");
    parts.push_back(
        fmt::format("a drift of {} a study, together {}{}{}", percent(drift.at("ratio_per_study").get<double>()),
                    percent(drift.at("ratio").get<double>()), parts.empty() ? " since " : " beside the jumps",
                    parts.empty() ? place(points.at(0)) : ""));
  }
  return parts;
}

std::string finding(const Json& series, const SeriesVerdict& verdict, double min_effect) {
  const size_t n = series.at("points").size();
  if (verdict.word == "too_few") {
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
  const std::string now = fmt::format("; now {} against its best level", percent(std::exp(verdict.lost)));
  if (verdict.unsure)
    return text + fmt::format("; not sure yet: among {} rungs, chance does as much too often", verdict.judged_together);
  if (verdict.word == "unchanged")
    return text + now + fmt::format(", less than the {:g} % that matter", 100 * min_effect);
  return verdict.word == "slower" && parts.size() > 1 ? text + now : text;
}

// As far as the levels tell. `level_used`: p of the surest change behind the word, by the p that a lone series is held
// to: where nothing changes it is below x with a probability of x (false_steps + false_drifts) at most.
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
  Tendency tendency{{.word = level.size() < harness::least_for_drift ? "too_few" : "unchanged",
                     .unsure = false,
                     .lost = level.back() - *fastest,
                     .best_level_at = best_level_at,
                     .judged_together = 0},
                    1};
  const double lost = tendency.verdict.lost, gained = level.front() - level.back();
  const bool slower = lost > 0 && lost >= least, faster = !slower && gained > 0 && gained >= least;
  if (!slower && !faster) return tendency;
  tendency.verdict.word = slower ? "slower" : "faster";
  const auto count = [&](double change, double p, double level_of_one) {
    if ((change > 0) == slower) tendency.level_used = std::min(tendency.level_used, p / level_of_one);
  };
  for (const harness::Step& step : changes.steps) {
    if (faster || step.at > best_level_at) count(step.change, step.p, harness::false_steps);
  }
  if (changes.drift) count(changes.drift->per_value, changes.drift->p, harness::false_drifts);
  return tendency;
}

}  // namespace

std::string as_utf8(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

std::vector<SeriesVerdict> verdicts_of(std::span<const harness::Changes> family, double min_effect) {
  std::vector<Tendency> tendencies;
  for (const harness::Changes& changes : family) tendencies.push_back(tendency_of(changes, min_effect));
  const auto judged = static_cast<size_t>(
      std::ranges::count_if(tendencies, [](const Tendency& one) { return one.verdict.word != "too_few"; }));
  std::vector<double> used;
  for (const Tendency& one : tendencies) {
    if (one.verdict.word == "slower" || one.verdict.word == "faster") used.push_back(one.level_used);
  }
  std::ranges::sort(used);
  // The largest rank k whose series uses no more than k of `judged` shares of the level: it and those before it are
  // sure.
  double most_used = 0;
  for (size_t k = 0; k < used.size(); ++k) {
    if (used[k] * static_cast<double>(judged) <= static_cast<double>(k + 1)) most_used = used[k];
  }
  std::vector<SeriesVerdict> verdicts;
  for (Tendency& one : tendencies) {
    SeriesVerdict& verdict = one.verdict;
    verdict.judged_together = judged;
    verdict.unsure = (verdict.word == "slower" || verdict.word == "faster") && one.level_used > most_used;
    if (verdict.unsure) verdict.word = "unchanged";
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

namespace {

double ms_of(const HistoryPoint& point) { return point.ms_per_step->center; }

Json described(const Series& one, const harness::Changes& changes, const SeriesVerdict& verdict, double min_effect) {
  const std::vector<HistoryPoint>& points = one.points;
  const HistoryPoint& latest = points.back();
  const auto best = std::ranges::min_element(points, {}, ms_of);
  Json series{{"device_slug", device_slug(latest.setting)},
              {"recipe_hash", latest.recipe_hash},
              {"label", latest.label},
              {"ladder", latest.ladder},
              {"setting", latest.setting},
              {"current", one.current},
              {"dropped", one.dropped},
              {"missed", nullptr},
              {"new_because", one.new_because},
              {"left_out", one.left_out},
              {"points", Json::array()},
              {"best", best - points.begin()},
              {"against_first", ms_of(latest) / ms_of(points.front())},
              {"against_best", ms_of(latest) / ms_of(*best)},
              {"steps", Json::array()},
              {"drift", nullptr},
              {"slowdown", nullptr},
              {"verdict", verdict.word}};
  if (one.missed) {
    series["missed"] = {{"study", one.missed->study},
                        {"file", one.missed->file},
                        {"time", one.missed->time},
                        {"reason", one.missed->fault}};
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const HistoryPoint& point = points[i];
    const auto& interval = point.ms_per_step->interval;
    series["points"].push_back({{"study", point.study},
                                {"file", point.file},
                                {"time", point.time},
                                {"git_commit", point.git_commit},
                                {"git_dirty", point.git_dirty},
                                {"median", ms_of(point)},
                                {"lo", interval ? Json(interval->lo) : Json()},
                                {"hi", interval ? Json(interval->hi) : Json()},
                                {"level", std::exp(changes.level[i])},
                                {"disturbed", point.disturbed}});
  }
  for (const harness::Step& step : changes.steps) {
    series["steps"].push_back({{"at", step.at}, {"ratio", std::exp(step.change)}, {"p", step.p}});
  }
  if (changes.drift) {
    series["drift"] = {{"ratio_per_study", std::exp(changes.drift->per_value)},
                       {"ratio", std::exp(changes.drift->total)},
                       {"p", changes.drift->p}};
  }
  if (verdict.word == "slower")
    series["slowdown"] = {{"ratio", std::exp(verdict.lost)}, {"best_level_at", verdict.best_level_at}};
  series["finding"] = finding(series, verdict, min_effect);
  return series;
}

}  // namespace

Json series_json(const std::vector<Series>& all, double min_effect) {
  std::vector<Json> result(all.size());
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

}  // namespace ablations
