#include "study/archive/history_points.h"

#include "ablations/run/run_setting.h"
#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "harness/process/utc.h"
#include "harness/stats/change_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace study {

namespace fs = std::filesystem;
using files::Json;

namespace {

constexpr size_t most_points = 1000;
constexpr const char* first_day = "2026-01-01";  // no study by this program is older

// "2026-11-21T13:54:54Z": such texts are in order when their times are.
bool is_time(const std::string& text) {
  static const std::string pattern = "dddd-dd-ddTdd:dd:ddZ";
  return std::ranges::equal(
      text, pattern, [](char c, char expected) { return expected == 'd' ? c >= '0' && c <= '9' : c == expected; });
}

// When the study was made. Throws std::invalid_argument where it does not say, or it cannot be.
const std::string& time_of(const Study& study, const std::string& file) {
  const std::string& time = study.finished ? *study.finished : study.created;
  if (!is_time(time)) {
    throw std::invalid_argument(fmt::format("{}: field {} must be a time such as 2026-11-21T13:54:54Z, got {}", file,
                                            study.finished ? "finished" : "created", Json(time).dump()));
  }
  const std::string day = time.substr(0, 10);
  if (day < first_day || day > harness::utc_now().substr(0, 10)) {
    throw std::invalid_argument(fmt::format("{}: is dated {}, {}", file, time,
                                            day < first_day ? "before this program existed" : "in the future"));
  }
  return time;
}

std::map<std::string, std::string> records_of(const Study& study) {
  std::map<std::string, std::string> records = study.hashes.value();
  std::erase_if(records, [](const auto& file) { return !file.first.starts_with("records/"); });
  return records;
}

// Whether they hold the same measurements: a record in common. Two machines may begin in the same second, so an id and
// a time prove nothing. Studies without records have nothing else.
bool are_of_one_study(const Study& study, const Study& other) {
  if (study.id != other.id) return false;
  const auto records = records_of(study), others = records_of(other);
  if (records.empty() || others.empty()) {
    return study.created == other.created && json_of(study.environment) == json_of(other.environment);
  }
  return std::ranges::any_of(records, [&](const auto& record) {
    const auto same = others.find(record.first);
    return same != others.end() && same->second == record.second;
  });
}

// Why the rung's time is not known, or not for good; empty where it is.
std::string why_unused(const Study& study, const StudyRung& rung) {
  if (!rung.is_measured()) return name_of(rung.status) + (rung.reason.empty() ? "" : ": " + rung.reason);
  const auto missing = std::ranges::count_if(
      study.runs, [&](const StudyRun& run) { return run.rung == rung.index && run.status == RunStatus::missing; });
  return missing == 0 ? "" : fmt::format("{} of its runs {} missing", missing, missing == 1 ? "is" : "are");
}

std::optional<harness::Estimate> ms_per_step(const StudyRung& rung) {
  if (!rung.is_measured() || !rung.ms_per_step) return std::nullopt;
  const Median& ms = *rung.ms_per_step;
  harness::Estimate estimate{.center = ms.median, .interval = {}};
  if (ms.lo && ms.hi) estimate.interval = harness::Interval{*ms.lo, *ms.hi};
  return estimate;
}

// A file may say anything.
bool are_times(const harness::Estimate& ms) {
  const auto& interval = ms.interval;
  return ms.center >= 1e-6 && ms.center <= 1e12 && (!interval || (interval->lo >= 0 && interval->hi >= interval->lo));
}

bool are_of_one_file(const HistoryPoint& point, const HistoryPoint& other) {
  return point.study == other.study && point.file == other.file;
}

// What the newest study lacks.
void add_note(const Series& series, std::vector<std::string>& notes) {
  const HistoryPoint& latest = series.points.back();
  const std::string rung = fmt::format("{} ({})", latest.label, latest.recipe_hash);
  if (series.missed) {
    notes.push_back(fmt::format("{} is not known in the newest study, {}, {}: {}", rung,
                                series.missed->time.substr(0, 10), series.missed->study, series.missed->failure));
  }
  if (series.dropped) {
    notes.push_back(
        fmt::format("{} does not count any more: it was last measured on {}, and the newest study of its ladder, mode, "
                    "size and device does not have it",
                    rung, latest.time.substr(0, 10)));
  }
}

std::string finding(const History& history) {
  const auto count = [&](auto holds) { return std::ranges::count_if(history.series, holds); };
  const auto current = count([](const DescribedSeries& one) { return one.current; });
  const auto dropped = count([](const DescribedSeries& one) { return one.dropped; });
  const auto gone =
      count([](const DescribedSeries& one) { return !one.current && !one.dropped && one.verdict == Trend::slower; });
  const auto judged = count([](const DescribedSeries& one) { return one.verdict != Trend::too_few; });
  const size_t slower = history.slower, missed = history.missed;
  std::string words = judged == 0   ? "No rung has enough studies yet to tell a change"
                      : slower == 0 ? "No rung is known to be slower than at its best"
                                    : fmt::format("{} of {} rungs {} best", slower, current,
                                                  slower == 1 ? "is slower than at its" : "are slower than at their");
  if (missed > 0) words += fmt::format("; {} {} not known in the newest study", missed, missed == 1 ? "is" : "are");
  if (gone > 0) words += fmt::format("; {} {}, until the circumstances changed", gone, gone == 1 ? "was" : "were");
  if (dropped > 0) words += fmt::format("; {} {} not measured any more", dropped, dropped == 1 ? "is" : "are");
  return words;
}

std::string method(double min_effect) {
  return fmt::format(
      "Jumps: circular binary segmentation, 999 permutations or more, p at most {}; drift: Mann and Kendall's test, "
      "p at most {}, slope of Theil and Sen; on the logarithm of a study's median. Of 100 series in which nothing "
      "changes, about {:.0f} show a change. Slower, faster: by {:g} % at least, and sure among all rungs judged "
      "together (Benjamini and Hochberg).",
      harness::false_steps, harness::false_drifts, 100 * (harness::false_steps + harness::false_drifts),
      100 * min_effect);
}

// What there is in a folder and below.
struct Found {
  std::vector<std::pair<std::string, Study>> studies;  // by name
  std::vector<SkippedFile> skipped;
  std::vector<std::string> notes;
  bool any_file = false;
};

// Copies of a study, and its shards, count once: the one with the most runs.
void add_study(Found& found, const std::string& name, Study study) {
  const auto note = [&](const std::string& copy, const std::string& counted) {
    found.notes.push_back(fmt::format("{}: the same study as {}, counted once", copy, counted));
  };
  const auto larger = std::ranges::find_if(found.studies, [&](const auto& other) {
    return are_of_one_study(study, other.second) && other.second.plan.runs_ok >= study.plan.runs_ok;
  });
  if (larger != found.studies.end()) {
    note(name, larger->first);
    return;
  }
  std::erase_if(found.studies, [&](const auto& other) {
    if (!are_of_one_study(study, other.second)) return false;
    note(other.first, name);
    return true;
  });
  found.studies.emplace_back(name, std::move(study));
}

Found find_studies(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw std::invalid_argument(
        fmt::format("{}: {}", folder.string(), fs::exists(folder) ? "not a folder" : "no such file or folder"));
  }
  const std::vector<fs::path> files =
      files::files_below(folder, [](const fs::path& file) { return file.filename() == study_file; });
  Found found;
  found.any_file = !files.empty();
  for (const fs::path& file : files) {
    const std::string name = as_utf8(file.lexically_relative(folder).string());
    try {
      auto study = read_document<Study>(file);
      (void)time_of(study, name);
      add_study(found, name, std::move(study));
    } catch (const std::exception& error) {
      found.skipped.push_back({name, as_utf8(error.what())});
    }
  }
  return found;
}

}  // namespace

