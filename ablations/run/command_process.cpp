#include "ablations/run/command_process.h"

#include "ablations/run/command_start.h"
#include "ablations/run/meddling.h"
#include "ablations/run/run_setting.h"
#include "files/files.h"
#include "files/printable.h"
#include "files/resources.h"
#include "files/sha256.h"
#include "harness/machine/machine.h"
#include "harness/process/descendants.h"
#include "harness/stats/stats.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <regex>
#include <span>
#include <stdexcept>

namespace ablations {

namespace fs = std::filesystem;
using harness::ChildResult;
using harness::StepLine;

namespace {

constexpr const char* of_client = "lines of ladder_client";

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

}  // namespace

CommandProcess::CommandProcess(const Plan& plan, const TypedCommand& command, std::string id, fs::path folder,
                               int64_t repeat, bool goes_on)
    : plan_(plan),
      command_(command),
      id_(std::move(id)),
      repeat_(repeat),
      folder_(std::move(folder)),
      own_(fs::absolute(folder_ / "runs" / id_)),
      client_log_(fs::absolute(folder_ / "logs" / (id_ + ".steps.jsonl"))),
      client_(client_log_),
      pace_{.pace = command.trial.pace(), .doubt = ""},
      window_(empty_window(command.trial.pace(), command.trial.unit())),
      goes_on_(goes_on && !plan.commands->metric) {
  if (!plan.commands->steps_from.empty()) {
    reader_.emplace(harness::StepPattern(plan.commands->steps_from));
  } else if (command.trial.format) {
    reader_.emplace(step_format(*command.trial.format));
  }
  if (plan.commands->metric) metric_.emplace(*plan.commands->metric);
}

CommandProcess CommandProcess::trial(const Plan& plan, const TypedCommand& command, std::string id, fs::path folder,
                                     std::set<fs::path>* code) {
  CommandProcess process(plan, command, std::move(id), std::move(folder));
  process.reader_.reset();
  process.metric_.reset();
  process.trial_.emplace(plan.commands->steps_from);
  process.code_ = code;
  return process;
}

// Of numbers that are no steps the lines are counted.
harness::StepWindow CommandProcess::empty_window(const harness::Pace& pace, const std::string& unit) const {
  return {plan_.warmup_steps, plan_.timed_steps, pace, /*counts_lines=*/unit != "step"};
}

double CommandProcess::now_s() const { return monotonic_s() - begun_s_; }

void CommandProcess::make(const std::function<void(std::string_view)>& on_line) {
  on_line_ = on_line;
  std::error_code ignored;
  fs::remove_all(own_, ignored);
  fs::create_directories(own_);
  client_.remove();
  begun_s_ = monotonic_s();
  child_ = harness::run_child(
      {.argv = {"/bin/sh", "-c", text_for(plan_, command_, own_, repeat_, trial_.has_value())},
       .log = log(),
       .limit_s = plan_.run_limit_s,
       .environment = environment(),
       .of_others = true,
       .directory = command_.directory,
       .terminal = command_.trial.terminal,
       .on_output = [this](int stream, std::string_view bytes) { return take_output(stream, bytes); },
       .on_look = [this](const std::vector<pid_t>& tree) { return look(tree); },
       .on_turn = [this] { return turn(); },
       .turn_ms = command_.trial.shape == of_client ? 10 : 50});
  if (child_.end == ChildResult::End::exited) {
    take_client();
    if (by_client_ && !has_enough_) take(client_.end());
    if (trial_) {
      trial_->end();
      review(/*at_end=*/true);
    } else if (reader_ && !by_client_) {
      for (const auto& line : lines_.end()) {
        if (metric_) metric_->take(line);
        take(reader_->take(line));
      }
      take(reader_->end());
    } else if (metric_) {
      for (const auto& line : lines_.end()) metric_->take(line);
    }
    if (!has_enough_ && !metric_ && window_.end()) has_enough_ = window_.is_full();
    if (has_enough_ && watches_) end_window();
  }
  if (metric_ && watches_) end_window();
  if (trial_ && by_client_) learned_ = trial_->learned();  // whose losses are guarded
  versions_ = trial_ ? versions_of(loaded_) : command_.trial.versions;
  if (code_ != nullptr) add_told_code(*code_, code_file(), command_.directory);
  if (child_.killed) tell_of_client(command_.text);
  gpus_.wait_until_free();
  fs::remove_all(own_, ignored);
}

bool CommandProcess::by_loss() const {
  return std::ranges::all_of(losses(), [](const std::optional<double>& loss) { return loss.has_value(); });
}

std::string CommandProcess::shape() const {
  if (metric_) return "the whole run";
  if (by_client_) return of_client;
  if (!plan_.commands->steps_from.empty()) return "what --steps-from finds";
  return learned_ ? learned_->format->shape : command_.trial.shape;
}

std::optional<harness::StepFormat> CommandProcess::format() const { return learned_ ? learned_->format : std::nullopt; }

bool CommandProcess::has_losses() const {
  return learned_ && std::ranges::any_of(learned_->steps, [](const StepLine& step) { return step.loss.has_value(); });
}

bool CommandProcess::holds_back() const {
  if (by_client_ || !learned_) return false;
  const std::vector<StepLine>& steps = learned_->steps;
  size_t grouped = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool with_next = i + 1 < steps.size() && steps[i + 1].read == steps[i].read;
    grouped += with_next || (i > 0 && steps[i - 1].read == steps[i].read) ? 1 : 0;
  }
  return 2 * grouped > steps.size();
}

