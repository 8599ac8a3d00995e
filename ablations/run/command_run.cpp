#include "ablations/run/command_run.h"

#include "ablations/plan/command_rungs.h"
#include "ablations/run/client_log.h"
#include "ablations/run/command_files.h"
#include "ablations/run/run.h"
#include "ablations/run/study_folder.h"
#include "ablations/run/used_gpus.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/resources.h"
#include "harness/lines/step_reader.h"
#include "harness/machine/machine.h"
#include "harness/machine/nvml.h"
#include "harness/machine/processor_time.h"
#include "harness/process/descendants.h"
#include "harness/process/process.h"
#include "harness/process/utc.h"
#include "harness/stats/stats.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace ablations {

namespace fs = std::filesystem;
using harness::ChildResult;
using harness::StepLine;

namespace {

double monotonic_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Bytes in memory of these processes now; pages that they share count for each.
int64_t resident_bytes_of(const std::vector<pid_t>& processes) {
  int64_t pages = 0;
  for (const pid_t pid : processes) {
    std::ifstream stream(fmt::format("/proc/{}/statm", pid));
    int64_t size = 0, resident = 0;
    if (stream >> size >> resident) pages += resident;
  }
  return pages * ::sysconf(_SC_PAGESIZE);
}

// What keeps runs apart, and what they print from being held back.
void add_variables(std::vector<std::string>& variables, const fs::path& own) {
  variables.insert(variables.end(), {"PYTHONUNBUFFERED=1", "WANDB_MODE=offline", "WANDB_DIR=" + own.string(),
                                     "MLFLOW_TRACKING_URI=file://" + own.string()});
}

std::string python_path_with_look() {
  const char* const path = std::getenv("PYTHONPATH");
  return fmt::format("PYTHONPATH={}{}", (files::resource_root() / "client" / "look").string(),
                     path != nullptr && *path != '\0' ? ":" + std::string(path) : "");
}

// With the run's own folder in place of {run}. It may stand between quotes or not, so its path must need none.
std::string text_for(const TypedCommand& command, const fs::path& own) {
  if (command.text.find("{run}") != std::string::npos &&
      own.string().find_first_of(" \t\n'\"\\$`&|;<>()*?[]{}#!~^") != std::string::npos) {
    throw std::invalid_argument(fmt::format(
        "{{run}} would become {}, which sh does not take as it is: choose an --out without blanks and marks",
        files::in_quotes(own.string())));
  }
  return replaced(command.text, "{run}", own.string());
}

constexpr const char* trial_prefix = "trial-";

// What such a program has started elsewhere does not end with it.
void tell_of_client(const std::string& text) {
  for (const char* client : {"docker", "podman", "kubectl", "ssh", "srun"}) {
    if (std::regex_search(text, std::regex(fmt::format("(^|[ /;&|]){} ", client)))) {
      fmt::print(stderr, "note: {0} had to be killed: what it started elsewhere may go on ({0} is only a client)\n",
                 client);
    }
  }
}

// The executables and libraries of these processes.
void add_executed_code(std::set<fs::path>& code, const std::vector<pid_t>& processes) {
  for (const pid_t pid : processes) {
    std::ifstream maps(fmt::format("/proc/{}/maps", pid));
    for (std::string line; std::getline(maps, line);) {  // "7f00-7f01 r-xp 00000000 08:01 1234   /usr/lib/libc.so.6"
      const size_t path = line.find('/');
      if (path != std::string::npos && line.find("x", line.find(' ')) < line.find(' ', line.find(' ') + 1)) {
        code.insert(line.substr(path));
      }
    }
  }
}

// The Python files that client/look has told of, each on a line.
void add_told_code(std::set<fs::path>& code, const fs::path& told, const fs::path& directory) {
  std::ifstream stream(told);
  std::error_code error;
  for (std::string line; std::getline(stream, line) && code.size() < 100000;) {
    const fs::path file = fs::canonical(directory / line, error);
    if (!error) code.insert(file);
  }
  fs::remove(told, error);
}

// One run of a command, from its start until it has made its steps.
class CommandProcess {
 public:
  // `code`: what it reads of code is added there, by a hook that a timed run must not have.
  CommandProcess(const Plan& plan, const TypedCommand& command, std::string id, fs::path folder,
                 std::set<fs::path>* code = nullptr)
      : plan_(plan),
        command_(command),
        id_(std::move(id)),
        folder_(std::move(folder)),
        own_(fs::absolute(folder_ / "runs" / id_)),
        client_log_(fs::absolute(folder_ / "logs" / (id_ + ".steps.jsonl"))),
        client_(client_log_),
        reader_(plan.commands->steps_from),
        code_(code) {}

