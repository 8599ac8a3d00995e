// How far each part of a step is from what the device allows: measured time over the time at the limit. The limit is
// the larger of FLOPs over the matrix rate and least bytes over the memory's rate (Williams, Waterman and Patterson
// 2009, "Roofline"). Both counts come from ablations/techniques/step_table.h.
//
// A distance below 1 is possible. What the part before wrote may still be in the cache, and then it is not read from
// memory.
#pragma once

#include "results/record.h"
#include "results/trace.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace study {

// ms per step, by (phase, part) as in a trace. Part "" is what no part asked for. Where the costs know nothing there is
// no limit: all of the time is above it.
using MeasuredMs = std::map<std::pair<std::string, std::string>, double>;

MeasuredMs measured_by_part(const TraceSummary& summary);

// The limit of a phase is the sum of its parts' limits, because they are kernels of their own. Its measured time is the
// sum over its parts, also those without costs. A part fused into another stands there without a time.
// Throws std::invalid_argument for limits that are not positive.
Roofline roofline(const std::vector<Cost>& costs, const Limits& limits, const MeasuredMs& measured);

// What ran more than 5 % faster than a limit allows and so refutes it: "forward mlp ran at 2.02x the measured limit of
// compute". Empty: the limits hold. It is a part bound by matrix products, or a phase of one part bound by memory. In
// other phases a part's time may stand in the one that it is fused into.
std::string refutation_of(const Roofline& roofline);

// At most 80 columns.
std::string roofline_table(const Roofline& roofline);

// Model FLOPs utilization: the FLOPs that the model needs, by MFU's formula, over what the device could have done in
// the same time. One peak serves all rungs of a device: its maker's dense figure for bf16, or for fp16 where it has no
// bf16. So MFU rises with tokens/s.
//
// `gpu`: the device's name, empty: the steps ran on a CPU. flops_per_step: Config::flops_per_token times tokens.
Mfu mfu(const std::string& gpu, double flops_per_step, double ms_per_step);

}  // namespace study