std::string CommandProcess::failure_of_metric() const {
  const bool is_ended = child_.end == ChildResult::End::enough || child_.succeeded();
  const std::string last = last_line(log(), "\r\n");
  return is_ended ? metric_->failure()
                  : child_.describe(plan_.run_limit_s) + (last.empty() ? "" : "; its last line: " + last);
}

// A client's time is its own word where nobody has read a line before the last was written.
bool CommandProcess::held_back_client() const {
  constexpr double seen_s = 0.3;  // thirty looks at its lines
  const std::vector<StepLine>& lines = window_.lines();
  return by_client_ && !trial_ && !lines.empty() &&
         lines.back().seconds - lines[window_.first_timed()].seconds > seen_s &&
         lines.back().read_s == lines[window_.first_timed()].read_s;
}

std::string CommandProcess::failure(bool shows_end) const {
  if (metric_) return failure_of_metric();
  if (has_enough_ && held_back_client()) {
    return "all its lines in LADDER_LOG were read at once, so that nobody saw when its steps ended: write each line "
           "when its step has ended, and flush it";
  }
  if (has_enough_) return "";
  const std::vector<StepLine>& lines = window_.lines();
  const std::string seen = fmt::format("{} of warm-up and {} timed are needed: --warmup, --steps", plan_.warmup_steps,
                                       std::max(plan_.timed_steps, harness::least_intervals));
  const std::string how = child_.end == ChildResult::End::exited && child_.code == 0
                              ? "ended by itself"
                              : child_.describe(plan_.run_limit_s);
  const std::string last = last_line(log(), "\r\n");  // of a bar what it shows now
  const std::string said = last.empty() || shows_end ? "" : "; its last line: " + last;
  if (lines.empty()) {
    const bool is_refused = !client_.has_begun() && fs::exists(fs::symlink_status(client_log_));
    const std::string file = is_refused ? "; the file that LADDER_LOG names must be a regular one" : "";
    const int64_t validations = trial_ ? trial_->refused() : 0;
    const std::string refused =
        validations == 0 ? ""
                         : fmt::format("; {} taken for a validation's, by a word before the step (val, test)",
                                       number_of(validations, "line") + (validations == 1 ? " was" : " were"));
    return fmt::format("{} before a step was found in what it printed{}{}{}", how, refused, file, said);
  }
  std::set<double> reads;
  for (const StepLine& line : lines) reads.insert(line.seconds);
  const bool at_once = std::ssize(lines) > harness::least_intervals && lines.size() > 4 * reads.size();
  if (!by_client_ && (pace_.needs_more || at_once)) {
    return fmt::format(
        "its {} step lines came at once, in {}: something holds back what it prints (conda run: --no-capture-output; "
        "Python: PYTHONUNBUFFERED=1; others: stdbuf -oL, or --terminal)",
        lines.size(), number_of(std::ssize(reads), "read"));
  }
  const auto steps = lines.back().step - lines.front().step;
  return fmt::format("{} after {} {}{}; {}{}", how, steps, command_.trial.unit(), steps == 1 ? "" : "s", seen, said);
}

