#include "ablations/profile/profile_counters.h"

#include "ablations/gpt2/gpt2_workload.h"
#include "harness/machine/gpu_monitor.h"
#include "harness/machine/machine.h"
#include "harness/process/utc.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

namespace ablations {

using files::Json;

namespace {

std::string plural(int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// "1.23 GB", decimal, as memory bandwidths are given.
std::string bytes(double value) {
  for (const char* unit : {"B", "kB", "MB", "GB"}) {
    if (value < 999.5) return fmt::format("{} {}", number(value), unit);
    value /= 1000;
  }
  return fmt::format("{} TB", number(value));
}

std::optional<double> finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

CounterSummary counter_summary(const std::vector<harness::CounterValue>& values) {
  const auto value = [&](const char* metric) {
    const auto found = std::ranges::find(values, metric, &harness::CounterValue::metric);
    return found == values.end() ? std::nan("") : found->value;
  };
  const double ms = 1e-6 * value("gpu__time_duration.sum");
  const auto either = [&](double first, double second) { return std::isnan(first) ? second : first; };
  const double read = either(value("dram__bytes_read.sum"), value("dram__bytes_op_read.sum"));
  const double written = either(value("dram__bytes_write.sum"), value("dram__bytes_op_write.sum"));
  return {.gpu_time_ms = finite(ms),
          .dram_read_bytes = finite(read),
          .dram_write_bytes = finite(written),
          .dram_bytes_per_s = finite((read + written) / ms * 1e3),
          .l2_bytes = finite(value("lts__t_bytes.sum")),
          .tensor_active_percent = finite(value("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed")),
          .sm_active_percent = finite(value("sm__cycles_active.avg.pct_of_peak_sustained_elapsed"))};
}

}  // namespace

void check_passes(const std::string& chip, int64_t passes, int64_t max_passes) {
  if (passes <= max_passes) return;
  throw std::invalid_argument(
      fmt::format("--metrics: {} needs {} for them, {} allowed; ask for fewer, or set --max-passes {}", chip,
                  plural(passes, "pass", "passes"), plural(max_passes, "is", "are"), passes));
}

StepCounters count_step(const RunOptions& options, const std::vector<std::string>& metrics, int64_t max_passes,
                        const std::function<void(const std::string&)>& announce) {
  if (options.recipe.device != model::Device::cuda) {
    throw std::invalid_argument(
        "--counters: needs a recipe with device cuda, got cpu; in --ladder gpt2 that is each rung from --rung gpu on");
  }
  harness::Counters counters(metrics);
  const int64_t passes = counters.passes();
  check_passes(counters.chip(), passes, max_passes);
  RunOptions warmed_up = options;
  warmed_up.warmup_steps = std::max(options.warmup_steps, model::runs_before_replay);
  const int64_t warmup = warmed_up.warmup_steps;
  announce(fmt::format("{} on {}: {} run after {} of warm-up", plural(passes, "pass", "passes"), counters.chip(),
                       plural(passes, "step is", "steps are"), warmup));
  Gpt2Workload workload(warmed_up, warmup + passes);
  for (int64_t step = 0; step < warmup; ++step) workload.step();
  workload.synchronize();
  harness::Monitor monitor(harness::current_bus_id());
  monitor.begin();
  StepCounters counted{.chip = counters.chip(),
                       .workload = workload.description(),
                       .warmup_steps = warmup,
                       .passes = passes,
                       .values = counters.measure([&] { workload.step(); })};
  counted.flags = harness::flags(monitor.end());
  return counted;
}

CountersDocument counters_document(const RunOptions& options, const StepCounters& counters) {
  CountersDocument document{.id = options.id,
                            .created = harness::utc_now(),
                            .recipe = model::to_json(options.recipe),
                            .optimizations = options.applied,
                            .workload = counters.workload,
                            .device = {.chip = counters.chip},
                            .warmup_steps = counters.warmup_steps,
                            .passes = counters.passes,
                            .summary = counter_summary(counters.values),
                            .flags = counters.flags,
                            .environment = environment_here()};
  if (const auto& gpu = harness::this_machine().gpu) document.device.name = gpu->name;
  for (const auto& [metric, value, unit] : counters.values) document.metrics[metric] = {finite(value), unit};
  return document;
}

std::string counters_table(const CountersDocument& counters) {
  const Workload& workload = counters.workload;
  const int64_t passes = counters.passes;
  std::string text = fmt::format(
      "One step of {} ({} B={} T={}) on {}, {}{}\n\n", counters.id, workload.model, workload.B, workload.T,
      counters.device.name.value_or("?"), counters.device.chip,
      passes == 1 ? "" : fmt::format("\n{} passes: the values come from {} steps, one after another", passes, passes));
  const auto line = [&](const char* label, const std::optional<double>& value, const auto& show) {
    if (value) text += fmt::format("{:<20}{:>12}\n", label, show(*value));
  };
  const auto percent = [](double value) { return fmt::format("{:.1f} %", value); };
  const CounterSummary& summary = counters.summary;
  line("GPU time", summary.gpu_time_ms, [](double ms) { return number(ms) + " ms"; });
  line("DRAM read", summary.dram_read_bytes, bytes);
  line("DRAM written", summary.dram_write_bytes, bytes);
  line("DRAM rate", summary.dram_bytes_per_s, [](double rate) { return bytes(rate) + "/s"; });
  line("L2", summary.l2_bytes, bytes);
  line("SM active", summary.sm_active_percent, percent);
  line("tensor pipe active", summary.tensor_active_percent, percent);
  text += text.ends_with("\n\n") ? "" : "\n";
  for (const std::string& flag : counters.flags) text += "disturbed: " + flag + "\n";
  for (const auto& [name, metric] : counters.metrics) {
    text += fmt::format("{:>10} {:<4} {}\n", metric.value ? fmt::format("{:.5g}", *metric.value) : "unknown",
                        metric.unit, name);
  }
  return text;
}

MetricsList list_metrics(const std::string& chip_or_none, const std::vector<std::string>& metrics) {
  if (chip_or_none.empty() && !harness::this_machine().gpu) {
    throw std::invalid_argument(fmt::format("--list-metrics: needs --chip where there is no GPU; CUPTI knows {}",
                                            fmt::join(harness::counter_chips(), ", ")));
  }
  MetricsList list{.chip = chip_or_none.empty() ? harness::current_chip() : chip_or_none};
  if (metrics.empty()) {
    list.base_metrics = harness::base_metrics(list.chip);
    return list;
  }
  const harness::MetricSet set(list.chip, metrics);
  const std::vector<std::string> units = set.units();
  for (size_t i = 0; i < metrics.size(); ++i) list.metrics.push_back({metrics[i], units[i]});
  list.passes = set.passes();
  return list;
}

Json to_json(const MetricsList& list) {
  Json rows = Json::array();
  for (const auto& [name, unit] : list.metrics) rows.push_back({{"name", name}, {"unit", unit}});
  if (!rows.empty()) return {{"chip", list.chip}, {"passes", list.passes}, {"metrics", rows}};
  for (const auto& [name, kind, unit, description] : list.base_metrics) {
    rows.push_back({{"name", name}, {"kind", kind}, {"unit", unit}, {"description", description}});
  }
  return {{"chip", list.chip}, {"base_metrics", rows}};
}

std::string metrics_table(const MetricsList& list) {
  std::string text;
  for (const auto& [name, kind, unit, description] : list.base_metrics) {
    text += fmt::format("{:<10} {} [{}] {}\n", kind, name, unit, description);
  }
  if (list.metrics.empty()) return text;
  for (const auto& [name, unit] : list.metrics) text += fmt::format("{} [{}]\n", name, unit);
  return text + fmt::format("{} on {}\n", plural(list.passes, "pass", "passes"), list.chip);
}

}  // namespace ablations
