// micro: the model's operations one by one, the optimizer, and the cost of the harness itself. `ladder` measures a
// whole step; this measures its parts by themselves, at the shapes of GPT-2 124M.
#include "ablations/micro/suite.h"
#include "files/files.h"
#include "harness/machine/machine.h"
#include "harness/process/unfit.h"
#include "harness/process/working_directory.h"
#include "model/config.h"
#include "model/host_memory.h"
#include "results/environment.h"

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <benchmark/benchmark.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ablations::micro {

// The printed table, 80 columns, and the JSON file: Google Benchmark's own, written only when all is done, so that the
// file is complete.
class Table : public benchmark::BenchmarkReporter {
 public:
  explicit Table(std::string heading) : heading_(std::move(heading)) { json_.SetOutputStream(&text_); }
  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

  [[nodiscard]] std::string json() const { return text_.str(); }

 private:
  std::string heading_;
  std::ostringstream text_;
  benchmark::JSONReporter json_;
  std::map<std::string, int> skipped_;  // how many, by reason
};

namespace {

constexpr const char* about =
    "GPT-2 124M's operations one by one, forward and backward, the optimizer, and what the harness itself costs.\n"
    "What can take the place of an operation stands after it: add_norm_fused after add_norm. head_loss_fused makes "
    "its\n"
    "gradients in forward: compare the sums of both directions.\n"
    "Google Benchmark's own flags work as well:\n"
    "  --benchmark_filter=linear.*/bf16/cpu   which, by regular expression; --benchmark_list_tests for their names\n"
    "  --benchmark_min_time=0.05              seconds for each";

struct Flags {
  std::optional<int64_t> B, T, threads;
  int64_t C = 768, NH = 12;
  std::string out;
};

void define(CLI::App& app, Flags& flags) {
  const int64_t positions = model::preset("gpt2-124m").n_positions;
  app.add_option("-B,--batch", flags.B, "sequences (default: 1 on the CPU, 16 on a GPU)")->check(CLI::Range(1, 4096));
  app.add_option("-T,--context", flags.T, "tokens per sequence (default: 128 on the CPU, 1024 on a GPU)")
      ->check(CLI::Range(int64_t{1}, positions));
  app.add_option("--width", flags.C, "channels of the operations (default: 768)")->check(CLI::Range(1, 16384));
  app.add_option("--heads", flags.NH, "attention heads, of which the width is a multiple (default: 12)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--threads", flags.threads, "CPU threads (default: one for each core it may use)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--out", flags.out, "a file for Google Benchmark's JSON")->take_last();
}

void print_help() {
  Flags flags;
  CLI::App app(about);
  app.name("micro");
  define(app, flags);
  fmt::print("{}", app.help());
}

void check_google_flags(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    for (const std::string_view refused : {"--benchmark_format", "--benchmark_out"}) {
      if (std::string_view(argv[i]).starts_with(refused)) {
        throw std::invalid_argument(
            fmt::format("{}: the program prints its own table; --out FILE keeps the JSON", argv[i]));
      }
    }
  }
}

int run(int argc, char** argv) {
  check_google_flags(argc, argv);
  benchmark::Initialize(&argc, argv, print_help);  // takes its own flags out
  Flags flags;
  CLI::App app(about);
  define(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    throw std::invalid_argument(fmt::format("{}; micro --help lists the flags", error.what()));
  }
  std::optional<files::AtomicFile> out;  // refused now rather than after a minute of measuring
  if (!flags.out.empty()) out.emplace(flags.out, files::Links::followed);

  model::apply_host_memory(model::HostMemory::keep);
  at::set_num_threads(static_cast<int>(flags.threads.value_or(harness::this_machine().cpu.logical_cores)));
  if (flags.C % flags.NH != 0) {
    throw std::invalid_argument(fmt::format("--width must be a multiple of --heads, {}, got {}", flags.NH, flags.C));
  }
  const Sizes on_cpu{flags.B.value_or(1), flags.T.value_or(128), flags.C, flags.NH};
  const Sizes on_cuda{flags.B.value_or(16), flags.T.value_or(1024), flags.C, flags.NH};
  std::string sizes = fmt::format("cpu B={} T={}, cuda B={} T={}", on_cpu.B, on_cpu.T, on_cuda.B, on_cuda.T);
  if (flags.C != 768 || flags.NH != 12) sizes += fmt::format(", C={} NH={}", flags.C, flags.NH);
  benchmark::AddCustomContext("sizes", sizes);
  const nlohmann::json environment = json_of(environment_here());
  for (const auto& [name, value] : environment.items()) {
    if (!value.is_null())
      benchmark::AddCustomContext(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  for (const std::string& line : harness::disturbances()) fmt::print(stderr, "micro: {}\n", line);

  Suite suite(on_cpu, on_cuda);
  add_operations(suite);
  add_updates(suite);
  add_memory(suite);
  add_overheads(suite);
  Table table(sizes);
  if (benchmark::RunSpecifiedBenchmarks(&table) == 0) {
    throw std::invalid_argument("--benchmark_filter: no benchmark has such a name; --benchmark_list_tests lists them");
  }
  if (const std::string json = table.json(); out && !json.empty()) {
    out->write(json.data(), json.size());
    out->commit();
  }
  return suite.faults() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ablations::micro

int main(int argc, char** argv) {
  const auto fail = [](const char* message, int status) {
    std::fflush(stdout);
    fmt::print(stderr, "micro: {}\n", message);
    return status;
  };
  try {
    return ablations::micro::run(argc, argv);
  } catch (const std::invalid_argument& error) {
    return fail(error.what(), 2);
  } catch (const harness::Unfit& error) {
    return fail(error.what(), 3);
  } catch (const std::system_error& error) {
    return fail(error.what(), 2);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}

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