std::string CommandProcess::doubt() const {
  if (by_client_) return "";
  if (learned_ && std::ranges::any_of(learned_->steps, &StepLine::comma)) {
    return "its losses have one comma before three digits (3,100), which may be 3100 or 3.1: let it print a point "
           "(LC_ALL=C)";
  }
  return pace_.doubt;
}

std::vector<std::string> CommandProcess::environment() const {
  std::vector<std::string> variables;  // a run has none of ours unless it needs them: it shall not know that it is one
  if (trial_ || plan_.commands->hook || metric_ || command_.trial.shape == of_client) {
    variables.push_back("LADDER_LOG=" + client_log_.string());
  }
  if (code_ != nullptr) {
    variables.insert(variables.end(), {"LADDER_CODE=" + code_file().string(), python_path_with_look()});
  }
  variables.insert(variables.end(), command_.variables.begin(), command_.variables.end());
  if (plan_.commands->hook) variables.insert(variables.end(), {"LADDER_HOOK=1", python_path_with_look()});
  if (!plan_.commands->as_is) add_variables(variables, own_);
  return variables;
}

fs::path CommandProcess::code_file() const { return fs::absolute(folder_ / "logs" / (id_ + ".code")); }

// These return whether more is needed.
bool CommandProcess::take_output(int stream, std::string_view bytes) {
  if (has_enough_) {
    if (!later_ || by_client_ || !reader_) return later_.has_value();
    std::vector<StepLine> steps;
    for (const auto& line : lines_.take(stream, bytes, now_s())) {
      std::ranges::copy(reader_->take(line), std::back_inserter(steps));
    }
    return take_later(steps);
  }
  if (trial_) {
    trial_->take(stream, bytes, now_s());
    if (!by_client_ && client_.has_begun()) return take_client();
    return review(/*at_end=*/false);
  }
  if (!reader_ && !metric_) return true;
  std::vector<StepLine> steps;
  for (const auto& line : lines_.take(stream, bytes, now_s())) {
    if (metric_) metric_->take(line);
    if (reader_) std::ranges::copy(reader_->take(line), std::back_inserter(steps));
  }
  if (!by_client_ && !client_.has_begun()) return take(steps);
  add_printed_losses(steps);
  return true;
}

void CommandProcess::add_printed_losses(const std::vector<StepLine>& steps) {
  for (const StepLine& step : steps) {
    if (step.loss) printed_losses_.emplace_back(step.lowest_s, *step.loss);
  }
}

// A client's lines take the place of printed ones, from its first word on.
bool CommandProcess::take_client() {
  if (has_enough_) return later_ && take_later(by_client_ ? client_.read(begun_s_) : std::vector<StepLine>{});
  if (!by_client_ && client_.has_begun()) {
    by_client_ = true;
    if (watches_) gpus_.end();
    watches_ = false;
    pace_ = {};
    window_ = empty_window({}, "step");
  }
  return take(client_.read(begun_s_));
}

// Of one read. The next read's lines have another time, so that these are complete unless bursts are joined.
bool CommandProcess::take(const std::vector<StepLine>& steps) {
  if (metric_) {
    metric_->take(steps);
    return !metric_->is_done();
  }
  for (const StepLine& step : steps) {
    if (later_) {
      later_->take(step);
    } else if (window_.take(step)) {
      follow_window();
    }
  }
  if (!later_ && !pace_.pace.has_all() && window_.end()) follow_window();
  return !has_enough_ || later_;
}

