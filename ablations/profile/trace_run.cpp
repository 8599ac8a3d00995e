#include "ablations/profile/trace_run.h"

#include "ablations/profile/chrome_trace.h"
#include "ablations/profile/trace_summary.h"
#include "ablations/run/gpt2_workload.h"
#include "ablations/run/memory.h"
#include "ablations/run/run.h"
#include "harness/clock/clock.h"
#include "harness/gpu/activities.h"
#include "harness/machine/gpu_monitor.h"
#include "harness/machine/machine.h"
#include "harness/machine/processor_time.h"
#include "harness/process/utc.h"
#include "harness/stats/stats.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace ablations {

namespace {

// What had the processor since `begin`, in the words of a run's record.
std::vector<std::string> processor_flags_since(std::chrono::steady_clock::time_point begin,
                                               const std::optional<harness::ProcessorTime>& before, int busy_threads) {
  const auto now = harness::processor_time();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::vector<std::string> flags;
  if (!before || !now) return flags;
  const std::string flag = harness::flag(
      harness::share_lost(*before, *now, seconds, busy_threads, harness::this_machine().cpu.logical_cores));
  if (!flag.empty()) flags.push_back(flag);
  return flags;
}

}  // namespace

TracedRun trace_run(const RunOptions& options, const std::string& title) {
  // One step more than is timed and traced: a graph is captured again while the tracer watches.
  Gpt2Workload workload(options, options.warmup_steps + options.timed_steps + 1 + traced_steps);
  std::optional<harness::Monitor> monitor;
  if (workload.on_cuda()) monitor.emplace(harness::current_bus_id());
  if (monitor) monitor->begin();
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  const auto processor = harness::processor_time();
  PeakWatch peak(options.recipe);
  const harness::Timing timing = harness::measure(
      workload, options.warmup_steps, options.timed_steps, [&](int64_t steps) { peak.after_step(steps); },
      [&] { peak.begin_window(); });
  const PeakMemory memory = peak.peak();
  const std::span<const double> timed = std::span(timing.step_ms).subspan(static_cast<size_t>(timing.warmup_steps));

  workload.follow_autograd();
  const auto step = [&] { workload.step(); };
  const auto prepare = [&] {
    workload.trainer().recapture();
    step();
  };
  harness::Trace trace;
  if (workload.on_cuda()) {
    trace = harness::trace_device(workload.labels(), prepare, traced_steps, step);
  } else {
    prepare();
    trace = harness::trace_operations(workload.labels(), traced_steps, step);
  }

  auto flags = processor_flags_since(begin, processor, busy_threads(options.recipe.device, at::get_num_threads()));
  if (monitor) {
    for (std::string& flag : harness::flags(monitor->end())) flags.push_back(std::move(flag));
  }
  TraceSummary summary = summarize(trace, harness::median(timed));
  if (const std::string slower = slower_when_traced(summary); !slower.empty()) flags.push_back(slower);
  const harness::Machine& machine = harness::this_machine();
  return {.document = {.created = harness::utc_now(),
                       .title = title,
                       .device = {options.recipe.device, workload.on_cuda() ? machine.gpu->name : machine.cpu.model},
                       .recipe = model::to_json(options.recipe),
                       .workload = workload.description(),
                       .memory = memory,
                       .flags = std::move(flags),
                       .summary = std::move(summary),
                       .roofline = {},
                       .environment = environment_here()},
          .timeline = chrome_trace(trace)};
}

}  // namespace ablations
