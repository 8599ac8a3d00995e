// A trace: where the time of one recipe's steps went. results/schemas/trace.v1.json explains the fields.
#pragma once

#include "files/json_file.h"
#include "results/common.h"
#include "results/environment.h"
#include "results/fields.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace results {

// A roofline as a trace holds it: how far each part of a step is from what the device allows. It is computed by
// study/trace/roofline.h.

struct Limits {
  double flops_per_s = 0, bytes_per_s = 0;
  std::string source;         // "measured: bf16 8192^3, copy of 4 GiB"
  double flops_per_byte = 0;  // where both limits meet
  std::string refuted = {};   // what ran faster than the measured limits, which these replace; empty: nothing

  LADDER_FIELDS(Limits, flops_per_s, bytes_per_s, source, flops_per_byte, (refuted, absent))
};

// The least that an operation of a step costs (ablations/techniques/step_table.h). It is not written.
struct Cost {
  std::string phase;  // "forward", "backward", "clip", "update"
  std::string op;     // as in ops.h; "clip", "adamw"
  std::string part;   // as the model announces it (Ops::on_part): "c_attn", "ln_1", "head"; "" of clip and adamw
  int64_t calls = 0;  // per step
  double flops = 0;   // per step
  double bytes = 0;   // per step
};

// Which limit takes the larger part of the time at the limit; `none` where there is no limit.
enum class Bound { compute, memory, none };
template <>
struct Names<Bound> {
  static constexpr std::array list{"compute", "memory", "none"};
};

struct RooflineRow {
  std::string phase;
  std::optional<std::string> part;  // the model's, "clip", "adamw", "other"; absent in the row of a phase
  double flops = 0, bytes = 0;
  double limit_ms = 0;
  Bound bound_by = Bound::none;
  std::optional<double> measured_ms;
  std::optional<double> distance;  // measured over limit; none without either
  std::optional<double> ms_above;  // measured less limit
  // What a roofline's axes show; none where there are no FLOPs or no bytes, or no time in which they were done.
  std::optional<double> flops_per_byte, flops_per_s;

  LADDER_FIELDS(RooflineRow, phase, (part, absent), (flops, from_0), (bytes, from_0), (limit_ms, from_0), bound_by,
                measured_ms, distance, ms_above, flops_per_byte, flops_per_s)
};

struct Roofline {
  Limits limits;
  std::vector<RooflineRow> phases, parts;  // most milliseconds above the limit first, what was not measured last

  LADDER_FIELDS(Roofline, limits, phases, parts)
};

LADDER_COMPILED_ONCE(Roofline)

// The time of something in one step; the least and the most are over all traced steps.
struct StepTime {
  double ms = 0, min_ms = 0, max_ms = 0;
  int64_t count = 0;

  LADDER_FIELDS(StepTime, (ms, {.least = 0, .most = 1e12}), (min_ms, {.least = 0, .most = 1e12}),
                (max_ms, {.least = 0, .most = 1e12}), (count, {.least = 0, .most = 1e12}))
};

struct PhaseTime : StepTime {
  std::string phase;  // "" for what no phase asked for

  LADDER_MORE_FIELDS(StepTime, PhaseTime, phase)
};

struct PartTime : StepTime {
  std::string phase, part;  // "" for what no part asked for

  LADDER_MORE_FIELDS(StepTime, PartTime, phase, part)
};

struct LayerTime : StepTime {
  int64_t layer = 0;

  LADDER_MORE_FIELDS(StepTime, LayerTime, layer)
};

struct NameTime : StepTime {
  std::string name;  // of a kernel, a copy, or a CPU's operation

  LADDER_MORE_FIELDS(StepTime, NameTime, name)
};

struct TransferTime : StepTime {
  std::string kind;  // "host to device"
  int64_t bytes = 0;

  LADDER_MORE_FIELDS(StepTime, TransferTime, kind, (bytes, from_0))
};

struct Gaps {
  int64_t count = 0;
  double ms = 0, largest_ms = 0;

  LADDER_FIELDS(Gaps, count, ms, largest_ms)
};

struct TraceSummary {
  int64_t steps = 1;
  double wall_ms = 0;  // without tracing
  double traced_wall_ms = 0;
  double busy_ms = 0, least_busy_ms = 0, most_busy_ms = 0;
  std::optional<double> busy_percent, idle_ms;  // as written; read them by busy_of (study/trace/divided_step.h)
  Gaps gaps;
  std::optional<double> launch_bound_percent;  // a GPU's, as both kinds of launches are
  int64_t operations = 0, kernels = 0, copies = 0, sets = 0;
  std::optional<int64_t> kernel_launches, graph_launches;
  double unlabelled_ms = 0;
  std::vector<PhaseTime> by_phase;  // the longest first, as parts and names are
  std::vector<PartTime> by_part;
  std::vector<LayerTime> by_layer;
  std::vector<NameTime> by_name;
  std::vector<TransferTime> transfers;

