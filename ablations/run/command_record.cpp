// What a run of a command leaves: its steps, losses and times, and what it used of the machine.
#include "ablations/run/command_process.h"
#include "ablations/run/command_start.h"
#include "harness/machine/machine.h"
#include "harness/stats/stats.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace ablations {

using harness::ChildResult;
using harness::StepLine;

// Of each line. A loss that was printed while a client tells of the steps is the last step's before it.
std::vector<std::optional<double>> CommandProcess::losses() const {
  const std::vector<StepLine>& lines = window_.lines();
  std::vector<std::optional<double>> losses;
  auto printed = printed_losses_.begin();
  for (size_t i = 0; i < lines.size(); ++i) {
    losses.push_back(lines[i].loss);
    const double next_s = i + 1 < lines.size() ? lines[i + 1].lowest_s : lines[i].lowest_s + 1;
    while (printed != printed_losses_.end() && printed->first < lines[i].lowest_s) ++printed;
    if (!losses.back() && printed != printed_losses_.end() && printed->first < next_s) losses.back() = printed->second;
  }
  return losses;
}

Record CommandProcess::record(const PlannedRun& run, const std::vector<std::string>& applied,
                              const Environment& here) const {
  Record record;
  record.id = run.id;
  record.recipe = record.observations = files::Json::object();
  record.optimizations = applied;
  record.environment = here;
  record.command = CommandRun{.text = command_.text,
                              .steps = {},
                              .seconds = {},
                              .shape = shape(),
                              .ended_by_us = child_.end == ChildResult::End::enough,
                              .terminal = command_.trial.terminal,
                              .stated = client_.stated(),
                              .versions = versions_};
  if (command_.text.find("{seed}") != std::string::npos) record.command->seed = seed_of(plan_, repeat_);
  if (!command_.trial.commit.empty()) record.command->commit = command_.trial.commit;
  record.proofs = client_.proofs();
  record.memory.peak_bytes = resident_bytes_;
  record.memory.peak_source = "resident sets of its processes, twice a second";
  if (gpus_.peak_bytes() > 0) {
    record.memory.peak_bytes = gpus_.peak_bytes();
    record.memory.peak_source = "its processes on the GPU (NVML), twice a second";
  }
  record.command->found = found_;
  record.flags.emplace();
  const double lost_share = metric_ ? add_whole_run(record) : add_steps(record);
  const std::vector<double> timed = window_.timed_ms();
  for (const std::string& flag : {harness::flag(lost_share), harness::flag_of_pause(timed)}) {
    if (!flag.empty()) record.flags->push_back(flag);
  }
  if (metric_ && !plan_.commands->metric->depends_on_time()) record.flags->clear();  // its seconds are only shown
  return record;
}

// Returns the share of the time that other work took.
double CommandProcess::add_steps(Record& record) const {
  const std::vector<StepLine>& lines = window_.lines();
  const std::optional<int64_t> tokens = tokens_per_step();
  RunTiming& timing = record.timing;
  timing.step_ms = window_.step_ms();
  timing.warmup_steps = static_cast<int64_t>(window_.first_timed());
  const double timed_s = lines.back().seconds - lines[window_.first_timed()].seconds;
  timing.window_ms = 1000 * timed_s;
  timing.processor_lost = lost(timed_s);
  record.summary = results::summary_of(window_.timed_ms(), tokens.value_or(0));
  CommandRun& command = *record.command;
  command.first_step_s = lines.front().seconds;
  command.unit = by_client_ ? "step" : command_.trial.unit();
  command.has_all = !by_client_ && pace_.pace.has_all();
  command.by_loss = by_loss();
  command.own_ms = own_ms();
  command.wait_ms = wait_ms();
  command.tokens_per_step = tokens;
  command.ranks = ranks();
  command.cpu_ms = cpu_ms();
  command.later = later();
  if (sleep_.all > 0 && gpus_.names().empty()) command.sleep = SleepLooks{sleep_.all, sleep_.asleep};
  const std::vector<std::optional<double>> all_losses = losses();
  const bool has_any = std::ranges::any_of(all_losses, [](const auto& loss) { return loss.has_value(); });
  for (size_t i = 0; i < lines.size(); ++i) {
    command.steps.push_back(lines[i].step);
    command.seconds.push_back(lines[i].seconds);
    if (i == 0) continue;
    const std::optional<double>& loss = all_losses[i];
    timing.loss.push_back(storable(loss));
    if (!loss && has_any) command.unprinted.push_back(static_cast<int64_t>(i) - 1);
  }
  gpus_.complete(record, tokens.value_or(0) * (lines.back().step - lines[window_.first_timed()].step));
  return timing.processor_lost.value_or(0);
}