void add_points(const Study& study, const std::string& file, std::vector<HistoryPoint>& points,
                std::vector<std::string>& notes) {
  const std::string& time = time_of(study, file);
  const Workload& planned = study.workload;
  const std::string plan =
      fmt::format("{}, {}, {}, {}, {} x {} x {}", study.ladder.name, name_of(study.mode),
                  study.swept ? name_of(*study.swept) : "", planned.model, planned.B, planned.T, planned.accumulation);
  if (study.metric && !study.metric->pattern.empty()) {
    notes.push_back(fmt::format("{}: is left out: it compares {}, not times", file, study.metric->name));
    return;
  }
  if (study.from_logs) {
    notes.push_back(fmt::format("{}: is left out: it is of logs", file));
    return;
  }
  for (const StudyRung& rung : study.rungs) {
    const bool was_planned = rung.status != RungStatus::not_applicable && rung.status != RungStatus::not_measured;
    if (rung.peer || !was_planned) continue;
    Workload workload = planned;
    if (rung.workload) {  // in a sweep
      workload.B = rung.workload->B;
      workload.T = rung.workload->T;
      workload.accumulation = rung.workload->accumulation;
    }
    const std::optional<harness::Estimate> ms = ms_per_step(rung);
    if (ms && !are_times(*ms)) {
      notes.push_back(fmt::format("{}: rung \"{}\" is left out: its ms_per_step are no times", file, rung.title));
      continue;
    }
    HistoryPoint point{.study = study.id,
                       .file = file,
                       .time = time,
                       .ladder = study.ladder.name,
                       .label = rung.label,
                       .plan = plan,
                       .setting = setting_of(study.environment, workload, rung.recipe),
                       .recipe_hash = "",
                       .git_commit = study.environment.git_commit,
                       .git_dirty = study.environment.git_dirty,
                       .failure = why_unused(study, rung),
                       .ms_per_step = ms,
                       .disturbed = rung.flags.has_value()};
    point.recipe_hash =
        rung.command ? command_hash(rung.command->text, rung.command->unit) : recipe_hash(rung.recipe, workload);
    points.push_back(std::move(point));
  }
}

