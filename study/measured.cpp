#include "study/measured.h"

#include "ablations/run/run_setting.h"
#include "ablations/run/study_folder.h"
#include "harness/process/utc.h"
#include "harness/stats/stats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

namespace study {

namespace fs = std::filesystem;

namespace {

// The readings that a GPU's monitor (harness/machine/gpu_monitor.h) could not give.
std::string why_unwatched(const Record& record) {
  if (!record.is_on_gpu() && !(record.command && record.monitor)) return "";
  const MonitorSummary monitor = record.monitor.value_or(MonitorSummary{});
  if (monitor.unavailable) return *monitor.unavailable;
  const auto note_of = [&](const std::string& field) {
    const auto note = monitor.notes.find(field);
    return note == monitor.notes.end() ? field + " is not known" : note->second;
  };
  if (!monitor.throttle) return note_of("throttle");
  if (!monitor.other_processes) return note_of("other_processes");
  return "";
}

Made made_of(const Record& record) {
  Made made{.started = record.started, .boot = "", .duration_s = record.duration_s};
  if (record.since_boot) {
    made.boot = record.since_boot->boot;
    made.since_boot_s = record.since_boot->seconds;
  }
  return made;
}

}  // namespace

// Each step's loss, where one was printed; none: it was not finite.
static std::vector<std::pair<int64_t, std::optional<double>>> losses_of(const Record& record) {
  std::vector<std::pair<int64_t, std::optional<double>>> losses;
  const std::optional<CommandRun>& command = record.command;
  if (command && !command->by_loss && command->unprinted.empty()) return losses;
  for (size_t i = 0; i < record.timing.loss.size(); ++i) {
    if (command && std::ranges::binary_search(command->unprinted, static_cast<int64_t>(i))) continue;
    losses.emplace_back(command ? command->steps.at(i + 1) : static_cast<int64_t>(i) + 1, record.timing.loss[i]);
  }
  return losses;
}

RunData run_data(const Record& record) {
  RunData run{.title = record.title, .torch = record.environment.torch.value_or("")};
  const RunTiming& timing = record.timing;
  const size_t steps = timing.step_ms.size();
  const size_t faults = record.command ? steps : timing.page_faults.size();  // a command's are not counted
  if (timing.warmup_steps >= std::ssize(timing.step_ms) || faults != steps || timing.loss.size() != steps ||
      (record.command && record.command->steps.size() != steps + 1)) {
    throw std::invalid_argument(
        fmt::format("record of run \"{}\": {} steps of warm-up among {} times, {} losses and {} counts of faults",
                    record.id, timing.warmup_steps, steps, timing.loss.size(), timing.page_faults.size()));
  }
  run.timed_ms.assign(timing.step_ms.begin() + timing.warmup_steps, timing.step_ms.end());
  run.median_ms = harness::median(run.timed_ms);
  if (timing.data_ms) {
    if (timing.data_ms->size() != steps) {
      throw std::invalid_argument(fmt::format("record of run \"{}\": {} times of batches for {} steps", record.id,
                                              timing.data_ms->size(), steps));
    }
    run.data_ms.assign(timing.data_ms->begin() + timing.warmup_steps, timing.data_ms->end());
  }
  run.data = record.data;
  if (!record.command) {
    run.page_faults_per_step = harness::median(
        std::vector<double>(timing.page_faults.begin() + timing.warmup_steps, timing.page_faults.end()));
  }
  for (const auto& [step, loss] : losses_of(record)) {
    run.loss_steps.push_back(step);
    run.losses.push_back(loss.value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  run.peak_bytes = record.memory.peak_bytes;
  run.tokens_per_step = record.workload.tokens_per_step;
  run.flops_per_step = record.workload.flops_per_step;
  run.skipped_steps = timing.skipped_steps;
  run.memory = record.memory;
  run.least_work = record.least_work;
  run.proofs = record.proofs;
  if (!record.is_of_peer() && !record.command) {
    run.observations = value_from<Observations>(record.observations, record.id);
  }
  run.command = record.command;
  if (record.command) run.tokens_per_step = record.command->tokens_per_step.value_or(0);
  run.window_ms = timing.window_ms;
  if (record.is_disturbed()) run.disturbed = fmt::format("{} {}", record.id, fmt::join(*record.flags, "; "));
  run.unwatched = why_unwatched(record);
  if (record.monitor) {
    run.joules_per_token = record.monitor->joules_per_token;
    run.sm_clock_mhz = record.monitor->sm_clock_mhz;
    for (const Throttle& throttle : record.monitor->throttle.value_or(std::vector<Throttle>{})) {
      if (throttle.reason == harness::power_cap) run.at_power_limit = throttle.share;
    }
  }
  return run;
}

std::string why_no_number(const Record& record) {
  if (!record.is_ok()) {
    return record.failure->message.empty() ? name_of(record.failure->kind) : record.failure->message;
  }
  if (const auto proof = std::ranges::find(record.proofs, false, &Proof::passed); proof != record.proofs.end()) {
    return fmt::format("{} is not proven: expected {}, observed {}", proof->field, proof->expected, proof->observed);
  }
  for (const auto& [step, loss] : losses_of(record)) {
    if (!loss) return fmt::format("the loss of step {} is not finite", step);
  }
  return "";
}

// By the plan's metric, or by time: of commands that all tell their tokens, by the time of a token.
static void add_costs(const Plan& plan, Measured& measured) {
  const auto knows_tokens = [](const RunsByRepeat& runs) {
    return std::ranges::all_of(runs, [](const auto& run) { return run.second.tokens_per_step > 0; });
  };
  const bool by_tokens = plan.commands && std::ranges::all_of(measured.runs_of, knows_tokens);
  const std::optional<Metric> metric = plan.commands ? plan.commands->metric : std::nullopt;
  for (RunsByRepeat& runs : measured.runs_of) {
    for (auto& [repeat, run] : runs) {
      run.is_of_log = plan.commands && plan.commands->from_logs;
      run.cost = by_tokens ? run.median_ms / static_cast<double>(run.tokens_per_step) : run.median_ms;
      if (!metric) continue;
      const auto& numbers = run.command.value_or(CommandRun()).numbers;
      const auto number = numbers.find(metric->name);
      if (number == numbers.end()) throw std::invalid_argument(fmt::format("a record has no \"{}\"", metric->name));
      run.cost = metric->cost(number->second);
    }
  }
}

bool repeat_themselves(const Plan& plan, const Measured& measured) {
  const auto repeats_itself = [](const RunsByRepeat& runs) {
    const auto is_first = [&](const auto& run) { return run.second.cost == runs.begin()->second.cost; };
    return runs.size() > 1 && std::ranges::all_of(runs, is_first);
  };
  return plan.commands && plan.commands->metric && !plan.commands->metric->pattern.empty() &&
         std::ranges::all_of(measured.runs_of, repeats_itself);
}

Measured read_records(const Plan& plan, const fs::path& folder) {
  Measured measured;
  measured.runs_of.resize(plan.rungs.size());
  std::map<std::pair<std::string, std::string>, std::pair<std::string, Facts>> first_of;  // each program's first record
  size_t described_by = plan.rungs.size();  // the rung whose record environment and workload come from
  for (size_t position = 0; position < plan.runs.size(); ++position) {
    const PlannedRun& run = plan.runs[position];
    const fs::path file = record_file(folder, run.id);
    StudyRun entry{.id = run.id, .rung = run.rung, .repeat = run.repeat, .position = static_cast<int64_t>(position)};
    if (fs::exists(file)) {
      const auto record = read_document<Record>(file);
      entry.record = file.lexically_relative(folder).string();
      entry.status = record.status;
      measured.made[run.repeat].push_back(made_of(record));
      if (const fs::path first = flagged_file(file); fs::exists(first)) {
        measured.made[run.repeat].push_back(made_of(read_document<Record>(first)));
      }
      if (measured.first_started.empty() || record.started < measured.first_started) {
        measured.first_started = record.started;
      }
      measured.last_started = std::max(measured.last_started, record.started);
      if (record.is_ok()) {
        ++measured.runs_ok;
        const Rung& rung = plan.rungs[run.rung];
        const Facts facts = study_facts(record, uses_cuda(plan));
        const auto& [id, others] = first_of.try_emplace({rung.peer, rung.program}, run.id, facts).first->second;
        if (const auto lines = differences(others, facts); !lines.empty()) {
          throw std::invalid_argument(fmt::format("{}: run {} does not belong to run {} in one study: {}",
                                                  file.string(), run.id, id, fmt::join(lines, "; ")));
        }
        const RunData& data = measured.runs_of[run.rung][run.repeat] = run_data(record);
        entry.median_ms = data.median_ms;
        if (!data.disturbed.empty() && !fs::exists(flagged_file(file))) ++measured.not_made_again;
        if (plan.rungs[run.rung].peer.empty() && run.rung < described_by) {
          described_by = run.rung;
          measured.environment = record.environment;
          measured.workload = record.workload;
        }
      } else {
        entry.reason = record.failure->message;
        const bool out_of_memory = record.failure->kind == FailureKind::out_of_memory;
        const auto [known, first] = measured.failures.try_emplace(run.rung, RungFailure{"", true});
        // Where runs failed for different reasons, one that is not out of memory says more.
        if (first || (known->second.out_of_memory && !out_of_memory)) {
          known->second = {fmt::format("run {}: {}", run.id, entry.reason), out_of_memory};
        }
      }
    }
    measured.runs.push_back(std::move(entry));
  }
  add_costs(plan, measured);
  return measured;
}

}  // namespace study
