#include "ablations/study/compare.h"

#include "ablations/run/setting.h"
#include "ablations/study/guard.h"
#include "ablations/study/measured.h"
#include "harness/unfit.h"
#include "harness/utc.h"
#include "harness/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string_view>

namespace ablations {

using harness::Json;

namespace {

model::Recipe recipe_of(const Json& record) { return model::recipe_from_json(record.at("recipe"), "record"); }

using Match = std::pair<const Arm*, const Arm*>;

// Takes arms out of the two lists.
void match_by(auto same, std::vector<const Arm*>& base, std::vector<const Arm*>& head, std::vector<Match>& matches) {
  std::erase_if(base, [&](const Arm* arm) {
    const auto match = std::ranges::find_if(head, [&](const Arm* other) { return same(*arm, *other); });
    if (match == head.end()) return false;
    matches.emplace_back(arm, *match);
    head.erase(match);
    return true;
  });
}

Json ratio_json(const harness::Comparison& comparison) {
  const auto& interval = comparison.ratio.interval;
  return {{"ratio", comparison.ratio.center},
          {"lo", interval ? Json(interval->lo) : Json()},
          {"hi", interval ? Json(interval->hi) : Json()},
          {"verdict", harness::name_of(comparison.verdict)}};
}

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json loss_json(const Arm& base, const Arm& head, size_t pairs) {
  for (size_t i = 0; i < pairs; ++i) {
    const Json& here = base.records[i].at("workload");
    const Json& there = head.records[i].at("workload");
    for (const char* field : {"seed", "data", "model", "batch", "context", "accumulation"}) {
      // The file may have another name; its tokens count.
      const bool data = std::string_view(field) == "data";
      if (data ? here.at(field).at("sha256") != there.at(field).at("sha256") : here.at(field) != there.at(field)) {
        return {{"compared", false}, {"message", fmt::format("losses are not compared: another {}", field)}};
      }
    }
  }
  const model::Recipe before_recipe = recipe_of(base.records.front()), after_recipe = recipe_of(head.records.front());
  const double tolerance = tolerance_between(after_recipe, before_recipe);
  const double offset =
      std::log(static_cast<double>(after_recipe.vocabulary_rows) / static_cast<double>(before_recipe.vocabulary_rows));
  bool identical = true;
  Guard worst;
  for (size_t i = 0; i < pairs; ++i) {
    const RunData before = run_data(base.records[i]), after = run_data(head.records[i]);
    const Guard verdict = guard(after.losses, before.losses, tolerance, offset, after.skipped_steps);
    const auto steps = static_cast<std::ptrdiff_t>(std::min(before.losses.size(), after.losses.size()));
    identical &= std::equal(before.losses.begin(), before.losses.begin() + steps, after.losses.begin());
    if (i == 0 || is_worse(verdict, worst)) worst = verdict;
  }
  return {{"compared", true},
          {"identical", identical},
          {"passed", worst.passed},
          {"deviation", number_or_null(worst.deviation)},
          {"max_deviation", number_or_null(worst.max_deviation)},
          {"tolerance", tolerance},
          {"message", worst.message}};
}

// As a study tells it: the largest of the runs.
int64_t peak_bytes(const Arm& arm) {
  int64_t peak = 0;
  for (const Json& record : arm.records) peak = std::max(peak, record.at("memory").at("peak_bytes").get<int64_t>());
  return peak;
}

Json entry(const Arm& base, const Arm& head, const CompareOptions& options) {
  const size_t pairs = std::min(base.records.size(), head.records.size());
  std::vector<double> times[2], peaks[2];
  Json flags = Json::array();
  for (size_t side = 0; side < 2; ++side) {
    for (size_t i = 0; i < pairs; ++i) {
      const RunData run = run_data((side == 0 ? base : head).records[i]);
      times[side].push_back(run.median_ms);
      peaks[side].push_back(static_cast<double>(run.peak_bytes));
      if (!run.disturbed.empty()) flags.push_back(fmt::format("{} {}", side == 0 ? "base" : "head", run.disturbed));
    }
  }
  harness::Comparison time = harness::compare(times[0], times[1], options.min_effect);
  const bool by_sessions = base.sessions.size() >= harness::sessions_to_judge_by && pairs >= harness::runs_of_a_session;
  if (by_sessions) {
    time.ratio = harness::ratio_to_earlier(harness::median(times[1]), base.sessions);
    time.verdict = harness::judge(time.ratio, options.min_effect);
  }
  Json memory;
  const auto positive = [](double bytes) { return bytes > 0; };
  if (std::ranges::all_of(peaks[0], positive) && std::ranges::all_of(peaks[1], positive)) {
    memory = ratio_json(harness::compare(peaks[0], peaks[1], options.min_effect));
    memory["base_bytes"] = peak_bytes(base);
    memory["head_bytes"] = peak_bytes(head);
  }
  const Json& first = head.records.front();
  Json json = ratio_json(time);
  json.update({{"label", head.label},
               {"recipe_hash", recipe_hash_of(first)},
               {"recipe", first.at("recipe")},
               {"recipe_diff", model::recipe_diff(recipe_of(base.records.front()), recipe_of(first))},
               {"pairs", pairs},
               {"base_runs", base.records.size()},
               {"head_runs", head.records.size()},
               {"sessions", by_sessions ? Json(base.sessions.size()) : Json()},
               {"base_ms", by_sessions ? harness::median(times[1]) / time.ratio.center : harness::median(times[0])},
               {"head_ms", harness::median(times[1])},
               {"setting", setting_of(first)},
               {"base_runs_ms", times[0]},
               {"head_runs_ms", times[1]},
               {"slower_pairs", time.greater},
               {"sign_test_p", time.sign_test},
               {"loss", loss_json(base, head, pairs)},
               {"memory", memory},
               {"flags", flags}});
  return json;
}

Json side_json(const Side& side) {
  std::set<std::string> programs;
  size_t runs = 0;
  for (const Arm& arm : side.arms) {
    runs += arm.records.size();
    for (const Json& record : arm.records) {
      const Json& environment = record.at("environment");
      const Json commit = environment.value("git_commit", Json());
      programs.insert((commit.is_string() ? commit.get<std::string>() : "unknown") +
                      (environment.value("git_dirty", Json()) == true ? ", with changes that are not committed" : ""));
    }
  }
  return {{"source", side.source}, {"runs", runs}, {"programs", programs}, {"left_out", side.left_out}};
}

struct Matched {
  std::vector<Match> matches;
  std::vector<const Arm*> base, head;  // the others
};

// By recipe and size, then by recipe alone; where each side has one arm only, those two.
Matched match(const Side& base, const Side& head) {
  Matched result;
  for (const Arm& arm : base.arms) result.base.push_back(&arm);
  for (const Arm& arm : head.arms) result.head.push_back(&arm);
  const auto match_where = [&](auto same) { match_by(same, result.base, result.head, result.matches); };
  if (base.arms.size() == 1 && head.arms.size() == 1) {
    match_where([](const Arm&, const Arm&) { return true; });
    return result;
  }
  const auto same_work = [](const Arm& a, const Arm& b) {
    return recipe_hash_of(a.records.front()) == recipe_hash_of(b.records.front());
  };
  match_where([&](const Arm& a, const Arm& b) { return same_work(a, b) && a.label == b.label; });
  match_where(same_work);
  match_where([](const Arm& a, const Arm& b) { return recipe_of(a.records.front()) == recipe_of(b.records.front()); });
  return result;
}

// In what the records' circumstances differ, within a match.
std::vector<std::string> differing_circumstances(const std::vector<Match>& matches) {
  std::vector<std::string> differing;
  for (const auto& [a, b] : matches) {
    const Json setting = setting_of(a->records.front());
    for (const Arm* arm : {a, b}) {
      for (const Json& record : arm->records) {
        for (std::string& line : differences(setting, setting_of(record))) {
          if (std::ranges::find(differing, line) == differing.end()) differing.push_back(std::move(line));
        }
      }
    }
  }
  return differing;
}

}  // namespace

Json compare_sides(const Side& base, const Side& head, const CompareOptions& options) {
  const Matched matched = match(base, head);
  if (matched.matches.empty()) {
    throw std::invalid_argument(
        fmt::format("{} and {} have no recipe in common; two single records are compared whatever their recipes",
                    base.source, head.source));
  }
  const std::vector<std::string> differing = differing_circumstances(matched.matches);
  if (!differing.empty() && !options.force) {
    throw harness::Unfit(
        fmt::format("{} and {} were measured under different circumstances ({}); --force compares them "
                    "all the same",
                    base.source, head.source, fmt::join(differing, "; ")));
  }
  Json warnings = Json::array(), entries = Json::array(), unmatched = Json::array();
  for (const auto& [a, b] : matched.matches) entries.push_back(entry(*a, *b, options));
  const auto is_by_sessions = [](const Json& entry) { return !entry.at("sessions").is_null(); };
  if (!options.interleaved && !std::ranges::all_of(entries, is_by_sessions)) warnings.push_back(not_interleaved);
  for (const Arm* arm : matched.base) unmatched.push_back({{"side", "base"}, {"label", arm->label}});
  for (const Arm* arm : matched.head) unmatched.push_back({{"side", "head"}, {"label", arm->label}});
  return {{"kind", "comparison"},
          {"schema_version", 1},
          {"created", harness::utc_now()},
          {"min_effect", options.min_effect},
          {"confidence", harness::confidence},
          {"method",
           "head/base, paired in order: Hodges-Lehmann center of the logarithms of the runs' medians; interval "
           "of the signed-rank test, below 6 pairs Student's with a bootstrapped standard error; against 3 sessions or "
           "more of a baseline Student's prediction interval"},
          {"base", side_json(base)},
          {"head", side_json(head)},
          {"forced", differing},
          {"warnings", warnings},
          {"entries", entries},
          {"unmatched", unmatched}};
}

}  // namespace ablations
