#include "ablations/micro/table.h"

#include <fmt/format.h>

#include <cstdio>

namespace ablations::micro {
namespace {

using benchmark::BenchmarkReporter;

// Why it was skipped, empty if it ran. Google Benchmark 1.8 renamed the two fields.
template <class Run>
std::string why_skipped(const Run& run) {
  if constexpr (requires { run.error_message; }) {
    return run.error_occurred ? run.error_message : "";
  } else {
    return run.skipped != decltype(run.skipped){} ? run.skip_message : "";
  }
}

std::string in_time_units(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.1f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  return fmt::format("{:.3f} ms", seconds * 1e3);
}

// In units of 1e9, a dash where the benchmark has no such counter.
std::string giga(const BenchmarkReporter::Run& run, const std::string& counter) {
  const auto found = run.counters.find(counter);
  return found == run.counters.end() ? "-" : fmt::format("{:.2f}", found->second.value * 1e-9);
}

}  // namespace

bool Table::ReportContext(const Context& context) {
  fmt::print("{:<44}{:>13}{:>11}{:>11}\n", heading_, "time", "GFLOP/s", "GB/s");
  return json_.ReportContext(context);
}

void Table::ReportRuns(const std::vector<Run>& runs) {
  json_.ReportRuns(runs);
  for (const Run& run : runs) {
    if (const std::string reason = why_skipped(run); !reason.empty()) {
      ++skipped_[reason];
      continue;
    }
    std::string name = run.benchmark_name();
    if (const size_t end = name.find("/manual_time"); end != std::string::npos) name.erase(end, 12);
    if (run.run_type == Run::RT_Aggregate && run.aggregate_unit == benchmark::kPercentage) {
      fmt::print("{:<44}{:>11.2f} %\n", name, 100 * run.real_accumulated_time);  // of its mean, and no time
      continue;
    }
    const double seconds = run.GetAdjustedRealTime() / benchmark::GetTimeUnitMultiplier(run.time_unit);
    const auto share = run.counters.find("share_of_step"), kept = run.counters.find("kept_bytes");
    fmt::print("{:<44}{:>13}", name, in_time_units(seconds));
    if (run.counters.contains("launch_bound")) {
      fmt::print("  may include launching\n");
    } else if (kept != run.counters.end()) {
      fmt::print("  keeps {:.1f} MiB\n", kept->second.value / (1024.0 * 1024.0));
    } else if (share == run.counters.end()) {
      fmt::print("{:>11}{:>11}\n", giga(run, "flops_per_second"), giga(run, "bytes_per_second"));
    } else {
      fmt::print("  {:.2g} % of a step\n", 100 * share->second.value);
    }
  }
  std::fflush(stdout);
}

void Table::Finalize() {
  json_.Finalize();
  for (const auto& [reason, count] : skipped_) fmt::print("{} skipped: {}\n", count, reason);
}

}  // namespace ablations::micro
