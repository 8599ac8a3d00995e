#include "ablations/study/history.h"

#include "ablations/run/setting.h"
#include "ablations/study/study_place.h"
#include "harness/change_points.h"
#include "harness/utc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

namespace ablations {

namespace fs = std::filesystem;
using harness::Json;

namespace {

constexpr size_t most_points = 1000;

// "2026-11-21T13:54:54Z": such texts are in order when their times are.
bool is_time(const std::string& text) {
  static const std::string pattern = "dddd-dd-ddTdd:dd:ddZ";
  return std::ranges::equal(
      text, pattern, [](char c, char expected) { return expected == 'd' ? c >= '0' && c <= '9' : c == expected; });
}

// JSON carries UTF-8 only; names of files may be anything.
std::string as_utf8(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

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

std::string finding(const Json& series) {
  const Json& points = series.at("points");
  const size_t n = points.size();
  const std::string verdict = series.at("verdict");
  if (verdict == "too_few") {
    return fmt::format("{} {}: too few to tell; a drift takes {}, a jump {}", n, n == 1 ? "study" : "studies",
                       harness::least_for_drift, harness::least_for_steps);
  }
  if (verdict == "unchanged") {
    return n < harness::least_for_steps
               ? fmt::format("no drift found in {} studies; to tell a jump takes {}", n, harness::least_for_steps)
               : fmt::format("no change found in {} studies", n);
  }
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
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  if (verdict == "slower" && parts.size() > 1) {
    text += fmt::format("; now {} against its best level", percent(series.at("slowdown").at("ratio").get<double>()));
  }
  return text;
}

Json series_json(const std::vector<HistoryPoint>& all) {
  const size_t left_out = all.size() - std::min(all.size(), most_points);
  const std::vector<HistoryPoint> points(all.begin() + static_cast<std::ptrdiff_t>(left_out), all.end());
  const HistoryPoint& latest = points.back();
  std::vector<double> logarithms;
  for (const HistoryPoint& point : points) logarithms.push_back(std::log(point.median));
  const harness::Changes changes = harness::find_changes(logarithms);
  const auto best = std::ranges::min_element(points, {}, &HistoryPoint::median);

  Json series{{"device_slug", device_slug(latest.setting)},
              {"recipe_hash", latest.recipe_hash},
              {"label", latest.label},
              {"ladder", latest.ladder},
              {"setting", latest.setting},
              {"left_out", left_out},
              {"points", Json::array()},
              {"best", best - points.begin()},
              {"against_first", latest.median / points.front().median},
              {"against_best", latest.median / best->median},
              {"steps", Json::array()},
              {"drift", nullptr},
              {"slowdown", nullptr}};
  for (size_t i = 0; i < points.size(); ++i) {
    const HistoryPoint& point = points[i];
    const bool single = point.lo == 0;
    series["points"].push_back({{"study", point.study},
                                {"file", point.file},
                                {"time", point.time},
                                {"git_commit", point.git_commit},
                                {"git_dirty", point.git_dirty},
                                {"median", point.median},
                                {"lo", single ? Json() : Json(point.lo)},
                                {"hi", single ? Json() : Json(point.hi)},
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
  const bool changed = !changes.steps.empty() || changes.drift;
  // The last of equal ones: what came after it is what was lost.
  const auto fastest = std::min_element(changes.level.rbegin(), changes.level.rend());
  const double lost = changes.level.back() - *fastest;
  if (changed && lost > 0) {
    series["slowdown"] = {{"ratio", std::exp(lost)}, {"best_level_at", changes.level.rend() - fastest - 1}};
  }
  series["verdict"] = points.size() < harness::least_for_drift ? "too_few"
                      : !changed                               ? "unchanged"
                      : lost > 0                               ? "slower"
                                                               : "faster";
  series["finding"] = finding(series);
  return series;
}

Json records_of(const Json& study) {
  Json records = Json::object();
  const Json hashes = study.value("hashes", Json::object());
  for (const auto& [file, sha256] : hashes.items()) {
    if (file.starts_with("records/")) records[file] = sha256;
  }
  return records;
}

// Whether they hold the same measurements: a record in common. An id and a moment are no proof, for two machines may
// begin in the same second; they are all there is in studies from before there were hashes.
bool are_of_one_study(const Json& study, const Json& other) {
  if (study.at("id") != other.at("id")) return false;
  const Json records = records_of(study), others = records_of(other);
  if (records.empty() || others.empty()) {
    return study.at("created") == other.at("created") && study.at("environment") == other.at("environment");
  }
  return std::ranges::any_of(records.items(),
                             [&](const auto& record) { return others.value(record.key(), Json()) == record.value(); });
}

}  // namespace

void add_points(const Json& study, const std::string& file, std::vector<HistoryPoint>& points,
                std::vector<std::string>& notes) {
  const Json finished = study.value("finished", Json());
  const std::string field = finished.is_null() ? "created" : "finished";
  const std::string time = study.at(field);
  if (!is_time(time)) {
    throw std::invalid_argument(
        fmt::format("{}: field {}: {} is not a time; 2026-11-21T13:54:54Z is one", file, field, Json(time).dump()));
  }
  const Json& environment = study.at("environment");
  for (const Json& rung : study.at("rungs")) {
    if (rung.contains("peer") || rung.at("status") != "measured" || rung.at("ms_per_step").is_null()) continue;
    const std::string title = rung.at("title");
    Json workload = study.at("workload");
    if (rung.contains("workload")) workload.update(rung.at("workload"));  // in a sweep
    const Json& ms = rung.at("ms_per_step");
    // The environment has no schema; what is not what it should be is not known.
    const Json commit = environment.value("git_commit", Json()), dirty = environment.value("git_dirty", Json());
    HistoryPoint point{.study = study.at("id"),
                       .file = file,
                       .time = time,
                       .ladder = study.at("ladder").at("name"),
                       .label = rung.value("label", rung.at("index") == 0 ? title : "+ " + title),
                       .setting = setting_of(environment, workload, rung.at("recipe")),
                       .recipe_hash = "",
                       .git_commit = commit.is_string() ? commit : Json(),
                       .git_dirty = dirty.is_boolean() ? dirty : Json(),
                       .median = ms.at("median"),
                       .lo = ms.at("lo").is_null() || ms.at("hi").is_null() ? 0 : ms.at("lo").get<double>(),
                       .hi = ms.at("lo").is_null() || ms.at("hi").is_null() ? 0 : ms.at("hi").get<double>(),
                       .disturbed = rung.contains("flags")};
    if (point.median < 1e-6 || point.median > 1e12 || point.lo < 0 || point.hi < point.lo) {
      notes.push_back(fmt::format("{}: rung \"{}\" is left out: its ms_per_step are no times", file, title));
      continue;
    }
    try {
      point.recipe_hash = recipe_hash(rung.at("recipe"), workload);
    } catch (const std::invalid_argument& error) {
      notes.push_back(fmt::format("{}: rung \"{}\" is left out: {}", file, title, error.what()));
      continue;
    }
    points.push_back(std::move(point));
  }
}

Json series_of(std::vector<HistoryPoint> points) {
  std::ranges::stable_sort(points, {}, [](const HistoryPoint& point) { return std::pair(point.time, point.study); });
  // A line is one recipe on one device: its series follow each other as circumstances change.
  using Line = std::pair<std::string, std::string>;
  std::vector<Line> lines;
  std::map<Line, std::vector<std::vector<HistoryPoint>>> of_line;
  for (HistoryPoint& point : points) {
    const Line line{device_slug(point.setting), point.recipe_hash};
    if (!of_line.contains(line)) lines.push_back(line);
    auto& series = of_line[line];
    auto place = std::ranges::find_if(
        series, [&](const std::vector<HistoryPoint>& one) { return one.front().setting == point.setting; });
    if (place == series.end()) place = series.insert(series.end(), std::vector<HistoryPoint>());
    // Two rungs of one study may have the same recipe, in a factorial design for instance: the first one counts.
    if (!place->empty() && place->back().study == point.study && place->back().file == point.file) continue;
    place->push_back(std::move(point));
  }
  std::ranges::stable_sort(lines, {}, &Line::first);
  Json result = Json::array();
  for (const Line& line : lines) {
    const auto& of_this = of_line[line];
    const auto current = std::ranges::max_element(of_this, {}, [](const auto& series) { return series.back().time; });
    for (auto series = of_this.begin(); series != of_this.end(); ++series) {
      result.push_back(series_json(*series));
      result.back()["current"] = series == current;
      result.back()["new_because"] = series == of_this.begin()
                                         ? std::vector<std::string>()
                                         : differences(series->front().setting, std::prev(series)->front().setting);
    }
  }
  return result;
}

Json history_of(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw std::invalid_argument(
        fmt::format("{}: {}", folder.string(), fs::exists(folder) ? "not a folder" : "no such file or folder"));
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
    const bool is_study = entry.path().filename() == "study.json" || is_packed_study(entry.path());
    if (is_study && !entry.is_directory()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  Json skipped = Json::array();
  std::vector<std::string> notes;
  std::vector<std::pair<std::string, Json>> studies;  // by name
  for (const fs::path& file : files) {
    const std::string name = as_utf8(file.lexically_relative(folder).string());
    try {
      Json study = harness::read_json(file, "study");
      // Of copies, and of shards and what they were merged into, the one with the most runs counts.
      const auto runs = [](const Json& of) { return of.at("plan").at("runs_ok").get<double>(); };
      const auto larger = std::ranges::find_if(studies, [&](const auto& other) {
        return are_of_one_study(study, other.second) && runs(other.second) >= runs(study);
      });
      if (larger != studies.end()) {
        notes.push_back(fmt::format("{}: the same study as {}, counted once", name, larger->first));
        continue;
      }
      std::erase_if(studies, [&](const auto& other) {
        if (!are_of_one_study(study, other.second)) return false;
        notes.push_back(fmt::format("{}: the same study as {}, counted once", other.first, name));
        return true;
      });
      studies.emplace_back(name, std::move(study));
    } catch (const std::exception& error) {
      skipped.push_back({{"file", name}, {"reason", as_utf8(error.what())}});
    }
  }
  std::vector<HistoryPoint> points;
  size_t read = 0;
  for (const auto& [name, study] : studies) {
    try {
      add_points(study, name, points, notes);
      ++read;
    } catch (const std::invalid_argument& error) {
      skipped.push_back({{"file", name}, {"reason", as_utf8(error.what())}});
    }
  }
  if (points.empty()) {
    const std::string why = files.empty() ? "no study.json or NAME.study.json in it or below"
                            : read == 0
                                ? "none of its studies can be read: " + skipped.at(0).at("reason").get<std::string>()
                                : "no study in it has a measured rung that can be used";
    throw std::invalid_argument(fmt::format("{}: {}; `ladder ablate` makes studies", folder.string(), why));
  }
  const Json series = series_of(std::move(points));
  const auto slower = std::ranges::count_if(
      series, [](const Json& one) { return one.at("current") == true && one.at("verdict") == "slower"; });
  const auto current = std::ranges::count_if(series, [](const Json& one) { return one.at("current") == true; });
  const auto gone = std::ranges::count_if(
      series, [](const Json& one) { return one.at("current") == false && one.at("verdict") == "slower"; });
  const bool judged = std::ranges::any_of(series, [](const Json& one) { return one.at("verdict") != "too_few"; });
  std::string words = !judged       ? "No rung has enough studies yet to tell a change"
                      : slower == 0 ? "No rung is known to be slower than at its best"
                                    : fmt::format("{} of {} rungs {} best", slower, current,
                                                  slower == 1 ? "is slower than at its" : "are slower than at their");
  if (gone > 0) words += fmt::format("; {} {}, until the circumstances changed", gone, gone == 1 ? "was" : "were");
  return {
      {"kind", "history"},
      {"schema_version", 1},
      {"created", harness::utc_now()},
      {"studies", read},
      {"finding", words},
      {"slower", slower},
      {"method",
       fmt::format("Jumps: circular binary segmentation, 999 permutations, p at most {}; drift: Mann and Kendall's "
                   "test, p at most {}, slope of Theil and Sen; on the logarithm of a study's median. Of 100 series in "
                   "which nothing changes, about {:.0f} are wrongly reported as changed.",
                   harness::false_steps, harness::false_drifts, 100 * (harness::false_steps + harness::false_drifts))},
      {"skipped", skipped},
      {"notes", notes},
      {"series", series}};
}

}  // namespace ablations
