// What a run of a command is compared by in place of the time of its steps (results/common.h, Metric): the last number
// that its lines have, or a time.
#pragma once

#include "harness/lines/step_reader.h"
#include "results/common.h"
#include "results/plan.h"
#include "results/record.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// The metric of --metric, --better and --until; an empty text is not given. "seconds", "seconds to loss 3.28", or a
// regular expression with a group (?P<value>...). Throws std::invalid_argument that names the flag.
Metric metric_of(const std::string& metric, const std::string& better, const std::string& until);

// A loss as a record can hold it; none: it is not finite, or there is none.
std::optional<double> storable(const std::optional<double>& loss);

// Compares a plan's runs by that metric: a whole run is one step. Losses may be guarded where its time is compared.
void compare_by(const Metric& metric, Plan& plan);

class MetricReader {
 public:
  explicit MetricReader(const Metric& metric);

  void take(const harness::LogLine& line);
  void take(const std::vector<harness::StepLine>& steps);                // those of its lines that are steps
  [[nodiscard]] bool is_done() const { return reached_s_.has_value(); }  // the loss that it waits for was printed

  // Why a run that has ended has no number; empty: it has one.
  [[nodiscard]] std::string failure() const;
  // When such a run, which ended after `seconds`, was over.
  [[nodiscard]] double end_s(double seconds) const { return reached_s_.value_or(seconds); }
  // The metric of a run that has no failure.
  [[nodiscard]] std::map<std::string, double> numbers(double seconds) const;
  // The steps of such a run's record: one, which has the last loss, and the metric.
  void add_whole_run(double seconds, Record& record) const;

 private:
  Metric metric_;
  std::optional<harness::LinePattern> pattern_;
  std::optional<harness::Figure> last_;
  std::optional<double> reached_s_, lowest_, last_loss_;
};

}  // namespace ablations
