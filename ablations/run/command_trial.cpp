#include "ablations/run/command_trial.h"

#include "ablations/run/command_files.h"
#include "ablations/run/command_process.h"
#include "ablations/run/command_start.h"
#include "ablations/run/meddling.h"
#include "ablations/run/study_folder.h"
#include "ablations/run/used_gpus.h"
#include "files/files.h"
#include "files/printable.h"
#include "harness/machine/machine.h"
#include "harness/machine/nvml.h"
#include "harness/process/process.h"
#include "harness/process/utc.h"
#include "harness/stats/stats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace ablations {

namespace fs = std::filesystem;
using harness::ChildResult;
using harness::StepLine;

static std::string trial_of(const Plan& plan, size_t rung) {
  return fmt::format("trial-{:02}-{}", rung, plan.rungs[rung].name);
}

const TypedCommand& command_of(const Plan& plan, size_t rung) {
  if (!plan.commands || !plan.rungs[rung].command) {
    throw std::invalid_argument(fmt::format("rung {} of the plan is no command", rung));
  }
  return *plan.rungs[rung].command;
}

fs::path trial_log(const Plan& plan, size_t rung, const fs::path& folder) {
  return folder / "logs" / (trial_of(plan, rung) + ".log");
}

void show_end(const fs::path& log) {
  constexpr size_t most = 20;
  std::vector<std::string> lines;
  std::istringstream stream(files::read_end(log, 8192));
  for (std::string line; std::getline(stream, line);) lines.push_back(files::shortened(files::printable(line), 160));
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - most);
  if (!lines.empty()) fmt::print(stderr, "the end of what it printed:\n  {}\n", fmt::join(lines, "\n  "));
}

// What helps where no step was found.
static std::string advice(const CommandProcess& process, const TypedCommand& command) {
  if (process.printed().lines() == 0) {
    static const std::regex redirected(R"((?:^|[^>&0-9])[12&]?>{1,2} ?([^ >&|;]+))");
    std::smatch match;
    if (std::regex_search(command.text, match, redirected)) {
      return fmt::format("; it printed nothing: its output goes to {0}; put \"| tee {0}\" in place of \"> {0}\"",
                         match[1].str());
    }
    return "; it printed nothing";
  }
  const std::string hook =
      process.versions().contains("torch") ? "--hook times the steps of PyTorch's optimizer; " : "";
  return "; " + hook + "--steps-from 'regex with (?P<step>\\d+) and (?P<loss>\\S+)' says where its steps are";
}

// The most frequent lines, and what would read them.
static void show_shapes(const CommandProcess& process) {
  const auto shapes = process.printed().frequent_shapes(5);
  if (!shapes.empty()) fmt::print(stderr, "what it printed, the most frequent lines first (N: a number):\n");
  for (const auto& one : shapes) {
    fmt::print(stderr, "  {:>6}  {}\n", one.count, one.shape);
    const std::string pattern = one.count > 1 ? harness::pattern_for(one.line) : "";
    if (!pattern.empty()) fmt::print(stderr, "          --steps-from '{}'\n", files::printable(pattern));
  }
}

// Why every run of a command that has ended would have no number; empty: one has, or the metric is a time.
static std::string lacks_metric(const Plan& plan, const fs::path& log) {
  const Metric& metric = *plan.commands->metric;
  if (metric.pattern.empty()) return "";
  MetricReader reader(metric);
  harness::LineSplitter lines;
  for (const auto& line : lines.take(0, files::read_end(log, size_t{1} << 20), 0)) reader.take(line);
  for (const auto& line : lines.end()) reader.take(line);
  return reader.failure();
}

