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

namespace ablations {

// Appends the points of `study`, found in `file`, and a line for each measured rung that cannot be used. Throws
// std::invalid_argument where the study says no time.
void add_points(const Study& study, const std::string& file, std::vector<HistoryPoint>& points,
                std::vector<std::string>& notes);

// The series of those that have a time: by device, then as the rungs first appeared, then by time; of more than 1,000
// studies the latest count.
std::vector<Series> series_of(std::vector<HistoryPoint> points);

// Of every study.json in `folder` and below. Those that cannot be read are in `skipped`, in `notes`
// copies, and rungs that are not measured any more. `min_effect` as in series.h. Throws std::invalid_argument where
// there is no folder or no study with a measured rung.
History history_of(const std::filesystem::path& folder, double min_effect = harness::usual_min_effect);

}  // namespace ablations
