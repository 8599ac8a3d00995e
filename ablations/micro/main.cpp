// micro: the model's operations one by one, the optimizer, and the cost of the harness itself. `ladder` measures a
// whole step; this measures its parts by themselves, at the shapes of GPT-2 124M.
#include "ablations/micro/suite.h"
#include "ablations/micro/table.h"
#include "files/files.h"
#include "harness/machine/machine.h"
#include "harness/process/unfit.h"
#include "harness/process/working_directory.h"
#include "model/config.h"
#include "model/host_memory.h"
#include "results/environment.h"

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace ablations::micro {
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
  std::string out;
};

void define(CLI::App& app, Flags& flags) {
  const int64_t positions = model::preset("gpt2-124m").n_positions;
  app.add_option("-B,--batch", flags.B, "sequences (default: 1 on the CPU, 16 on a GPU)")->check(CLI::Range(1, 4096));
  app.add_option("-T,--context", flags.T, "tokens per sequence (default: 128 on the CPU, 1024 on a GPU)")
      ->check(CLI::Range(int64_t{1}, positions));
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
  const Sizes on_cpu{flags.B.value_or(1), flags.T.value_or(128)};
  const Sizes on_cuda{flags.B.value_or(16), flags.T.value_or(1024)};
  const std::string sizes = fmt::format("cpu B={} T={}, cuda B={} T={}", on_cpu.B, on_cpu.T, on_cuda.B, on_cuda.T);
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
