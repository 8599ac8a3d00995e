#include "cli/gpt2/timed_here.h"

#include "ablations/gpt2/child.h"
#include "ablations/gpt2/gpt2_workload.h"
#include "ablations/gpt2/memory.h"
#include "files/files.h"
#include "files/json_file.h"
#include "harness/machine/machine.h"
#include "harness/machine/processor_time.h"
#include "harness/process/process.h"
#include "harness/process/unfit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

namespace cli {

void wait_for_quiet() {
  for (int seconds = 0; seconds < 60 && !harness::may_be_busy() && harness::other_work_runs(); ++seconds) {
    if (seconds == 0) {
      const std::string who = harness::busiest_other(0.2);
      fmt::print(stderr, "{}: waiting up to a minute for its end\n", who.empty() ? "other work is running" : who);
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

OwnOperations own_operations_here(const RunOptions& step, bool wait) {
  constexpr int64_t most_tokens = 1024;
  const auto held = std::make_shared<Occupied>();
  const auto time = [step, wait, held](const model::Recipe& own, const model::Recipe& without) {
    if (held->empty()) {
      *held = occupy({model::Device::cpu}, "ladder", std::filesystem::current_path(), wait);
      wait_for_quiet();
      fmt::print(stderr, "timing the program's own operations beside PyTorch's ...\n");
    }
    std::vector<std::string> argv{fmt::format("/proc/{}/exe", ::getpid()),
                                  "run",
                                  "--recipe",
                                  model::to_json(own).dump(),
                                  "--time-against",
                                  model::to_json(without).dump(),
                                  "--model",
                                  step.model,
                                  "--data",
                                  step.data.string(),
                                  "--vocab",
                                  step.vocabulary.string()};
    const auto add = [&](const char* flag, int64_t value) { argv.insert(argv.end(), {flag, std::to_string(value)}); };
    add("--batch", std::clamp<int64_t>(most_tokens / step.T, 1, step.B));
    add("--context", step.T);
    if (step.positions > 0) add("--positions", step.positions);
    add("--threads", step.threads);
    constexpr double limit_s = 900;
    std::vector<ProductTiming> timings;
    const files::TemporaryFolder temporary("ladder-times");
    const std::filesystem::path log = temporary.path() / "log";
    const auto take = [&](std::string_view line) {
      const std::string where = "times of operations";
      timings.push_back(value_from<ProductTiming>(files::parse_json(std::string(line), where), where));
    };
    const harness::ChildResult child =
        harness::run_child({.argv = argv, .log = log, .limit_s = limit_s, .on_line = take});
    if (!child.succeeded()) {
      throw harness::Unfit(
          fmt::format("the program's own operations could not be timed beside PyTorch's: the process {}: {}; --recipe "
                      "takes a recipe without asking",
                      child.describe(limit_s), last_line(log)));
    }
    return timings;
  };
  return {config_of(step).n_layer, time};
}

void tell_times(const RunOptions& options, const std::string& without) {
  harness::die_with_parent();
  prepare_process(options);
  const model::Recipe other = model::recipe_from_json(files::parse_json(without, "--time-against"), "--time-against");
  for (const ProductTiming& timing : time_both(config_of(options), options.recipe, other, options.B, options.T)) {
    const std::string line = json_of(timing).dump() + "\n";
    [[maybe_unused]] const ssize_t ignored = ::write(3, line.data(), line.size());
  }
}

}  // namespace cli