// None: it is one process, as far as its lines say.
std::optional<CommandRanks> CommandProcess::ranks() const {
  constexpr double poll_s = 0.2;  // `torchrun --tee` looks for each rank's lines ten times a second
  const std::vector<StepLine>& lines = window_.lines();
  if (!by_client_ && !reader_) return std::nullopt;
  const harness::RankSteps& ranks = by_client_ ? client_.ranks() : reader_->ranks();
  const int64_t copies = by_client_ || !command_.trial.format ? 1 : command_.trial.format->copies;
  CommandRanks found{.count = std::max(ranks.seen(), copies),
                     .unseen = by_client_ ? std::max<int64_t>(client_.ranks_told() - ranks.seen(), 0) : 0,
                     .nodes = std::max<int64_t>(nodes_, std::ssize(client_.hosts()))};
  if (found.count + found.unseen == 1 && found.nodes == 1) return std::nullopt;
  const bool share_a_clock = by_client_ && client_.hosts().size() < 2;
  const auto slow = ranks.slowest(lines[window_.first_timed()].step, lines.back().step, share_a_clock ? 0 : poll_s);
  if (slow) {
    found.slowest = slow->rank;
    found.behind = slow->behind;
    found.takes_longer = slow->takes_longer;
  }
  return found;
}

// As one step, which has the last loss.
double CommandProcess::add_whole_run(Record& record) const {
  const double end_s = metric_->end_s(child_.seconds);
  metric_->add_whole_run(child_.seconds, record);
  record.timing.processor_lost = lost(end_s);
  gpus_.complete(record, 0);
  return record.timing.processor_lost.value_or(0);
}

std::optional<LaterSteps> CommandProcess::later() const {
  if (!later_) return std::nullopt;
  const std::vector<StepLine>& lines = later_->lines();
  LaterSteps later{.steps = lines.empty() ? 0 : lines.back().step - window_.lines().back().step};
  if (std::ssize(lines) > harness::least_intervals) {  // the first may still live on what was done before
    const std::vector<double> ms = later_->timed_ms();
    later.ms = harness::median(std::span(ms).subspan(ms.size() / 2));
  }
  const int64_t made = std::max<int64_t>(1, later_step_ - after_step_);
  if (!after_ || !later_after_) return later;
  const double ran_s = later_after_->ran_s - after_->ran_s;
  const int cores = harness::this_cpu().logical_cores;
  const int threads = std::clamp(static_cast<int>(std::lround(ran_s / later_s_)), 1, cores);
  later.cpu_ms = std::max(0.0, 1e3 * ran_s / static_cast<double>(made));
  later.processor_lost = harness::share_lost(*after_, *later_after_, later_s_, threads, cores);
  return later;
}

std::optional<double> CommandProcess::cpu_ms() const {
  const int64_t made = after_step_ - before_step_;  // the kernel counts in ticks, which a few steps do not fill
  if (metric_ || !before_ || !after_ || made <= plan_.timed_steps / 2) return std::nullopt;
  return std::max(0.0, 1e3 * (after_->ran_s - before_->ran_s) / static_cast<double>(made));
}

// Its threads are taken to be as many as were busy.
std::optional<double> CommandProcess::lost(double timed_s) const {
  if (!before_ || !after_ || window_s_ < timed_s / 2) return std::nullopt;  // lines of a client come late, at once
  const int cores = harness::this_cpu().logical_cores;
  const int threads = std::clamp(static_cast<int>(std::lround((after_->ran_s - before_->ran_s) / window_s_)), 1, cores);
  return harness::share_lost(*before_, *after_, window_s_, threads, cores);
}

std::optional<double> CommandProcess::own_ms() const {
  std::vector<double> own;
  for (size_t i = window_.first_timed() + 1; i < window_.lines().size(); ++i) {
    if (window_.lines()[i].own_ms) own.push_back(*window_.lines()[i].own_ms);
  }
  return own.empty() ? std::nullopt : std::optional(harness::median(own));
}

// The mean: batches that workers make ahead are waited for once in a while.
std::optional<double> CommandProcess::wait_ms() const {
  const std::vector<StepLine>& lines = window_.lines();
  std::optional<double> all;
  for (size_t i = window_.first_timed() + 1; i < lines.size(); ++i) {
    if (lines[i].wait_ms) all = all.value_or(0) + *lines[i].wait_ms;
  }
  const auto steps = static_cast<double>(lines.back().step - lines[window_.first_timed()].step);
  return all ? std::optional(*all / steps) : std::nullopt;
}

std::optional<int64_t> CommandProcess::tokens_per_step() const {
  if (plan_.commands->tokens_per_step > 0) return plan_.commands->tokens_per_step;
  if (by_client_) return client_.tokens();
  std::vector<double> tokens;  // by a line's own time and rate, which need not be true to tell how many
  for (size_t i = window_.first_timed() + 1; i < window_.lines().size(); ++i) {
    const StepLine& line = window_.lines()[i];
    if (line.own_ms && line.tokens_per_s) tokens.push_back(*line.own_ms * *line.tokens_per_s / 1e3);
  }
  const double median = tokens.empty() ? 0 : harness::median(tokens);
  return median >= 1 && median < 1e15 ? std::optional(std::llround(median)) : std::nullopt;
}

}  // namespace ablations
