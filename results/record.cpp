#include "results/record.h"

#include "harness/stats/stats.h"

#include <stdexcept>

namespace results {

void RunEnd::check(const std::string& where) const {
  if (status == RunStatus::missing)
    throw std::invalid_argument(where + ": field [status]: must be one of ok, failed, got missing");
  if (!is_ok() && !failure) throw std::invalid_argument(where + ": field \"failure\" is missing");
}

bool Record::is_of_peer() const { return observations.contains("peer"); }

std::optional<double> Record::compile_seconds() const {
  const double seconds = observations.value(files::Json::json_pointer("/compilation/compile_s"), 0.0);
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

bool Record::is_on_gpu() const { return command ? monitor.has_value() : device_of(recipe) == DeviceKind::cuda; }

RunSummary summary_of(std::span<const double> timed_ms, int64_t tokens_per_step) {
  const double median = harness::median(timed_ms);
  return {.median_ms = median,
          .q1_ms = harness::quantile(timed_ms, 0.25),
          .q3_ms = harness::quantile(timed_ms, 0.75),
          .min_ms = harness::quantile(timed_ms, 0.0),
          .max_ms = harness::quantile(timed_ms, 1.0),
          .n = std::ssize(timed_ms),
          .tokens_per_s = 1000.0 * static_cast<double>(tokens_per_step) / median};
}

Record failed_record(const std::string& id, FailureKind kind, const std::string& message, const std::string& started,
                     double seconds) {
  Record record;
  record.id = id;
  record.started = started;
  record.duration_s = seconds;
  record.status = RunStatus::failed;
  record.failure = Failure{kind, message};
  return record;
}

}  // namespace results
