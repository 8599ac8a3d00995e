// How far each part of a step is from what the device allows: measured time over the time at the limit, which is the
// larger of its FLOPs over the matrix rate and its least bytes over the memory's rate (Williams, Waterman and Patterson
// 2009, "Roofline"). Both counts are ablations/techniques/costs.h's.
//
// A distance below 1 is possible: what the part before wrote may still be in the cache, and then it is not read from
// memory.
#pragma once

#include "ablations/profile/rates.h"
#include "ablations/techniques/costs.h"
#include "results/roofline.h"
#include "results/trace.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ablations {

// (phase, part) as in a trace, part "" for what no part asked for: ms per step. What the costs do not know has no
// limit: all of its time is above it.
using MeasuredMs = std::map<std::pair<std::string, std::string>, double>;

MeasuredMs measured_by_part(const TraceSummary& summary);

// What the machine reached; none where the recipe's kind of product was not measured.
std::optional<Limits> limits_from_rates(const model::Recipe& recipe, const Rates& rates);

// The limit of a phase is the sum of its parts' limits, because they are kernels of their own. Its measured time is all
// of its parts', also of those that have no costs; a part fused into another stands there without a time.
// Throws std::invalid_argument for limits that are not positive.
Roofline roofline(const std::vector<model::Cost>& costs, const Limits& limits, const MeasuredMs& measured);

// What ran more than 5 % faster than a limit allows, which that limit cannot be: a part bound by matrix products, or
// a phase of one part bound by memory (else the time of a part may stand in the one that it is fused into). "" where
// the limits hold; else "forward mlp ran at 2.02x the measured limit of compute".
std::string refutation_of(const Roofline& roofline);

// The device's data sheet in place of a measured rate; none: it is not known.
std::optional<Limits> limits_from_data_sheet(const model::Recipe& recipe, const std::string& gpu);

// At most 80 columns.
std::string roofline_table(const Roofline& roofline);

}  // namespace ablations