void CommandProcess::follow_window() {
  const int64_t needed = plan_.warmup_steps + plan_.timed_steps;
  on_line_(fmt::format("{} {}", std::min(window_.made(), needed), needed));
  if (window_.has_begun() && !watches_ && !has_enough_) begin_window();
  if (!window_.is_full() || has_enough_) return;
  end_window();
  if (!goes_on_) return;
  later_from_s_ = now_s();
  later_.emplace(0, std::numeric_limits<int64_t>::max(), pace_.pace, command_.trial.unit() != "step" && !by_client_);
}

// Until it has gone on for as long as it took until then; the timed steps' time is enough above five seconds. Gives up
// after three times as long.
bool CommandProcess::take_later(const std::vector<StepLine>& steps) {
  constexpr double long_s = 5;
  for (const StepLine& step : steps) later_->take(step);
  const std::vector<StepLine>& lines = window_.lines();
  const double timed_s = lines.back().seconds - lines[window_.first_timed()].seconds;
  const double wanted_s = std::max(timed_s, std::min(later_from_s_, long_s)), passed_s = now_s() - later_from_s_;
  const bool has_few = std::ssize(later_->lines()) <= harness::least_intervals;
  const bool has_time = now_s() < 0.9 * plan_.run_limit_s;
  if (has_time && (passed_s < wanted_s || (has_few && passed_s < 3 * wanted_s))) return true;
  later_s_ = passed_s;
  renew_tree();
  later_after_ = harness::processor_time(tree_);
  later_step_ = later_->lines().empty() ? 0 : later_->lines().back().step;
  return false;
}

// Reads a trial's lines again once there are enough new ones. It goes on until its number is sure: for some seconds,
// unless its lines name their steps and losses.
bool CommandProcess::review(bool at_end) {
  constexpr double look_s = 3;
  const bool needs_steps = !plan_.commands->metric || plan_.commands->metric->to_loss;
  constexpr double give_up_s = 30;
  constexpr size_t many = 200;
  const double now = now_s();
  const size_t lines = trial_->lines();
  if (lines > 0 && first_output_s_ < 0) first_output_s_ = now;
  const bool is_time = at_end || (now > reviewed_s_ + 4 * review_cost_s_ &&
                                  (10 * lines > 11 * reviewed_lines_ || now > reviewed_s_ + 0.3));
  if (by_client_ || !is_time || (!at_end && lines == reviewed_lines_)) return true;
  reviewed_lines_ = lines;
  learned_ = trial_->learned();
  reviewed_s_ = now_s();
  review_cost_s_ = reviewed_s_ - now;
  if (!learned_ && !needs_steps) return now < first_output_s_ + look_s;
  if (!learned_) return lines < many || now < first_output_s_ + give_up_s;
  pace_ = harness::pace_of(learned_->steps);
  window_ = empty_window(pace_.pace, learned_->format ? learned_->format->unit : "step");
  for (const StepLine& step : learned_->steps) window_.take(step);
  if (at_end || !pace_.pace.has_all()) window_.end();
  const bool is_sure =
      (!learned_->format || is_named(*learned_->format)) && pace_.doubt.empty() && !gpus_.answer_late();
  if (!before_ && window_.has_begun()) {
    renew_tree();
    before_ = harness::processor_time(tree_);
    before_step_ = window_.lines().back().step;
  }
  has_enough_ =
      window_.is_full() && !pace_.needs_more && (at_end || is_sure || now > learned_->steps.front().seconds + look_s);
  if (has_enough_ && !at_end) {
    renew_tree();
    after_ = harness::processor_time(tree_);
    after_step_ = window_.lines().back().step;
  }
  return !has_enough_;
}

bool CommandProcess::turn() {
  const bool reads_client = by_client_ || client_.has_begun();
  return metric_ || trial_ || (!has_enough_ && !reads_client) || take_client();
}

// A process that runs before others makes its own steps faster, and those of nobody else.
void CommandProcess::watch_processes() {
  const auto is_known = [](const Found& one) { return one.kind == "priority"; };
  if (std::ranges::any_of(found_, is_known)) return;
  const int ours = inherited().nice, policy = ::sched_getscheduler(0);
  for (const pid_t pid : tree_) {
    errno = 0;
    const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(pid)), error = errno,
              its = ::sched_getscheduler(pid);
    if (error == 0 && nice < ours) {
      found_.push_back(
          {"priority", fmt::format("a process of it ran at nice {}, where it was begun at {}", nice, ours)});
      return;
    }
    if ((its == SCHED_FIFO || its == SCHED_RR) && its != policy) {
      found_.push_back({"priority", "a process of it ran with a real-time priority, which it was not begun with"});
      return;
    }
  }
}

