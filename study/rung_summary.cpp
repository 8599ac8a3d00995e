#include "study/rung_summary.h"

#include "ablations/plan/make_plan.h"
#include "harness/stats/stats.h"
#include "study/judge.h"
#include "study/trace/roofline.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <vector>

namespace study {

namespace {

RungTimes ms_per_step(const RunsByRepeat& runs) {
  std::vector<double> medians, steps;
  for (const auto& [repeat, run] : runs) {
    medians.push_back(run.median_ms);
    steps.insert(steps.end(), run.timed_ms.begin(), run.timed_ms.end());
  }
  const harness::Estimate estimate = harness::median_with_interval(medians);
  return {{bounds(estimate), estimate.center}, harness::quantile(steps, 0.25), harness::quantile(steps, 0.75),
          harness::quantile(steps, 0.0),       harness::quantile(steps, 1.0),  steps.size()};
}

Median tokens_per_s(const Median& ms, int64_t tokens_per_step) {
  const auto rate = [&](double milliseconds) { return 1000.0 * static_cast<double>(tokens_per_step) / milliseconds; };
  Median tokens{{}, rate(ms.median)};
  if (ms.hi) tokens.lo = rate(*ms.hi);
  if (ms.lo) tokens.hi = rate(*ms.lo);
  return tokens;
}

// Over the runs that have it.
std::optional<double> median_of(const RunsByRepeat& runs, std::optional<int64_t> DataUse::*field) {
  std::vector<double> values;
  for (const auto& [repeat, run] : runs) {
    const std::optional<int64_t>& value = (*run.data).*field;
    if (value) values.push_back(static_cast<double>(*value) / static_cast<double>(run.timed_ms.size()));
  }
  return values.empty() ? std::nullopt : std::optional(harness::median(values));
}

// What can be told of a rung from the plan.
StudyRung planned_rung(const Plan& plan, size_t index) {
  const Rung& planned = plan.rungs[index];
  // In a cumulative ladder the rung below, elsewhere what it is compared with, or the first.
  size_t before = plan.mode == Mode::cumulative && !planned.against ? std::max<size_t>(index, 1) - 1
                                                                    : planned.against.value_or(plan.reference);
  while (plan.quick && before > 0 && std::ranges::find(plan.quick->left_out, before) != plan.quick->left_out.end())
    --before;
  const Shape shape = shape_of(plan, index);
  StudyRung rung;
  rung.index = index;
  if (!planned.optimization.empty()) rung.optimization = planned.optimization;
  rung.title = planned.title;
  rung.summary = planned.summary;
  rung.text = planned.text;
  if (!planned.peer.empty()) rung.peer = planned.peer;
  rung.against = planned.against;
  if (planned.status == Rung::Status::not_applicable) rung.status = RungStatus::not_applicable;
  if (planned.status == Rung::Status::not_measured) rung.status = RungStatus::not_measured;
  rung.reason = planned.reason;
  rung.recipe = rung.recipe_diff = files::Json::object();
  if (planned.command) {
    rung.command = StudyCommand{.text = planned.command->text, .typed = planned.command->typed};
    return rung;
  }
  rung.recipe = planned.recipe;
  rung.recipe_diff = recipe_diff(plan.rungs[before].recipe, planned.recipe);
  rung.workload = StepSize{shape, shape.B * shape.T * shape.accumulation};
  return rung;
}

// A number of the runs' own, over all of them.
Median number_over(const RunsByRepeat& runs, const std::string& name) {
  std::vector<double> values;
  for (const auto& [repeat, run] : runs) values.push_back(run.command->numbers.at(name));
  const harness::Estimate estimate = harness::median_with_interval(values);
  return {bounds(estimate), estimate.center};
}

// The slowest rank is one that is so in most runs.
std::optional<CommandRanks> ranks_over(const RunsByRepeat& runs) {
  std::optional<CommandRanks> ranks;
  std::map<int64_t, std::vector<double>> behind;
  bool takes_longer = false;
  for (const auto& [repeat, run] : runs) {
    const std::optional<CommandRanks>& of = run.command->ranks;
    if (of && (!ranks || of->nodes > ranks->nodes)) ranks = of;
    if (of && of->slowest) behind[*of->slowest].push_back(of->behind);
    takes_longer = takes_longer || (of && of->takes_longer);
  }
  if (!ranks) return std::nullopt;
  ranks->slowest.reset();
  ranks->behind = 0;
  ranks->takes_longer = false;
  for (const auto& [rank, shares] : behind) {
    if (2 * shares.size() <= runs.size()) continue;
    ranks->slowest = rank;
    ranks->behind = harness::median(shares);
    ranks->takes_longer = takes_longer;
  }
  return ranks;
}

// What a command shows beside its steps' times, but for what it is compared with.
void add_command(const Rung& planned, const RunsByRepeat& runs, StudyCommand& command) {
  std::vector<double> means, starts, own, waits, cpu;
  for (const auto& [repeat, run] : runs) {
    const CommandRun& of = *run.command;
    const auto first_timed = of.steps.size() - 1 - run.timed_ms.size();
    means.push_back(run.window_ms / static_cast<double>(of.steps.back() - of.steps[first_timed]));
    starts.push_back(of.first_step_s);
    if (of.own_ms) own.push_back(*of.own_ms);
    if (of.wait_ms) waits.push_back(*of.wait_ms);
    if (of.cpu_ms) cpu.push_back(*of.cpu_ms);
  }
  command.stated = runs.begin()->second.command->stated;
  command.stated.erase("log");
  command.versions = runs.begin()->second.command->versions;
  command.shape = runs.begin()->second.command->shape;
  command.unit = runs.begin()->second.command->unit;
  command.has_all = runs.begin()->second.command->has_all;
  command.by_loss = runs.begin()->second.command->by_loss;
  command.mean_ms = harness::median(means);
  command.first_step_s = harness::median(starts);
  command.cold_first_step_s = planned.command->trial.first_step_s;
  if (!own.empty()) command.own_ms = harness::median(own);
  if (!waits.empty()) command.input = InputWait{.wait_ms = harness::median(waits), .step_ms = command.mean_ms};
  command.ranks = ranks_over(runs);
  if (!cpu.empty()) command.cpu_ms = harness::median(cpu);
}

}  // namespace

static harness::Estimate unpaired(const RunsByRepeat& before, const RunsByRepeat& after) {
  const auto costs = [](const RunsByRepeat& runs) {
    std::vector<double> values;
    for (const auto& [repeat, run] : runs) values.push_back(run.cost);
    return values;
  };
  return harness::unpaired_ratio(costs(before), costs(after));
}

Times times_of(const RunsByRepeat& runs) {
  Times times;
  for (const auto& [repeat, run] : runs) times[repeat] = run.cost;
  return times;
}

std::optional<Ratio> speedup(const RunsByRepeat& before, const RunsByRepeat& after) {
  const bool is_itself = &before == &after && before.begin()->second.is_of_log;
  if (is_itself) return Ratio{Bounds{1, 1}, 1, std::ssize(before)};
  const auto estimate = before.begin()->second.is_of_log ? std::optional(unpaired(before, after))
                                                         : paired(times_of(before), times_of(after));
  if (!estimate) return std::nullopt;
  return Ratio{bounds(*estimate), estimate->center, estimate->n};
}

StudyRung rung_by_itself(const Plan& plan, size_t index, const Measured& measured) {
  StudyRung rung = planned_rung(plan, index);
  const RunsByRepeat& runs = measured.runs_of[index];
  const auto failure = measured.failures.find(index);
  if (!runs.empty()) {
    rung.runs_ok = runs.size();
    judge_alone(runs, rung);
    const std::string& seen = runs.begin()->second.title;
    if (rung.optimization && !rung.peer && !seen.empty() && plan.mode != Mode::leave_one_out) rung.title = seen;
    // LADDER_PYTHON may name another PyTorch than this program's.
    const std::string torch = short_version(runs.begin()->second.torch);
    const bool is_other = torch != short_version(measured.environment.value_or(Environment()).torch.value_or(torch));
    if (rung.peer && peer_name(*rung.peer).torch.empty() && is_other) rung.title = with_version(rung.title, torch);
  } else if (rung.is_measured()) {
    rung.status = failure == measured.failures.end() ? RungStatus::missing : RungStatus::failed;
    rung.reason = failure == measured.failures.end() ? "its runs have not been made yet" : failure->second.reason;
  }
  // Of trainings to a loss those that reach it are the lucky ones: their mean says nothing.
  const bool to_loss = plan.commands && plan.commands->metric && plan.commands->metric->to_loss;
  if (to_loss && rung.is_measured() && failure != measured.failures.end()) {
    rung.status = RungStatus::failed;
    rung.reason = failure->second.reason;
  }
  if (failure != measured.failures.end()) rung.out_of_memory = failure->second.out_of_memory;
  rung.label = label_of(plan, index, rung.title);
  return rung;
}

void add_conditions(const RunsByRepeat& runs, StudyRung& rung) {
  std::vector<double> joules, clocks, shares;
  double highest_mhz = 0;
  std::vector<std::string> flags;
  for (const auto& [repeat, run] : runs) {
    if (run.joules_per_token) joules.push_back(*run.joules_per_token);
    if (run.sm_clock_mhz) {
      clocks.push_back(run.sm_clock_mhz->median);
      shares.push_back(run.at_power_limit);
      highest_mhz = std::max(highest_mhz, run.sm_clock_mhz->max);
    }
    if (!run.disturbed.empty()) flags.push_back(run.disturbed);
  }
  if (!joules.empty()) rung.joules_per_token = harness::median(joules);
  if (!clocks.empty()) rung.clock = RungClock{harness::median(clocks), highest_mhz, harness::median(shares)};
  if (!flags.empty()) rung.flags = flags;
}

bool losses_differ(const RunsByRepeat& runs, double allowed) {
  const std::vector<double>& first = runs.begin()->second.losses;
  const auto is_near = [&](double a, double b) { return std::abs(a - b) <= allowed; };
  return std::ranges::all_of(first, [](double loss) { return std::isfinite(loss); }) &&
         std::ranges::any_of(runs,
                             [&](const auto& run) { return !std::ranges::equal(run.second.losses, first, is_near); });
}

void add_numbers(const Rung& planned, const RunsByRepeat& runs, const std::string& gpu, StudyRung& rung) {
  const RunData& first = runs.begin()->second;
  std::vector<double> faults;
  int64_t peak = 0, skipped = 0;
  for (const auto& [repeat, run] : runs) {
    faults.push_back(run.page_faults_per_step);
    peak = std::max(peak, run.peak_bytes);
    skipped = std::max(skipped, run.skipped_steps);
  }
  rung.ms_per_step = ms_per_step(runs);
  if (first.tokens_per_step > 0) rung.tokens_per_s = tokens_per_s(*rung.ms_per_step, first.tokens_per_step);
  if (peak > 0 || !first.is_of_log) rung.peak_memory_bytes = peak;
  if (planned.command) {
    add_command(planned, runs, *rung.command);
    for (const auto& [name, value] : first.command->numbers) {
      const auto has = [&](const auto& run) { return run.second.command->numbers.contains(name); };
      if (std::ranges::all_of(runs, has)) rung.numbers[name] = number_over(runs, name);
    }
    return;
  }
  rung.memory = first.memory;
  rung.least_work = first.least_work;
  if (skipped > 0) rung.skipped_steps = skipped;
  rung.page_faults_per_step = harness::median(faults);
  rung.mfu =
      mfu(device_of(planned.recipe) == DeviceKind::cpu ? "" : gpu, first.flops_per_step, rung.ms_per_step->median);
}

std::optional<size_t> rung_below(const Plan& plan, size_t i) {
  while (i-- > 0) {
    if (plan.rungs[i].peer.empty() && plan.rungs[i].status == Rung::Status::planned) return i;
  }
  return std::nullopt;
}

bool is_about_batches(const Plan& plan) {
  std::set<files::Json> kinds;
  for (const Rung& rung : plan.rungs) {
    if (rung.status == Rung::Status::planned && rung.peer.empty())
      kinds.insert(files::field_or_null(rung.recipe, "batches"));
  }
  return kinds.size() > 1;
}

std::optional<RungBatches> batches_of(const RunsByRepeat& runs) {
  const auto is_known = [](const auto& run) { return !run.second.data_ms.empty() && run.second.data; };
  if (runs.empty() || !std::ranges::all_of(runs, is_known)) return std::nullopt;
  const DataUse& first = *runs.begin()->second.data;
  RungBatches batches{.bytes_read = median_of(runs, &DataUse::bytes_read),
                      .storage_bytes = median_of(runs, &DataUse::storage_bytes),
                      .file_bytes = first.file_bytes,
                      .cached_before = first.cached_before,
                      .cached_after = first.cached_after,
                      .cold = first.cold};
  std::vector<double> ms, shares, faults;
  for (const auto& [repeat, run] : runs) {
    const auto steps = static_cast<double>(run.timed_ms.size());
    ms.push_back(harness::median(run.data_ms));
    shares.push_back(ms.back() / run.median_ms);
    faults.push_back(static_cast<double>(run.data->major_faults) / steps);
    if (run.data->resident_bytes) {
      batches.resident_bytes = std::max(batches.resident_bytes.value_or(0), *run.data->resident_bytes);
    }
  }
  const harness::Estimate estimate = harness::median_with_interval(ms);
  batches.ms = {bounds(estimate), estimate.center};
  batches.share = harness::median(shares);
  batches.major_faults = harness::median(faults);
  return batches;
}

}  // namespace study
