#include "results/trace.h"

#include <fmt/format.h>

#include <stdexcept>

namespace results {

void TraceDocument::check(const std::string& where) const {
  const bool on_gpu = device.kind == DeviceKind::cuda;
  for (const bool has : {summary.launch_bound_percent.has_value(), summary.kernel_launches.has_value(),
                         summary.graph_launches.has_value()}) {
    if (has == on_gpu) continue;
    throw std::invalid_argument(
        fmt::format("{}: field [summary]: launch_bound_percent, kernel_launches and graph_launches must be {}", where,
                    on_gpu ? "numbers on a GPU" : "null on a CPU"));
  }
}

}  // namespace results