bool CommandProcess::look(const std::vector<pid_t>& tree) {
  tree_ = tree;
  watch_processes();
  resident_bytes_ = std::max(resident_bytes_, resident_bytes_of(tree));
  gpus_.look(tree);
  if (code_ != nullptr) add_executed_code(*code_, tree);
  if (trial_) add_executed_code(loaded_, tree);
  if (!metric_) return take_client();
  if (!watches_) begin_window();
  window_s_ = monotonic_s() - window_begun_s_;
  after_ = harness::processor_time(tree_);
  const std::optional<double> until_s = plan_.commands->metric->until_s;
  return take_client() && (!until_s || now_s() < *until_s);
}

// With what its processes have started since somebody looked.
void CommandProcess::renew_tree() {
  for (size_t i = 0, known = tree_.size(); i < known; ++i) {
    for (const pid_t pid : harness::process_tree(tree_[i])) {
      if (std::ranges::find(tree_, pid) == tree_.end()) tree_.push_back(pid);
    }
  }
}

void CommandProcess::begin_window() {
  watches_ = true;
  renew_tree();
  nodes_ = nodes_of(tree_);
  gpus_.look(tree_);
  window_begun_s_ = monotonic_s();
  before_ = harness::processor_time(tree_);
  if (!window_.lines().empty()) before_step_ = window_.lines().back().step;
  gpus_.begin(tree_);
  if (!metric_) sleep_watch_->begin(tree_);
}

void CommandProcess::end_window() {
  if (watches_) gpus_.end();
  sleep_ = sleep_watch_->end();
  watches_ = false;
  has_enough_ = true;
  if (code_ != nullptr) add_executed_code(*code_, tree_);
  if (metric_) return;  // its processes have ended
  window_s_ = monotonic_s() - window_begun_s_;
  renew_tree();
  watch_processes();
  after_ = harness::processor_time(tree_);
  after_step_ = window_.lines().back().step;
  resident_bytes_ = std::max(resident_bytes_, resident_bytes_of(tree_));
  if (by_client_) check_clock();
}

// A client's own times against those at which its lines could be read. A line cannot be read before it is written. If
// the newest line is older at each read, by its own time, its time goes slower than the reader's.
void CommandProcess::check_clock() {
  constexpr double noticed_s = 0.02, noticed = 0.1;
  const std::vector<StepLine>& lines = window_.lines();
  const StepLine &first = lines[window_.first_timed()], &last = lines.back();
  std::vector<const StepLine*> reads;
  for (size_t i = window_.first_timed(); i < lines.size(); ++i) {
    if (reads.empty() || lines[i].read_s > reads.back()->read_s) reads.push_back(&lines[i]);
  }
  const size_t third = std::max<size_t>(1, reads.size() / 3);
  if (reads.size() < 2) return;
  double early_s = INFINITY, late_s = INFINITY;  // how long after its time a line was written: at most, and at least
  for (size_t i = 0; i < third; ++i) {
    const StepLine& late = *reads[reads.size() - 1 - i];
    early_s = std::min(early_s, reads[i]->read_s - reads[i]->newest_s);
    late_s = std::min(late_s, late.read_from_s - late.newest_s);
  }
  const double said_s = last.seconds - first.seconds;
  const double step_s = said_s / static_cast<double>(last.step - first.step);
  if (late_s - early_s <= noticed_s + noticed * said_s + step_s) return;
  found_.push_back(
      {"clock", fmt::format("its lines in LADDER_LOG say that the timed steps took {:.3g} s, and by the clock "
                            "of who read them at least {:.3g} s passed meanwhile",
                            said_s, said_s + late_s - early_s)});
}

}  // namespace ablations