  void make(const std::function<void(std::string_view)>& on_line) {
    on_line_ = on_line;
    std::error_code ignored;
    fs::remove_all(own_, ignored);
    fs::create_directories(own_);
    fs::remove(client_log_, ignored);
    begun_s_ = monotonic_s();
    child_ = harness::run_child({.argv = {"/bin/sh", "-c", text_for(command_, own_)},
                                 .log = log(),
                                 .limit_s = plan_.run_limit_s,
                                 .environment = environment(),
                                 .of_others = true,
                                 .directory = command_.directory,
                                 .terminal = command_.trial.terminal,
                                 .on_output =
                                     [this](int stream, std::string_view bytes) {
                                       return take(reader_.take(stream, bytes, monotonic_s() - begun_s_), false);
                                     },
                                 .on_look = [this](const std::vector<pid_t>& tree) { return look(tree); }});
    if (child_.end == ChildResult::End::exited) {
      take(reader_.end(), false);
      take(client_.read(begun_s_), true);
      if (!has_enough_) take_burst();
      if (!has_enough_ && looks_on_) end_window();
    }
    if (code_ != nullptr) add_told_code(*code_, code_file(), command_.directory);
    if (child_.killed) tell_of_client(command_.text);
    gpus_.wait_until_free();
    fs::remove_all(own_, ignored);
  }

  [[nodiscard]] const ChildResult& child() const { return child_; }
  [[nodiscard]] const UsedGpus& gpus() const { return gpus_; }
  [[nodiscard]] const harness::StepReader& reader() const { return reader_; }
  [[nodiscard]] fs::path log() const { return folder_ / "logs" / (id_ + ".log"); }
  [[nodiscard]] const std::vector<StepLine>& lines() const { return lines_; }
  [[nodiscard]] bool by_loss() const {
    return std::ranges::all_of(lines_, [](const StepLine& line) { return line.loss.has_value(); });
  }
  [[nodiscard]] bool holds_back() const { return !by_client_ && reader_.bursts(); }
  [[nodiscard]] std::string shape() const { return by_client_ ? "lines of ladder_client" : reader_.shape(); }

  [[nodiscard]] std::vector<double> step_ms() const {
    std::vector<int64_t> steps;
    std::vector<double> seconds;
    for (const StepLine& line : lines_) {
      steps.push_back(line.step);
      seconds.push_back(line.seconds);
    }
    return step_ms_of(steps, seconds);
  }
  [[nodiscard]] std::vector<double> timed_ms() const {
    std::vector<double> ms = step_ms();
    ms.erase(ms.begin(), ms.begin() + static_cast<std::ptrdiff_t>(first_timed_));
    return ms;
  }

