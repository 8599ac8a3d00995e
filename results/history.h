// The times of rungs over stored studies, and where they changed: results/schemas/history.v1.json.
#pragma once

#include "results/common.h"
#include "results/setting.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace results {

// `slower`: the latest level is above the best one by the least effect that matters. `faster`: it is not, and is below
// the first one by as much. `too_few`: there are too few studies to tell.
enum class Trend { too_few, unchanged, slower, faster };

template <>
struct Names<Trend> {
  static constexpr std::array list{"too_few", "unchanged", "slower", "faster"};
};

// What one study measured: the median, and its interval.
struct SeriesPoint : Bounds {
  std::string study, file, time;  // id; within the folder; when it ended or, unfinished, began: ISO 8601, UTC
  std::optional<std::string> git_commit;
  std::optional<bool> git_dirty;
  double median = 0;       // ms per step
  double level = 0;        // ms per step without the noise: steps and drift only
  bool disturbed = false;  // the rung had flags

  LADDER_MORE_FIELDS(Bounds, SeriesPoint, study, file, time, git_commit, git_dirty, (median, positive), level,
                     disturbed)
};

// The newest study of a rung, if it has no number there: it failed, is not proven or void, or runs are missing.
struct MissedStudy {
  std::string study, file, time, reason;  // "failed: exit 7"

  LADDER_FIELDS(MissedStudy, study, file, time, reason)
};

struct SeriesStep {
  size_t at = 0;     // the first point of the new level
  double ratio = 1;  // new level / old level; above 1: slower
  double p = 1;

  LADDER_FIELDS(SeriesStep, at, ratio, p)
};

struct SeriesDrift {
  double ratio_per_study = 1;
  double ratio = 1;  // first to last, without the steps
  double p = 1;

  LADDER_FIELDS(SeriesDrift, ratio_per_study, ratio, p)
};

struct Slowdown {
  double ratio = 1;          // latest level / best level
  size_t best_level_at = 0;  // the last point of the best level

  LADDER_FIELDS(Slowdown, ratio, best_level_at)
};

struct DescribedSeries {
  std::string device_slug, recipe_hash;
  std::string label, ladder;  // of the latest study: "+ bf16 autocast"
  Setting setting;            // equal for every point
  bool current = true;        // false: the same recipe was measured later under other circumstances, or dropped
  bool dropped = false;       // the newest study of the same ladder, mode, size and device does not have the rung
  std::optional<MissedStudy> missed;
  std::vector<std::string> new_because;  // what differs from the series before it, of the same recipe and device
  size_t left_out = 0;                   // oldest points, beyond 1,000
  std::vector<SeriesPoint> points;
  size_t best = 0;                             // the point with the smallest median
  double against_first = 1, against_best = 1;  // latest median / first, smallest
  std::vector<SeriesStep> steps;
  std::optional<SeriesDrift> drift;
  std::optional<Slowdown> slowdown;  // none unless it became slower
  Trend verdict = Trend::too_few;
  std::string finding;  // in words

  LADDER_FIELDS(DescribedSeries, device_slug, recipe_hash, label, ladder, setting, current, dropped, missed,
                new_because, left_out, (points, some), best, against_first, against_best, steps, drift, slowdown,
                verdict, finding)
};

struct SkippedFile {
  std::string file, reason;

  LADDER_FIELDS(SkippedFile, file, reason)
};

struct History {
  static constexpr auto kind = "history";
  static constexpr auto about = "The times of rungs over stored studies, and where they changed";

  std::string created;
  size_t studies = 0;  // that were read
  double min_effect = 0;
  std::string finding;            // in one line
  size_t slower = 0, missed = 0;  // current series
  std::string method;             // how changes are found, and how often where there are none
  std::vector<SkippedFile> skipped;
  std::vector<std::string> notes;
  std::vector<DescribedSeries> series;

  LADDER_FIELDS(History, created, studies, (min_effect, from_0), finding, slower, missed, method, skipped, notes,
                (series, some))
};

LADDER_COMPILED_ONCE(History)

}  // namespace results
