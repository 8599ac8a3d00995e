// A trace: where the time of one recipe's steps went. results/schemas/trace.v1.json explains the fields.
#pragma once

#include "files/json_file.h"
#include "results/common.h"
#include "results/environment.h"
#include "results/roofline.h"
#include "results/workload.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// The time of something in one step; the least and the most are over all traced steps.
struct StepTime {
  double ms = 0, min_ms = 0, max_ms = 0;
  int64_t count = 0;

  static void fields(auto&& field) {
    field("ms", &StepTime::ms);
    field("min_ms", &StepTime::min_ms);
    field("max_ms", &StepTime::max_ms);
    field("count", &StepTime::count);
  }
};

struct PhaseTime : StepTime {
  std::string phase;  // "" for what no phase asked for

  static void fields(auto&& field) {
    StepTime::fields(field);
    field("phase", &PhaseTime::phase);
  }
};

struct PartTime : StepTime {
  std::string phase, part;  // "" for what no part asked for

  static void fields(auto&& field) {
    StepTime::fields(field);
    field("phase", &PartTime::phase);
    field("part", &PartTime::part);
  }
};

struct LayerTime : StepTime {
  int64_t layer = 0;

  static void fields(auto&& field) {
    StepTime::fields(field);
    field("layer", &LayerTime::layer);
  }
};

struct NameTime : StepTime {
  std::string name;  // of a kernel, a copy, or a CPU's operation

  static void fields(auto&& field) {
    StepTime::fields(field);
    field("name", &NameTime::name);
  }
};

struct TransferTime : StepTime {
  std::string kind;  // "host to device"
  int64_t bytes = 0;

  static void fields(auto&& field) {
    StepTime::fields(field);
    field("kind", &TransferTime::kind);
    field("bytes", &TransferTime::bytes);
  }
};

struct Gaps {
  int64_t count = 0;
  double ms = 0, largest_ms = 0;

  static void fields(auto&& field) {
    field("count", &Gaps::count);
    field("ms", &Gaps::ms);
    field("largest_ms", &Gaps::largest_ms);
  }
};

struct TraceSummary {
  int64_t steps = 1;
  double wall_ms = 0;  // without tracing
  double traced_wall_ms = 0;
  double busy_ms = 0, least_busy_ms = 0, most_busy_ms = 0;
  std::optional<double> busy_percent, idle_ms;  // as written; read them by busy_of (trace_summary.h)
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

  static void fields(auto&& field) {
    field("steps", &TraceSummary::steps);
    field("wall_ms", &TraceSummary::wall_ms);
    field("traced_wall_ms", &TraceSummary::traced_wall_ms);
    field("busy_ms", &TraceSummary::busy_ms);
    field("least_busy_ms", &TraceSummary::least_busy_ms);
    field("most_busy_ms", &TraceSummary::most_busy_ms);
    field("busy_percent", &TraceSummary::busy_percent);
    field("idle_ms", &TraceSummary::idle_ms);
    field("gaps", &TraceSummary::gaps);
    field("launch_bound_percent", &TraceSummary::launch_bound_percent);
    field("operations", &TraceSummary::operations);
    field("kernels", &TraceSummary::kernels);
    field("copies", &TraceSummary::copies);
    field("sets", &TraceSummary::sets);
    field("kernel_launches", &TraceSummary::kernel_launches);
    field("graph_launches", &TraceSummary::graph_launches);
    field("unlabelled_ms", &TraceSummary::unlabelled_ms);
    field("by_phase", &TraceSummary::by_phase);
    field("by_part", &TraceSummary::by_part);
    field("by_layer", &TraceSummary::by_layer);
    field("by_name", &TraceSummary::by_name);
    field("transfers", &TraceSummary::transfers);
  }
};

struct TraceDocument {
  static constexpr auto kind = "trace";

  std::string created, title;
  NamedDevice device;
  files::Json recipe;  // as a record has it
  Workload workload;
  PeakMemory memory;
  std::optional<std::vector<std::string>> flags;  // what disturbed it, in the words of a record; absent: not watched
  TraceSummary summary;
  std::optional<Roofline> roofline;
  Environment environment;

  static void fields(auto&& field) {
    field("created", &TraceDocument::created);
    field("title", &TraceDocument::title);
    field("device", &TraceDocument::device);
    field("recipe", &TraceDocument::recipe);
    field("workload", &TraceDocument::workload);
    field("memory", &TraceDocument::memory);
    field("flags", &TraceDocument::flags, None::absent);
    field("summary", &TraceDocument::summary);
    field("roofline", &TraceDocument::roofline, None::absent);
    field("environment", &TraceDocument::environment);
  }
};

// A study's rung holds of its trace:
struct PhaseShare {
  std::string phase;
  double ms = 0;

  static void fields(auto&& field) {
    field("phase", &PhaseShare::phase);
    field("ms", &PhaseShare::ms);
  }
};

// A step without tracing, divided as the traced one is.
struct DividedStep {
  double ms = 0;
  double traced_ms = 0;  // all parts of the traced step; what ran at the same time counts twice in both
  std::optional<double> idle_ms;
  std::vector<PhaseShare> by_phase;

  static void fields(auto&& field) {
    field("ms", &DividedStep::ms);
    field("traced_ms", &DividedStep::traced_ms);
    field("idle_ms", &DividedStep::idle_ms);
    field("by_phase", &DividedStep::by_phase);
  }
};

struct RungProfile {
  std::optional<double> busy_percent, idle_ms, launch_bound_percent;
  std::vector<PhaseTime> by_phase;
  std::optional<DividedStep> step;  // absent in older studies

  static void fields(auto&& field) {
    field("busy_percent", &RungProfile::busy_percent);
    field("idle_ms", &RungProfile::idle_ms);
    field("launch_bound_percent", &RungProfile::launch_bound_percent);
    field("by_phase", &RungProfile::by_phase);
    field("step", &RungProfile::step, None::absent);
  }
};

// Compiled once, in the source beside this.
extern template files::Json json_of(const TraceDocument&);
extern template TraceDocument value_from(const files::Json&, const std::string&);

}  // namespace ablations