  // Why it has no number; empty: it has one. `shows_end`: somebody shows the end of its log.
  [[nodiscard]] std::string fault(bool shows_end = false) const {
    if (has_enough_) return "";
    const std::string seen = fmt::format("{} of warm-up and {} timed are needed: --warmup, --steps", plan_.warmup_steps,
                                         std::max(plan_.timed_steps, least_intervals));
    const std::string how = child_.end == ChildResult::End::exited && child_.code == 0
                                ? "ended by itself"
                                : child_.describe(plan_.run_limit_s);
    const std::string last = last_line(log(), "\r\n");  // of a bar what it shows now
    const std::string said = last.empty() || shows_end ? "" : "; its last line: " + last;
    if (lines_.empty()) {
      const bool is_refused = !client_.has_begun() && fs::exists(fs::symlink_status(client_log_));
      const std::string file = is_refused ? "; the file that LADDER_LOG names must be a regular one" : "";
      const std::string refused =
          reader_.refused() == 0
              ? ""
              : fmt::format("; {} taken for a validation's, by a word before the step (val, test)",
                            number_of(reader_.refused(), "line") + (reader_.refused() == 1 ? " was" : " were"));
      return fmt::format("{} before a step was found in what it printed{}{}{}", how, refused, file, said);
    }
    std::set<double> reads;
    for (const StepLine& line : lines_) reads.insert(line.seconds);
    if (!by_client_ && lines_.size() > least_intervals && lines_.size() > 4 * reads.size()) {
      return fmt::format(
          "its {} step lines came at once, in {}: something holds back what it prints (conda run: --no-capture-output; "
          "Python: PYTHONUNBUFFERED=1; others: stdbuf -oL, or --terminal)",
          lines_.size(), number_of(std::ssize(reads), "read"));
    }
    const auto steps = lines_.back().step - lines_.front().step;
    return fmt::format("{} after {} step{}; {}{}", how, steps, steps == 1 ? "" : "s", seen, said);
  }

  // How far apart its lines are at least if they come in bursts, as through a pipe that is emptied now and then: the
  // time between bursts is then of all steps of one. 0: they come one by one.
  [[nodiscard]] double burst_s() const {
    if (!looks_on_ && !reader_.bursts()) return 0;
    const double all_s = lines_.back().seconds - lines_.front().seconds, gaps = static_cast<double>(lines_.size() - 1);
    double long_s = 0, longs = 0;
    for (size_t i = 1; i < lines_.size(); ++i) {
      const double gap_s = lines_[i].seconds - lines_[i - 1].seconds;
      if (gap_s <= all_s / gaps) continue;
      long_s += gap_s;
      ++longs;
    }
    return longs >= 3 && 4 * longs <= gaps && long_s > 0.8 * all_s ? all_s / gaps : 0;
  }

  // Why its numbers cannot be believed; empty: they can.
  [[nodiscard]] std::string doubt() const {
    if (by_client_) return "";
    if (reader_.has_commas()) {
      return "its losses have one comma before three digits (3,100), which may be 3100 or 3.1: let it print a point "
             "(LC_ALL=C)";
    }
    const std::vector<double> timed = timed_ms();
    const double usual = harness::median(timed),
                 spread = harness::quantile(timed, 0.75) - harness::quantile(timed, 0.25);
    const bool is_numbered = std::ranges::any_of(lines_, &StepLine::numbered);
    if (is_numbered || usual < 49 || spread > 0.01 * usual || std::abs(std::remainder(usual, 50)) > 0.01 * usual)
      return "";
    return fmt::format(
        "its lines come every {:.0f} ms, as if by a clock, so they count no steps: --steps-from names a number that "
        "counts, --hook times PyTorch's optimizer",
        usual);
  }

  [[nodiscard]] Record record(const PlannedRun& run, const std::vector<std::string>& applied,
                              const Environment& here) const {
    Record record;
    record.id = run.id;
    record.recipe = record.observations = files::Json::object();
    record.optimizations = applied;
    record.environment = here;
    const std::vector<double> timed = timed_ms();
    const std::optional<int64_t> tokens = tokens_per_step();
    RunTiming& timing = record.timing;
    timing.step_ms = step_ms();
    timing.warmup_steps = static_cast<int64_t>(first_timed_);
    timing.window_ms = 1000 * (lines_.back().seconds - lines_[first_timed_].seconds);
    timing.processor_lost = lost();
    record.summary = ablations::summary_of(timed, tokens.value_or(0));
    CommandRun command{.text = command_.text,
                       .steps = {},
                       .seconds = {},
                       .first_step_s = lines_.front().seconds,
                       .shape = shape(),
                       .by_loss = by_loss(),
                       .ended_by_us = child_.end == ChildResult::End::enough,
                       .own_ms = own_ms(),
                       .tokens_per_step = tokens};
    for (const StepLine& line : lines_) {
      command.steps.push_back(line.step);
      command.seconds.push_back(line.seconds);
      const bool is_finite = line.loss && std::abs(*line.loss) <= 1e100;  // which a record can hold
      if (&line != &lines_.front()) timing.loss.push_back(is_finite ? line.loss : std::nullopt);
    }
    command.terminal = command_.trial.terminal;
    command.stated = client_.stated();
    record.proofs = client_.proofs();
    record.command = std::move(command);
    record.memory.peak_bytes = resident_bytes_;
    record.memory.peak_source = "resident sets of its processes, twice a second";
    if (gpus_.peak_bytes() > 0) {
      record.memory.peak_bytes = gpus_.peak_bytes();
      record.memory.peak_source = "its processes on the GPU (NVML), twice a second";
    }
    record.flags.emplace();
    const int64_t steps = lines_.back().step - lines_[first_timed_].step;
    gpus_.complete(record, tokens.value_or(0) * steps);
    for (const std::string& flag : {harness::flag(timing.processor_lost.value_or(0)), harness::flag_of_pause(timed)}) {
      if (!flag.empty()) record.flags->push_back(flag);
    }
    return record;
  }

