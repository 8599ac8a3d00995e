// The times of one rung in order, under equal circumstances: their levels, where these changed, and the finding in
// words.
#pragma once

#include "harness/stats/change_points.h"
#include "harness/stats/stats.h"
#include "results/history.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace study {

// A rung of this program (no peer's) in a study that passed study.v1.json and was to measure it.
struct HistoryPoint {
  std::string study, file, time;  // id; where it was found; when it ended or, unfinished, began: ISO 8601, UTC
  std::string ladder, label;      // "gpt2-cpu", "+ bf16 autocast"
  std::string plan;               // ladder, mode and size: what a later study of the same plan measures again
  Setting setting;
  std::string recipe_hash;
  std::optional<std::string> git_commit;
  std::optional<bool> git_dirty;
  std::string failure;  // "failed: exit 7", "2 of its runs are missing"; empty: measured in full
  std::optional<harness::Estimate> ms_per_step;  // none: it has no time
  bool disturbed = false;
};

struct Series {
  std::vector<HistoryPoint> points;      // each with a time, in order of time
  size_t left_out = 0;                   // older ones
  bool current = false;                  // neither ended by new circumstances nor dropped
  bool dropped = false;                  // the newest study of its plan and device does not have the rung
  std::optional<HistoryPoint> missed;    // the rung in the newest study, where that has a failure
  std::vector<std::string> new_because;  // what differs from the series before it, of the same recipe and device
};

struct SeriesVerdict {
  Trend trend;
  bool unsure;             // "unchanged", because chance does as much too often among so many series
  double lost;             // last level - best level, as logarithms
  size_t best_level_at;    // the last value of the best level
  size_t judged_together;  // series of the family that are long enough
};

// Judges the changes of several series together; any of them would raise an alarm. Changes are in logarithms of times.
// Slower: the last level is above the best by at least `min_effect` (0.02: 2 %). Faster: it is not slower, and below
// the first by as much. The changes must also be sure among all series, by the procedure of Benjamini and Hochberg
// (1995). So several unchanged series raise a false alarm as rarely as one does.
std::vector<SeriesVerdict> verdicts_of(std::span<const harness::Changes> family, double min_effect);

// Keeps the order. Judges the current series together, and the others together. Changes are those of
// harness/stats/change_points.h on the logarithms of the medians.
std::vector<DescribedSeries> describe(const std::vector<Series>& all, double min_effect);

// JSON carries UTF-8 only; names of files, and texts that were cut, may be anything.
std::string as_utf8(const std::string& text);

}  // namespace study
