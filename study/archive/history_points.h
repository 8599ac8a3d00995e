// How each rung's time changed over all stored studies. Only times under equal circumstances
// (results/setting.h) form a series: a new driver or a new torch begins another.
#pragma once

#include "harness/stats/verdict.h"
#include "results/history.h"
#include "results/study.h"
#include "study/archive/series.h"

#include <filesystem>
#include <string>
#include <vector>

namespace study {

// Appends the points of `study`, found in `file`, and a line for each measured rung that cannot be used. Throws
// std::invalid_argument where the study says no time, or one before this program existed or after today.
void add_points(const Study& study, const std::string& file, std::vector<HistoryPoint>& points,
                std::vector<std::string>& notes);

// Series of the points that have a time. They are in the order of device, the rung's first appearance, and time. The
// latest 1,000 studies count.
std::vector<Series> series_of(std::vector<HistoryPoint> points);

// Reads every study.json in `folder` and below. `skipped` names those that cannot be read. `notes` names copies, and
// rungs that are no longer measured. `min_effect` as in series.h. Throws std::invalid_argument where there is no folder
// or no study with a measured rung.
History history_of(const std::filesystem::path& folder, double min_effect = harness::usual_min_effect);

}  // namespace study