 private:
  [[nodiscard]] std::vector<std::string> environment() const {
    std::vector<std::string> variables{fmt::format("LADDER_LOG={}", client_log_.string()),
                                       fmt::format("LADDER_STEPS={}+{}", plan_.warmup_steps, plan_.timed_steps)};
    if (code_ != nullptr) {
      variables.insert(variables.end(), {"LADDER_CODE=" + code_file().string(), python_path_with_look()});
    }
    variables.insert(variables.end(), command_.variables.begin(), command_.variables.end());
    if (plan_.commands->hook) variables.insert(variables.end(), {"LADDER_HOOK=1", python_path_with_look()});
    if (!plan_.commands->as_is) add_variables(variables, own_);
    return variables;
  }

  // Returns whether more is needed. A client's lines take the place of printed ones, from its first word on.
  bool take(const std::vector<StepLine>& lines, bool by_client) {
    if (has_enough_) return false;
    if (!by_client_ && client_.has_begun()) {
      by_client_ = true;
      burst_.clear();
      begin_again();
    }
    if (by_client_ != by_client) return true;
    for (const StepLine& line : lines) {
      const double apart_s = by_client ? 0 : command_.trial.burst_s;
      if (!burst_.empty() && line.seconds - burst_.back().seconds > apart_s && !take_burst()) return false;
      burst_.push_back(line);
    }
    return command_.trial.burst_s > 0 || take_burst();
  }

  // Lines of one read, or of one burst, share the time of the last: the window begins and ends with it.
  bool take_burst() {
    bool any = false;
    for (StepLine& line : burst_) {
      line.seconds = burst_.back().seconds;
      if (line.restarts) begin_again();
      if (!lines_.empty() && line.step <= lines_.back().step) continue;
      any = true;
      lines_.push_back(line);
      on_line_(fmt::format("{} {}", std::min(made(), wanted()), wanted()));
    }
    burst_.clear();
    if (!any) return true;
    if (!window_has_begun_) {
      if (made() >= plan_.warmup_steps) begin_window();
      return true;
    }
    ++timed_reads_;
    const StepLine& first = lines_[first_timed_];
    if (timed_reads_ < least_intervals || lines_.back().step - first.step < plan_.timed_steps) return true;
    // Lines that come faster than most programs make steps may all be of one burst: a trial looks on.
    constexpr double fast_ms = 1, trial_s = 3;
    const double window_s = lines_.back().seconds - first.seconds;
    looks_on_ =
        looks_on_ || (is_trial() && !by_client_ && 1000 * window_s < fast_ms * static_cast<double>(timed_reads_));
    if (looks_on_ && lines_.back().seconds - lines_.front().seconds < trial_s) return true;
    end_window();
    return false;
  }

  // What was read before was of another kind of lines.
  void begin_again() {
    if (window_has_begun_) gpus_.end();
    lines_.clear();
    first_timed_ = 0;
    timed_reads_ = 0;
    window_has_begun_ = looks_on_ = false;
  }

