#include "ablations/profile/profile_counters.h"

#include "ablations/text/text.h"
#include "harness/environment.h"
#include "harness/utc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ablations {

using harness::Json;

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

Json summary(const std::vector<harness::CounterValue>& values) {
  const auto value = [&](const char* metric, double factor = 1) {
    const auto found = std::ranges::find(values, metric, &harness::CounterValue::metric);
    return found == values.end() ? std::nan("") : found->value * factor;
  };
  const double ms = value("gpu__time_duration.sum", 1e-6);
  const auto either = [&](double first, double second) { return std::isnan(first) ? second : first; };
  const double read = either(value("dram__bytes_read.sum"), value("dram__bytes_op_read.sum"));
  const double written = either(value("dram__bytes_write.sum"), value("dram__bytes_op_write.sum"));
  const auto number_or_null = harness::finite_or_null;
  return {{"gpu_time_ms", number_or_null(ms)},
          {"dram_read_bytes", number_or_null(read)},
          {"dram_write_bytes", number_or_null(written)},
          {"dram_bytes_per_s", number_or_null((read + written) / ms * 1e3)},
          {"l2_bytes", number_or_null(value("lts__t_bytes.sum"))},
          {"tensor_active_percent",
           number_or_null(value("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"))},
          {"sm_active_percent", number_or_null(value("sm__cycles_active.avg.pct_of_peak_sustained_elapsed"))}};
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
        "--counters: the recipe's device is cpu; counters are a GPU's, as are the rungs from "
        "--rung gpu of --ladder gpt2 on");
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
  return {counters.chip(), workload.description(), warmup, passes, counters.measure([&] { workload.step(); })};
}

Json counters_json(const RunOptions& options, const StepCounters& counters) {
  Json metrics = Json::object();
  for (const auto& [metric, value, unit] : counters.values) {
    metrics[metric] = {{"value", harness::finite_or_null(value)}, {"unit", unit}};
  }
  const Json environment = harness::environment();
  return {{"kind", "counters"},
          {"schema_version", 1},
          {"id", options.id},
          {"created", harness::utc_now()},
          {"recipe", model::to_json(options.recipe)},
          {"optimizations", options.applied},
          {"workload", counters.workload},
          {"device",
           {{"name", environment.at("gpu").is_null() ? Json() : environment.at("gpu").at("name")},
            {"chip", counters.chip}}},
          {"warmup_steps", counters.warmup_steps},
          {"passes", counters.passes},
          {"metrics", metrics},
          {"summary", summary(counters.values)},
          {"environment", environment}};
}

std::string counters_table(const Json& counters) {
  const Json& workload = counters.at("workload");
  const Json& name = counters.at("device").at("name");
  const int64_t passes = counters.at("passes");
  std::string text = fmt::format(
      "One step of {} ({} B={} T={}) on {}, {}{}\n\n", counters.at("id").get<std::string>(),
      workload.at("model").get<std::string>(), workload.at("batch").get<int64_t>(),
      workload.at("context").get<int64_t>(), name.is_null() ? "?" : name.get<std::string>(),
      counters.at("device").at("chip").get<std::string>(),
      passes == 1 ? "" : fmt::format("\n{} passes: the values come from {} steps, one after another", passes, passes));
  const Json& summary = counters.at("summary");
  const auto line = [&](const char* label, const char* key, const auto& show) {
    if (!summary.at(key).is_null()) text += fmt::format("{:<20}{:>12}\n", label, show(summary.at(key).get<double>()));
  };
  const auto percent = [](double value) { return fmt::format("{:.1f} %", value); };
  line("GPU time", "gpu_time_ms", [](double ms) { return number(ms) + " ms"; });
  line("DRAM read", "dram_read_bytes", bytes);
  line("DRAM written", "dram_write_bytes", bytes);
  line("DRAM rate", "dram_bytes_per_s", [](double rate) { return bytes(rate) + "/s"; });
  line("L2", "l2_bytes", bytes);
  line("SM active", "sm_active_percent", percent);
  line("tensor pipe active", "tensor_active_percent", percent);
  text += text.ends_with("\n\n") ? "" : "\n";
  for (const auto& [metric, measured] : counters.at("metrics").items()) {
    const Json& value = measured.at("value");
    text += fmt::format("{:>10} {:<4} {}\n", value.is_null() ? "unknown" : fmt::format("{:.5g}", value.get<double>()),
                        measured.at("unit").get<std::string>(), metric);
  }
  return text;
}

Json metrics_json(const std::string& chip_or_none, const std::vector<std::string>& metrics) {
  if (chip_or_none.empty() && !harness::this_machine().gpu) {
    throw std::invalid_argument(fmt::format("--list-metrics: without a GPU --chip says whose; CUPTI knows {}",
                                            fmt::join(harness::counter_chips(), ", ")));
  }
  const std::string chip = chip_or_none.empty() ? harness::current_chip() : chip_or_none;
  Json list = Json::array();
  if (metrics.empty()) {
    for (const auto& [name, kind, unit, description] : harness::base_metrics(chip)) {
      list.push_back({{"name", name}, {"kind", kind}, {"unit", unit}, {"description", description}});
    }
    return {{"chip", chip}, {"base_metrics", list}};
  }
  const harness::MetricSet set(chip, metrics);
  const std::vector<std::string> units = set.units();
  for (size_t i = 0; i < metrics.size(); ++i) list.push_back({{"name", metrics[i]}, {"unit", units[i]}});
  return {{"chip", chip}, {"passes", set.passes()}, {"metrics", list}};
}

std::string metrics_table(const Json& list) {
  std::string text;
  if (list.contains("base_metrics")) {
    for (const Json& metric : list.at("base_metrics")) {
      text +=
          fmt::format("{:<10} {} [{}] {}\n", metric.at("kind").get<std::string>(), metric.at("name").get<std::string>(),
                      metric.at("unit").get<std::string>(), metric.at("description").get<std::string>());
    }
    return text;
  }
  for (const Json& metric : list.at("metrics")) {
    text += fmt::format("{} [{}]\n", metric.at("name").get<std::string>(), metric.at("unit").get<std::string>());
  }
  return text +
         fmt::format("{} on {}\n", plural(list.at("passes"), "pass", "passes"), list.at("chip").get<std::string>());
}

}  // namespace ablations