std::vector<Series> series_of(std::vector<HistoryPoint> points) {
  std::ranges::stable_sort(points, {}, [](const HistoryPoint& point) { return std::pair(point.time, point.study); });
  const auto plan_on_device = [](const HistoryPoint& point) {
    return std::pair(point.setting.device_slug(), point.plan);
  };
  std::map<std::pair<std::string, std::string>, const HistoryPoint*> newest;
  for (const HistoryPoint& point : points) newest[plan_on_device(point)] = &point;

  // A line is one recipe on one device: its series follow each other as circumstances change.
  struct Line {
    std::vector<Series> series;
    std::optional<HistoryPoint> last;  // with or without a time
    bool in_newest = false;
  };
  using Key = std::pair<std::string, std::string>;  // device, recipe
  std::vector<Key> order;
  std::map<Key, Line> lines;
  for (const HistoryPoint& point : points) {
    const Key key{point.setting.device_slug(), point.recipe_hash};
    if (!lines.contains(key)) order.push_back(key);
    Line& line = lines[key];
    line.in_newest = line.in_newest || are_of_one_file(point, *newest.at(plan_on_device(point)));
    // Two rungs of one study may have the same recipe, in a factorial design for instance: the first time counts.
    if (!line.last || !are_of_one_file(point, *line.last) || !line.last->ms_per_step) line.last = point;
    if (!point.ms_per_step) continue;
    auto series = std::ranges::find_if(
        line.series, [&](const Series& one) { return differences(one.points.back().setting, point.setting).empty(); });
    if (series == line.series.end()) {
      Series fresh{};
      if (!line.series.empty())
        fresh.new_because = differences(point.setting, line.series.back().points.back().setting);
      series = line.series.insert(line.series.end(), std::move(fresh));
    }
    if (series->points.empty()) {
      series->points.push_back(point);
    } else if (!are_of_one_file(point, series->points.back())) {
      HistoryPoint next = point;
      next.setting.fill_from(series->points.back().setting);  // so that the one after it is held to that
      series->points.push_back(std::move(next));
    }
  }
  std::ranges::stable_sort(order, {}, &Key::first);
  std::vector<Series> result;
  for (const Key& key : order) {
    Line& line = lines[key];
    const auto latest =
        std::ranges::max_element(line.series, {}, [](const Series& one) { return one.points.back().time; });
    for (auto series = line.series.begin(); series != line.series.end(); ++series) {
      series->current = series == latest && line.in_newest;
      series->dropped = series == latest && !line.in_newest;
      if (series->current && !line.last->failure.empty()) series->missed = line.last;
      series->left_out = series->points.size() - std::min(series->points.size(), most_points);
      series->points.erase(series->points.begin(),
                           series->points.begin() + static_cast<std::ptrdiff_t>(series->left_out));
      result.push_back(std::move(*series));
    }
  }
  return result;
}

History history_of(const fs::path& folder, double min_effect) {
  Found found = find_studies(folder);
  std::vector<HistoryPoint> points;
  size_t read = 0;
  for (const auto& [name, study] : found.studies) {
    try {
      add_points(study, name, points, found.notes);
      ++read;
    } catch (const std::invalid_argument& error) {
      found.skipped.push_back({name, as_utf8(error.what())});
    }
  }
  const std::vector<Series> all = series_of(std::move(points));
  if (all.empty()) {
    const std::string why = !found.any_file ? "no study.json in it or below"
                            : read == 0     ? "none of its studies can be read: " + found.skipped.front().reason
                                            : "no study in it has a measured rung that can be used";
    throw std::invalid_argument(fmt::format("{}: {}; `ladder ablate` makes studies", folder.string(), why));
  }
  for (const Series& one : all) add_note(one, found.notes);
  History history{.created = harness::utc_now(),
                  .studies = read,
                  .min_effect = min_effect,
                  .finding = {},
                  .method = method(min_effect),
                  .skipped = std::move(found.skipped),
                  .notes = std::move(found.notes),
                  .series = describe(all, min_effect)};
  const auto count = [&](auto holds) { return static_cast<size_t>(std::ranges::count_if(history.series, holds)); };
  history.slower = count([](const DescribedSeries& one) { return one.current && one.verdict == Trend::slower; });
  history.missed = count([](const DescribedSeries& one) { return one.missed.has_value(); });
  history.finding = finding(history);
  return history;
}

}  // namespace study