  [[nodiscard]] int64_t wanted() const { return plan_.warmup_steps + plan_.timed_steps; }
  [[nodiscard]] int64_t made() const { return lines_.back().step - lines_.front().step; }
  [[nodiscard]] bool is_trial() const { return id_.starts_with(trial_prefix); }
  [[nodiscard]] fs::path code_file() const { return fs::absolute(folder_ / "logs" / (id_ + ".code")); }

  bool look(const std::vector<pid_t>& tree) {
    tree_ = tree;
    resident_bytes_ = std::max(resident_bytes_, resident_bytes_of(tree));
    gpus_.look(tree);
    if (code_ != nullptr) add_executed_code(*code_, tree);
    return take(client_.read(begun_s_), true);
  }

  // With what its processes have started since somebody looked.
  void renew_tree() {
    for (size_t i = 0, known = tree_.size(); i < known; ++i) {
      for (const pid_t pid : harness::process_tree(tree_[i])) {
        if (std::ranges::find(tree_, pid) == tree_.end()) tree_.push_back(pid);
      }
    }
  }

  void begin_window() {
    window_has_begun_ = true;
    first_timed_ = lines_.size() - 1;
    renew_tree();
    gpus_.look(tree_);
    window_begun_s_ = monotonic_s();
    before_ = harness::processor_time(tree_);
    gpus_.begin(tree_);
  }
  void end_window() {
    gpus_.end();
    has_enough_ = true;
    if (code_ != nullptr) add_executed_code(*code_, tree_);
    window_s_ = monotonic_s() - window_begun_s_;
    renew_tree();
    after_ = harness::processor_time(tree_);
    resident_bytes_ = std::max(resident_bytes_, resident_bytes_of(tree_));
  }

  // Its threads are taken to be as many as were busy.
  [[nodiscard]] std::optional<double> lost() const {
    const double timed_s = lines_.back().seconds - lines_[first_timed_].seconds;
    if (!before_ || !after_ || window_s_ < timed_s / 2) return std::nullopt;  // lines of a client come late, at once
    const int cores = harness::this_cpu().logical_cores;
    const int threads =
        std::clamp(static_cast<int>(std::lround((after_->ran_s - before_->ran_s) / window_s_)), 1, cores);
    return harness::share_lost(*before_, *after_, window_s_, threads, cores);
  }

  [[nodiscard]] std::optional<double> own_ms() const {
    std::vector<double> own;
    for (size_t i = first_timed_ + 1; i < lines_.size(); ++i) {
      if (lines_[i].own_ms) own.push_back(*lines_[i].own_ms);
    }
    return own.empty() ? std::nullopt : std::optional(harness::median(own));
  }
  [[nodiscard]] std::optional<int64_t> tokens_per_step() const {
    if (plan_.commands->tokens_per_step > 0) return plan_.commands->tokens_per_step;
    if (by_client_) return client_.tokens();
    std::vector<double> tokens;  // by a line's own time and rate, which need not be true to tell how many
    for (size_t i = first_timed_ + 1; i < lines_.size(); ++i) {
      if (lines_[i].own_ms && lines_[i].tokens_per_s)
        tokens.push_back(*lines_[i].own_ms * *lines_[i].tokens_per_s / 1e3);
    }
    const double median = tokens.empty() ? 0 : harness::median(tokens);
    return median >= 1 && median < 1e15 ? std::optional(std::llround(median)) : std::nullopt;
  }

  const Plan& plan_;
  const TypedCommand& command_;
  std::string id_;
  fs::path folder_, own_, client_log_;
  ClientLog client_;
  harness::StepReader reader_;
  std::function<void(std::string_view)> on_line_;
  UsedGpus gpus_;
  ChildResult child_{};
  double begun_s_ = 0, window_begun_s_ = 0, window_s_ = 0;
  std::vector<StepLine> lines_;
  std::vector<pid_t> tree_;
  size_t first_timed_ = 0;   // the line that the timed window begins with
  int64_t timed_reads_ = 0;  // since the window began
  bool by_client_ = false, window_has_begun_ = false, has_enough_ = false;
  bool looks_on_ = false;        // a trial whose steps look too short
  std::vector<StepLine> burst_;  // lines that may not be the last of theirs
  std::set<fs::path>* code_;
  int64_t resident_bytes_ = 0;
  std::optional<harness::ProcessorTime> before_, after_;
};

std::string trial_of(const Plan& plan, size_t rung) {
  return fmt::format("{}{:02}-{}", trial_prefix, rung, plan.rungs[rung].name);
}

const TypedCommand& command_of(const Plan& plan, size_t rung) {
  if (!plan.commands || !plan.rungs[rung].command) {
    throw std::invalid_argument(fmt::format("rung {} of the plan is no command", rung));
  }
  return *plan.rungs[rung].command;
}

}  // namespace