std::optional<Trial> tried(const Plan& plan, size_t rung, const fs::path& folder, std::set<fs::path>* code) {
  TypedCommand command = command_of(plan, rung);
  const std::string id = trial_of(plan, rung);
  const fs::path directory = command.directory.empty() ? fs::current_path() : fs::path(command.directory);
  for (int attempt = 0; attempt < 2; ++attempt) {  // as it is, and on a terminal
    const double since = now_of_files();
    CommandProcess process = CommandProcess::trial(plan, command, id, folder, code);
    process.make([](std::string_view) {});
    (void)put_back();  // its runs will tell
    if (process.child().end == ChildResult::End::interrupted) return std::nullopt;
    // A program that holds back what it prints may also end before its lines come.
    if (!command.trial.terminal && process.holds_back()) {
      command.trial.terminal = true;
      continue;
    }
    const std::vector<StepLine>& lines = process.window().lines();
    const bool has_failed = process.child().end == ChildResult::End::exited && process.child().code != 0;
    const bool is_timed = !plan.commands->metric;
    const bool needs_more = is_timed || has_failed || (plan.commands->metric->to_loss && !process.has_losses());
    std::string failure = needs_more ? process.failure(/*shows_end=*/has_failed) : "";
    if (needs_more && lines.empty() && failure.empty()) failure = "printed no step";
    if (is_timed && failure.empty()) failure = process.doubt();
    if (!is_timed && failure.empty() && process.child().succeeded()) failure = lacks_metric(plan, process.log());
    if (!failure.empty()) {
      std::string message = fmt::format("{}: {}", files::in_quotes(command.typed), failure);
      if (has_failed) {
        show_end(process.log());
      } else if (lines.empty()) {
        show_shapes(process);
        message += advice(process, command);
      }
      if (plan.gate) message += "; log: " + process.log().string();
      throw std::invalid_argument(message);
    }
    std::vector<double> apart;
    for (size_t i = 1; i < lines.size(); ++i) apart.push_back(static_cast<double>(lines[i].step - lines[i - 1].step));
    const auto format = process.format();
    return Trial{.first_step_s = is_timed ? lines.front().seconds : 0,
                 .step_s = is_timed ? harness::median(process.window().timed_ms()) / 1000 : 0,
                 .lasted_s = process.child().seconds,
                 .every = is_timed ? std::llround(harness::median(apart)) : 1,
                 .shape = process.shape(),
                 .format = format ? std::optional(line_format(*format)) : std::nullopt,
                 .has_losses = process.by_loss(),
                 .terminal = command.trial.terminal,
                 .versions = process.versions(),
                 .burst_s = process.pace().burst_s,
                 .block_s = process.pace().block_s,
                 .gpus = process.gpus().names(),
                 .wrote = written_since(directory, since, folder),
                 .cpu_ms = process.cpu_ms()};
  }
  return std::nullopt;
}

// Why no Python loaded client/look.
static std::string why_not_loaded(const std::string& text) {
  std::istringstream words(text);
  bool is_python = false;
  for (std::string word; words >> word;) {
    if (is_python && word.starts_with('-') && word.find_first_of("IES") != std::string::npos) {
      return fmt::format("python {} ignores PYTHONPATH, by which it is looked at; leave it out for --look", word);
    }
    is_python = (is_python && word.starts_with('-')) || fs::path(word).filename().string().starts_with("python");
  }
  if (text.find("PYTHONPATH=") != std::string::npos) {
    return "the command sets PYTHONPATH, by which it is looked at; put :$PYTHONPATH behind its own value";
  }
  return "no Python that reads PYTHONPATH was started, by which it is looked at";
}

std::string look_at(const Plan& plan, size_t rung, const fs::path& folder, const fs::path& file,
                    const std::string& rounding) {
  const TypedCommand& command = command_of(plan, rung);
  const std::string id = fmt::format("look-{:02}-{}", rung, plan.rungs[rung].name);
  const fs::path own = fs::absolute(folder / "runs" / id), log = folder / "logs" / (id + ".log");
  std::error_code ignored;
  fs::remove_all(own, ignored);
  fs::create_directories(own);
  fs::remove(file, ignored);
  std::vector<std::string> variables{"LADDER_LOOK=" + fs::absolute(file).string(), python_path_with_look()};
  if (!plan.commands->as_is) add_variables(variables, own);
  if (!rounding.empty()) variables.push_back("LADDER_LOOK_ROUNDING=" + rounding);
  // A look is over after seven steps, which it makes slower. Nobody waits for a program that cannot be looked at.
  const Trial& trial = command.trial;
  const double limit_s =
      std::min(plan.run_limit_s, 20 + 10 * trial.first_step_s + 3 * trial.lasted_s + 100 * trial.step_s);
  const ChildResult child =
      harness::run_child({.argv = {"/bin/sh", "-c", text_for(plan, command, own, 1, /*is_trial=*/true)},
                          .log = log,
                          .limit_s = limit_s,
                          .environment = std::move(variables),
                          .of_others = true,
                          .directory = command.directory,
                          .terminal = command.trial.terminal,
                          .on_look = [&](const std::vector<pid_t>&) { return !fs::exists(file); }});
  fs::remove_all(own, ignored);
  const bool was_loaded = fs::remove(file.string() + ".loaded", ignored);
  if (child.end == ChildResult::End::interrupted) return "interrupted";
  if (fs::exists(file)) return "";
  if (!was_loaded) return why_not_loaded(command.text);
  return fmt::format("only a program with PyTorch's optimizers can be looked at; this one {}", child.describe(limit_s));
}

