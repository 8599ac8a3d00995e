#include "ablations/run/run.h"
#include "harness/stats/stats.h"

#include <iterator>

namespace ablations {

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

}  // namespace ablations