  [[nodiscard]] bool on_gpu() const { return kernel_launches.has_value(); }

  LADDER_FIELDS(TraceSummary, (steps, from_1), (wall_ms, {.least = 0, .most = 1e12}),
                (traced_wall_ms, {.least = 0, .most = 1e12}), (busy_ms, {.least = 0, .most = 1e12}),
                (least_busy_ms, {.least = 0, .most = 1e12}), (most_busy_ms, {.least = 0, .most = 1e12}),
                (busy_percent, {.least = 0, .most = 100}), (idle_ms, {.least = 0, .most = 1e12}), gaps,
                launch_bound_percent, (operations, {.least = 0, .most = 1e12}), (kernels, {.least = 0, .most = 1e12}),
                (copies, {.least = 0, .most = 1e12}), (sets, {.least = 0, .most = 1e12}), kernel_launches,
                graph_launches, unlabelled_ms, by_phase, by_part, by_layer, by_name, transfers)
};

struct TraceDocument {
  static constexpr auto kind = "trace";
  static constexpr auto about = "Where the time of the steps of one recipe went";

  std::string created, title;
  NamedDevice device;
  files::Json recipe;  // as a record has it
  Workload workload;
  PeakMemory memory;
  std::optional<std::vector<std::string>> flags;  // what disturbed it, in the words of a record; absent: not watched
  TraceSummary summary;
  std::optional<Roofline> roofline;
  Environment environment;

  // Throws std::invalid_argument for launches on a CPU, and for a GPU without.
  void check(const std::string& where) const;

  LADDER_FIELDS(TraceDocument, created, title, device, recipe, workload, memory, (flags, absent), summary,
                (roofline, absent), environment)
};

// A study's rung holds of its trace:
struct PhaseShare {
  std::string phase;
  double ms = 0;

  LADDER_FIELDS(PhaseShare, phase, ms)
};

// A step without tracing, divided as the traced one is.
struct DividedStep {
  double ms = 0;
  double traced_ms = 0;  // all parts of the traced step; what ran at the same time counts twice in both
  std::optional<double> idle_ms;
  std::vector<PhaseShare> by_phase;

  LADDER_FIELDS(DividedStep, ms, traced_ms, idle_ms, by_phase)
};

struct RungProfile {
  std::optional<double> busy_percent, idle_ms, launch_bound_percent;
  std::vector<PhaseTime> by_phase;
  DividedStep step;

  LADDER_FIELDS(RungProfile, busy_percent, idle_ms, launch_bound_percent, by_phase, step)
};

LADDER_COMPILED_ONCE(TraceDocument)

// What a GPU's hardware counters say of one training step (results/schemas/counters.v1.json, which says what the fields
// mean).

struct CountedDevice {
  std::optional<std::string> name;
  std::string chip;  // "GH100"

  LADDER_FIELDS(CountedDevice, name, chip)
};

struct CountedMetric {
  std::optional<double> value;  // none: the hardware gave none
  std::string unit;

  LADDER_FIELDS(CountedMetric, value, unit)
};

// The most useful figures, in fixed units; none if the metrics do not give them.
struct CounterSummary {
  std::optional<double> gpu_time_ms;  // of the range
  std::optional<double> dram_read_bytes, dram_write_bytes;
  std::optional<double> dram_bytes_per_s;  // both, over that time
  std::optional<double> l2_bytes;
  std::optional<double> tensor_active_percent, sm_active_percent;  // of the elapsed cycles, averaged over the SMs

  LADDER_FIELDS(CounterSummary, gpu_time_ms, dram_read_bytes, dram_write_bytes, dram_bytes_per_s, l2_bytes,
                tensor_active_percent, sm_active_percent)
};

struct CountersDocument {
  static constexpr auto kind = "counters";
  static constexpr auto about =
      "Hardware counters of one training step, read in a process of its own: no time in it is a measurement of speed";

  std::string id, created;
  files::Json recipe;  // as a record has it
  std::vector<std::string> optimizations;
  Workload workload;
  CountedDevice device;
  int64_t warmup_steps = 0, passes = 0;
  std::map<std::string, CountedMetric> metrics;
  CounterSummary summary;
  std::vector<std::string> flags;  // what disturbed it, in the words of a record
  Environment environment;

  LADDER_FIELDS(CountersDocument, id, created, recipe, optimizations, workload, device, (warmup_steps, from_0),
                (passes, from_1), (metrics, some), summary, (flags, absent), environment)
};

LADDER_COMPILED_ONCE(CountersDocument)

}  // namespace results