Environment environment_of_commands() {
  Environment here = environment_of_program();
  here.kernel_switches = harness::kernel_switches(/*with_threads=*/true);
  const harness::VisibleGpus visible = harness::visible_gpus();
  if (!visible.gpus.empty()) {
    const harness::VisibleGpu& first = visible.gpus.front();
    here.gpu = Environment::Gpu{.name = first.name, .compute_capability = {}, .memory_bytes = first.memory_bytes};
    here.driver = visible.driver;
  }
  return here;
}

fs::path trial_log(const Plan& plan, size_t rung, const fs::path& folder) {
  return folder / "logs" / (trial_of(plan, rung) + ".log");
}

std::optional<Trial> tried(const Plan& plan, size_t rung, const fs::path& folder, std::set<fs::path>* code) {
  TypedCommand command = command_of(plan, rung);
  const std::string id = trial_of(plan, rung);
  const fs::path directory = command.directory.empty() ? fs::current_path() : fs::path(command.directory);
  for (int attempt = 0; attempt < 3; ++attempt) {  // as it is, on a terminal, and with its bursts taken together
    const auto since = fs::file_time_type::clock::now();
    CommandProcess process(plan, command, id, folder, code);
    process.make([](std::string_view) {});
    if (process.child().end == ChildResult::End::interrupted) return std::nullopt;
    // A program that holds back what it prints may also end before its lines come.
    if (!command.trial.terminal && process.holds_back()) {
      command.trial.terminal = true;
      continue;
    }
    const bool has_failed = process.child().end == ChildResult::End::exited && process.child().code != 0;
    std::string fault = process.fault(/*shows_end=*/has_failed);
    if (process.lines().empty() && fault.empty()) fault = "printed no step";
    if (fault.empty() && command.trial.burst_s == 0) {
      command.trial.burst_s = process.burst_s();
      if (command.trial.burst_s > 0) continue;
    }
    if (fault.empty()) fault = process.doubt();
    if (!fault.empty()) {
      std::string message = fmt::format("{}: {}", files::in_quotes(command.typed), fault);
      if (has_failed) {
        show_end(process.log());
      } else if (process.lines().empty()) {
        const auto shapes = process.reader().frequent_shapes();
        if (!shapes.empty()) fmt::print(stderr, "what it printed, the most frequent lines first (N: a number):\n");
        for (const auto& [shape, count] : shapes) fmt::print(stderr, "  {:>6}  {}\n", count, shape);
        message += "; --steps-from 'regex with (?P<step>\\d+) and (?P<loss>\\S+)' says where its steps are";
      }
      if (plan.gate) message += "; log: " + process.log().string();
      throw std::invalid_argument(message);
    }
    const std::vector<StepLine>& lines = process.lines();
    const std::vector<double> timed = process.timed_ms();
    std::vector<double> apart;
    for (size_t i = 1; i < lines.size(); ++i) apart.push_back(static_cast<double>(lines[i].step - lines[i - 1].step));
    return Trial{.first_step_s = lines.front().seconds,
                 .step_s = harness::median(timed) / 1000,
                 .every = std::llround(harness::median(apart)),
                 .shape = process.shape(),
                 .has_losses = process.by_loss(),
                 .terminal = command.trial.terminal,
                 .burst_s = command.trial.burst_s,
                 .gpus = process.gpus().names(),
                 .wrote = written_since(directory, since, folder)};
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

std::string look_at(const Plan& plan, size_t rung, const fs::path& folder, const fs::path& file) {
  const TypedCommand& command = command_of(plan, rung);
  const std::string id = fmt::format("look-{:02}-{}", rung, plan.rungs[rung].name);
  const fs::path own = fs::absolute(folder / "runs" / id), log = folder / "logs" / (id + ".log");
  std::error_code ignored;
  fs::remove_all(own, ignored);
  fs::create_directories(own);
  fs::remove(file, ignored);
  std::vector<std::string> variables{"LADDER_LOOK=" + fs::absolute(file).string(), python_path_with_look()};
  if (!plan.commands->as_is) add_variables(variables, own);
  // A look is over after seven steps, which it makes slower. Nobody waits for a program that cannot be looked at.
  const double limit_s = std::min(plan.run_limit_s, 20 + 10 * command.trial.first_step_s + 100 * command.trial.step_s);
  const ChildResult child =
      harness::run_child({.argv = {"/bin/sh", "-c", text_for(command, own)},
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

void show_end(const fs::path& log) {
  constexpr size_t most = 20;
  std::vector<std::string> lines;
  std::istringstream stream(files::read_end(log, 8192));
  for (std::string line; std::getline(stream, line);) lines.push_back(files::shortened(files::printable(line), 160));
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - most);
  if (!lines.empty()) fmt::print(stderr, "the end of what it printed:\n  {}\n", fmt::join(lines, "\n  "));
}

std::vector<double> step_ms_of(const std::vector<int64_t>& steps, const std::vector<double>& seconds) {
  std::vector<double> ms;
  for (size_t i = 1; i < steps.size();) {
    const size_t before = i - 1;
    size_t last = i;
    while (last + 1 < steps.size() && seconds[last + 1] == seconds[i]) ++last;
    const double each = 1000 * (seconds[last] - seconds[before]) / static_cast<double>(steps[last] - steps[before]);
    for (; i <= last; ++i) ms.push_back(std::max(each, least_step_ms));
  }
  return ms;
}

double run_s(const Plan& plan, const Trial& trial) {
  const int64_t timed = std::max(plan.timed_steps, least_intervals * trial.every);
  return trial.first_step_s + static_cast<double>(plan.warmup_steps + timed) * trial.step_s;
}

harness::Occupied occupy_for_commands(const std::string& command, const fs::path& at, bool wait) {
  std::set<std::string> devices{"cpu"};
  for (const harness::VisibleGpu& gpu : harness::visible_gpus().gpus) devices.insert("gpu-" + gpu.bus_id);
  return harness::occupy(devices, command, at, wait);
}

RunMaker commands(const Plan& plan, const fs::path& folder) {
  for (size_t i = 0; i < plan.rungs.size(); ++i) (void)command_of(plan, i);
  const Environment here = environment_of_commands();
  return {.make = [&plan, folder, here](const PlannedRun& run,
                                        const std::function<void(std::string_view)>& on_line) -> std::optional<Record> {
            check_has_its_files(plan, folder);
            const Rung& rung = plan.rungs[run.rung];
            const std::string started = harness::utc_now();
            const harness::SinceBoot begun = harness::since_boot();
            CommandProcess process(plan, *rung.command, run.id, folder);
            process.make(on_line);
            const ChildResult& child = process.child();
            if (child.end == ChildResult::End::interrupted) return std::nullopt;
            const std::string fault = process.fault();
            const FailureKind kind = child.end == ChildResult::End::signaled      ? FailureKind::signal
                                     : child.end == ChildResult::End::timed_out   ? FailureKind::timeout
                                     : child.end == ChildResult::End::not_started ? FailureKind::spawn
                                                                                  : FailureKind::exit;
            Record record = fault.empty() ? process.record(run, rung.applied, here)
                                          : failed_record(run.id, kind, fault, started, child.seconds);
            if (record.command && !rung.program.empty()) record.command->commit = rung.program;
            record.started = started;
            record.duration_s = child.seconds;
            if (!begun.boot.empty()) record.since_boot = BootTime{begun.boot, begun.seconds};
            return record;
          },
          .here = here};
}

}  // namespace ablations
