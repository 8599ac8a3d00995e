// What became of each rung's time over all studies that were kept. Only times under equal circumstances
// (ablations/run/setting.h) make a series: after a new driver or a new torch another one begins.
#pragma once

#include "harness/json_file.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ablations {

// One for each measured rung of this program (no peer's), of a study that passed study.v1.json.
struct HistoryPoint {
  std::string study, file, time;  // id; where it was found; when it ended or, unfinished, began: ISO 8601, UTC
  std::string ladder, label;      // "gpt2-cpu", "+ bf16 autocast"
  harness::Json setting;
  std::string recipe_hash;
  harness::Json git_commit, git_dirty;  // as in the environment; null where it does not say
  double median, lo, hi;                // ms per step; lo and hi are 0 where a single run has no interval
  bool disturbed;
};

// Appends the points of `study`, found in `file`, and a line for each measured rung that cannot be used. Throws
// std::invalid_argument where the study says no time.
void add_points(const harness::Json& study, const std::string& file, std::vector<HistoryPoint>& points,
                std::vector<std::string>& notes);

// The `series` of history.v1.json: by device, then as the rungs first appeared, then by time. Changes are those of
// harness/change_points.h on the logarithms of the medians; of more than 1,000 studies the latest count.
harness::Json series_of(std::vector<HistoryPoint> points);

// history.v1.json of every study.json in `folder` and below. Those that cannot be read are in `skipped`, copies in
// `notes`. Throws std::invalid_argument where there is no folder or no study with a measured rung.
harness::Json history_of(const std::filesystem::path& folder);

}  // namespace ablations