double run_s(const Plan& plan, const Trial& trial) {
  const bool counts_lines = trial.unit() != "step";
  const auto every = static_cast<double>(trial.every), least = static_cast<double>(harness::least_intervals);
  const double timed = counts_lines ? std::max(static_cast<double>(plan.timed_steps), least) * every
                                    : std::max(static_cast<double>(plan.timed_steps), least * every);
  const double warmup = static_cast<double>(plan.warmup_steps) * (counts_lines ? every : 1);
  return trial.first_step_s + warmup * trial.step_s + std::max(timed * trial.step_s, least * trial.block_s);
}

namespace fs = std::filesystem;
using harness::ChildResult;

Environment environment_of_commands() {
  Environment here = environment_of_program();
  here.kernel_switches = harness::kernel_switches(/*with_threads=*/true);
  const harness::VisibleGpus& visible = visible_gpus();
  if (!visible.gpus.empty()) {
    const harness::VisibleGpu& first = visible.gpus.front();
    here.gpu = Environment::Gpu{.name = first.name, .compute_capability = {}, .memory_bytes = first.memory_bytes};
    here.driver = visible.driver;
  }
  return here;
}

harness::Occupied occupy_for_commands(const std::string& command, const fs::path& at, bool wait) {
  (void)inherited();  // before anything runs
  std::set<std::string> devices{"cpu"};
  for (const harness::VisibleGpu& gpu : visible_gpus().gpus) devices.insert("gpu-" + gpu.bus_id);
  return harness::occupy(devices, command, at, wait);
}

// The repeats whose runs go on after their timed steps. Drawn anew each time, and written nowhere: a program shall not
// know its timed steps.
static std::set<int64_t> repeats_that_go_on(const Plan& plan) {
  constexpr int64_t first = 6;  // a gate may look after them
  const int64_t repeats = std::min(plan.repeats, first);
  std::set<int64_t> drawn;
  while (std::ssize(drawn) < std::min(repeats, runs_that_go_on)) {
    drawn.insert(static_cast<int64_t>(files::random_number() % static_cast<uint64_t>(repeats)));
  }
  return drawn;
}

RunMaker commands(const Plan& plan, const fs::path& folder, std::vector<std::set<fs::path>> code) {
  for (size_t i = 0; i < plan.rungs.size(); ++i) (void)command_of(plan, i);
  const Environment here = environment_of_commands();
  const auto meddling = std::make_shared<Meddling>(plan, folder, std::move(code));
  return {.make = [&plan, folder, here, meddling, go_on = repeats_that_go_on(plan)](
                      const PlannedRun& run,
                      const std::function<void(std::string_view)>& on_line) -> std::optional<Record> {
            check_has_its_files(plan, folder);
            const Rung& rung = plan.rungs[run.rung];
            const std::string started = harness::utc_now();
            const harness::SinceBoot begun = harness::since_boot();
            CommandProcess process(plan, *rung.command, run.id, folder, run.repeat + 1, go_on.contains(run.repeat));
            meddling->begin();
            process.make(on_line);
            const std::vector<Found> found = meddling->end(run.rung);
            const ChildResult& child = process.child();
            if (child.end == ChildResult::End::interrupted) return std::nullopt;
            const std::string failure = process.failure();
            if (const auto& metric = plan.commands->metric;
                metric && !metric->to_loss && !failure.empty() && child.succeeded()) {
              throw std::invalid_argument(fmt::format("{}: {}", files::in_quotes(rung.command->typed), failure));
            }
            const FailureKind kind = child.end == ChildResult::End::signaled      ? FailureKind::signal
                                     : child.end == ChildResult::End::timed_out   ? FailureKind::timeout
                                     : child.end == ChildResult::End::not_started ? FailureKind::spawn
                                                                                  : FailureKind::exit;
            Record record = failure.empty() ? process.record(run, rung.applied, here)
                                            : failed_record(run.id, kind, failure, started, child.seconds);
            if (record.command && !rung.program.empty()) record.command->commit = rung.program;
            if (record.command) record.command->found.insert(record.command->found.end(), found.begin(), found.end());
            record.started = started;
            record.duration_s = child.seconds;
            if (!begun.boot.empty()) record.since_boot = BootTime{begun.boot, begun.seconds};
            return record;
          },
          .here = here};
}

}  // namespace ablations
