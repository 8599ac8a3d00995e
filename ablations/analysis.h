// From records to a study: every derived number that a table, a chart or a report shows is computed here.
#pragma once

#include "ablations/plan.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// Whether a rung learns what the reference rung learns.
struct Guard {
  bool passed = false;
  std::optional<double> max_deviation;  // nats; none where a loss is not finite
  double tolerance = 0;                 // the largest of the applied optimizations'
  double known_offset = 0;              // ln(V' / V): what padding rows may add to a loss
  int64_t steps = 0;
  std::string message;
};

// losses, reference: mean loss of each step, same length; NaN where it was not finite. A loss may lie between the
// reference's and known_offset above it, give or take the tolerance.
Guard guard(const std::vector<double>& losses, const std::vector<double>& reference, double tolerance,
            double known_offset);

// Reads the records that are there and computes the study (results/schemas/study.v1.json). Missing runs are counted,
// not invented. Throws std::invalid_argument for a record that cannot be read.
harness::Json analyse(const Plan& plan, const std::filesystem::path& folder);

}  // namespace ablations
