#include "study/warnings.h"

#include "harness/process/utc.h"
#include "study/rung_summary.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace study {

namespace {

using Rungs = std::vector<StudyRung>;
using Lines = std::vector<std::string>;

std::vector<double> times_in(const RunsByRepeat& runs) {
  std::vector<double> times;
  for (const auto& [repeat, run] : runs) times.push_back(run.median_ms);
  return times;
}

// How many runs have something there, and what the first of them has.
std::pair<int64_t, std::string> runs_with(std::string RunData::*field, const Measured& measured) {
  std::pair<int64_t, std::string> found{0, ""};
  for (const RunsByRepeat& runs : measured.runs_of) {
    for (const auto& [repeat, run] : runs) {
      if (!(run.*field).empty() && ++found.first == 1) found.second = run.*field;
    }
  }
  return found;
}

// One line for all of them, or none: the rungs themselves are marked. Where nobody looked, "not disturbed" says
// nothing.
void warn_of_unwatched(const Measured& measured, Lines& warnings) {
  if (const auto [runs, why] = runs_with(&RunData::unwatched, measured); runs > 0) {
    warnings.push_back(fmt::format("{} of {} runs {} not watched for a throttled or shared GPU: {}", runs,
                                   measured.runs_ok, runs == 1 ? "was" : "were", why));
  }
}

// Runs that were to begin without their data in the page cache, where it kept most of them.
void warn_of_cache(const Plan& plan, const Measured& measured, Lines& warnings) {
  if (!plan.workload.cold_cache) return;
  int64_t warm = 0, unknown = 0;
  for (const RunsByRepeat& runs : measured.runs_of) {
    for (const auto& [repeat, run] : runs) {
      if (!run.data || !run.data->cached_before) {
        ++unknown;
      } else if (2 * *run.data->cached_before > run.data->file_bytes) {
        ++warm;
      }
    }
  }
  const auto were = [&](int64_t runs) { return fmt::format("{} of {} runs", runs, measured.runs_ok); };
  if (warm > 0) {
    warnings.push_back(were(warm) +
                       " began with their data in the page cache all the same: this file system keeps it, "
                       "or another program holds it");
  }
  if (unknown > 0) warnings.push_back(were(unknown) + " do not tell whether their data were in the page cache");
}

// The lowest and the highest median of a rung's runs. Even throttling shows only between runs. 0 where nobody watched.
std::pair<double, double> sm_clocks(const RunsByRepeat& runs) {
  std::pair<double, double> range{0, 0};
  for (const auto& [repeat, run] : runs) {
    if (!run.sm_clock_mhz) continue;
    const double mhz = run.sm_clock_mhz->median;
    range.first = range.second == 0 ? mhz : std::min(range.first, mhz);
    range.second = std::max(range.second, mhz);
  }
  return range;
}

// Who is behind, and what nobody saw.
void warn_of_ranks(const CommandRanks& ranks, const auto& warn) {
  if (ranks.slowest) {
    warn(fmt::format("rank {} is the slowest: {}{:.0f} % {}behind the others", *ranks.slowest,
                     ranks.takes_longer ? "" : "its lines come ", 100 * ranks.behind,
                     ranks.takes_longer ? "" : "of a step "));
  }
  if (ranks.unseen > 0) {
    warn(fmt::format("{} of its {} ranks wrote no line that can be read here: LADDER_LOG must lie where all can write",
                     ranks.unseen, ranks.count + ranks.unseen));
  }
  if (ranks.nodes > 1) {
    warn(fmt::format("it runs on {} machines: only this one and its GPUs are watched, not those of the others",
                     ranks.nodes));
  }
}

// What its lines leave in doubt. `warn` gets each in words.
void warn_of_command(const StudyCommand& command, const RunsByRepeat& runs, const auto& warn) {
  if (command.unit == "run") return;
  const double median = harness::median(times_in(runs));
  if (command.own_ms && std::abs(*command.own_ms / median - 1) > 0.05) {
    warn(
        fmt::format("it prints {:.3g} ms for a step of {:.3g} ms: it does not wait for the device, or counts otherwise",
                    *command.own_ms, median));
  }
  if (runs.begin()->second.is_of_log) {
    if (command.has_all)
      warn("its clock tells too little of its steps, so a step's time is the mean of the whole run, with evaluations");
    return;
  }
  if (!command.by_loss) {
    warn(
        "not all of its lines have a loss, so the device may be behind them: only the mean of a whole run can be "
        "trusted");
  }
  if (command.ranks) warn_of_ranks(*command.ranks, warn);
  if (command.has_all) {
    warn(
        "its lines come in bursts or by a clock, so its times are with all that it does between its steps, evaluations "
        "too");
  }
  std::vector<double> gains;  // of the second half of a run over its first
  for (const auto& [repeat, run] : runs) {
    const auto half = std::ssize(run.timed_ms) / 2;
    const std::vector<double> early(run.timed_ms.begin(), run.timed_ms.begin() + half),
        late(run.timed_ms.begin() + half, run.timed_ms.end());
    gains.push_back(harness::median(early) / harness::median(late));
  }
  if (gains.size() > 1 && std::ranges::min(gains) > 1.02) {
    warn(fmt::format("it still gets faster while it is timed, by {:.0f} %: more --warmup",
                     100 * (harness::median(gains) - 1)));
  }
}

// Which machine a run says that it was made on; empty: it does not say. Machines are told apart by their names, or by
// driver and addresses of their GPUs.
std::string machine_of(const RunData& run) {
  const std::map<std::string, std::string>& stated = run.command->stated;
  const auto fact = [&](const char* name) {
    const auto found = stated.find(name);
    return found == stated.end() ? std::string() : found->second;
  };
  const std::string addresses = fact("addresses of GPUs");
  if (const std::string host = fact("host"); !host.empty()) return host;
  return addresses.empty() ? "" : fact("GPUs") + ", driver " + fact("driver") + ", at " + addresses;
}

// Sides that were made one after the other, as far as their logs tell when they began.
void warn_of_order(const Plan& plan, const Measured& measured, Lines& warnings) {
  const auto times_of_logs = [&](size_t side) {
    std::vector<std::string> times;
    for (const auto& [repeat, run] : measured.runs_of[side]) times.push_back(measured.made.at(repeat).front().started);
    std::ranges::sort(times);
    return times;
  };
  const std::vector<std::string> first = times_of_logs(0);
  if (first.empty() || first.front().empty()) return;
  for (size_t i = 1; i < measured.runs_of.size(); ++i) {
    const std::vector<std::string> times = times_of_logs(i);
    if (times.empty() || times.front().empty()) continue;
    const bool is_after = times.front() > first.back();
    if (!is_after && times.back() >= first.front()) continue;
    warnings.push_back(fmt::format("all logs of \"{}\" were made {} those of \"{}\"", plan.rungs[i].title,
                                   is_after ? "after" : "before", plan.rungs.front().title));
  }
}

// What cannot be known of runs that nobody watched.
void warn_of_logs(const Plan& plan, const Measured& measured, Lines& warnings) {
  warnings.emplace_back(
      "their own clocks, not interleaved: a difference of the machines, or of what else ran, looks like one of the "
      "programs");
  const auto tells_no_loss = [](const RunsByRepeat& runs) {
    return !runs.empty() && !runs.begin()->second.command->by_loss;
  };
  if (!plan.commands->metric && std::ranges::any_of(measured.runs_of, tells_no_loss)) {
    warnings.emplace_back(
        "not all of their lines have a loss, so the device may have been behind them: only the mean of a whole run can "
        "be trusted");
  }
  std::vector<std::set<std::string>> machines;
  for (const RunsByRepeat& runs : measured.runs_of) {
    machines.emplace_back();
    for (const auto& [repeat, run] : runs) machines.back().insert(machine_of(run));
  }
  warn_of_order(plan, measured, warnings);
  const std::set<std::string>& first = machines.front();
  const auto is_unknown = [](const std::set<std::string>& names) { return names.empty() || names.contains(""); };
  if (std::ranges::any_of(machines, is_unknown)) {
    warnings.emplace_back("not all logs say which machine they are of");
    return;
  }
  for (size_t i = 1; i < machines.size(); ++i) {
    std::vector<std::string> both;
    std::ranges::set_intersection(machines[i], first, std::back_inserter(both));
    if (!both.empty()) continue;
    warnings.push_back(fmt::format("no log of \"{}\" is of a machine that \"{}\" ran on, as far as they say",
                                   plan.rungs[i].title, plan.rungs.front().title));
  }
}

// What makes a rung's number doubtful although it counts, and why it is compared with none.
void warn_of_rungs(const Plan& plan, const Measured& measured, const Rungs& rungs, Lines& warnings) {
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    const Rung& planned = plan.rungs[i];
    const StudyRung& rung = rungs[i];
    const RunsByRepeat& data = measured.runs_of[i];
    if (data.empty()) continue;
    const auto warn = [&](const std::string& text) {
      warnings.push_back(fmt::format("\"{}\": {}", planned.title, text));
    };
    if (const auto failure = measured.failures.find(i); failure != measured.failures.end()) {
      warn(failure->second.reason);
    }
    if (const auto [low, high] = sm_clocks(data); low < 0.95 * high) {
      warn(fmt::format("the GPU ran its runs at different clocks, the median from {:.0f} to {:.0f} MHz", low, high));
    }
    if (const auto below = rung_below(plan, i);
        plan.mode == Mode::cumulative && !rung.peer && below && rung.is_measured() && !rungs[*below].is_measured()) {
      warn(fmt::format("what it alone brings is not known: \"{}\" before it has no number", plan.rungs[*below].title));
    }
    const bool is_threaded = plan.workload.threads > 1;  // then timing decides in which order is added
    const double allowed = is_threaded ? planned.losses.value_or(ExpectedLosses()).tolerance : 0;
    if (planned.command) {
      warn_of_command(*rung.command, data, warn);
      continue;
    }
    if (device_of(planned.recipe) == DeviceKind::cpu && !rung.peer && losses_differ(data, allowed)) {
      warn("repeats of the same recipe and seed have different losses");
    }
    const std::optional<StepCalls>& calls = data.begin()->second.observations.cuda_calls;
    if (calls && calls->unavailable) {
      warn("launches, and what the host waits for, could not be counted: " + *calls->unavailable);
    }
  }
}

// The longest time in hours in which none of a repeat's runs was at work. Since the machine was started, where all
// began after the same start: the clock may be set meanwhile. Else, and in older records, by the clock.
double longest_pause_h(std::vector<Made> runs) {
  const auto is_of_first_boot = [&](const Made& run) { return !run.boot.empty() && run.boot == runs.front().boot; };
  const bool by_boot = std::ranges::all_of(runs, is_of_first_boot);
  if (by_boot) {
    std::ranges::sort(runs, {}, &Made::since_boot_s);
  } else {
    std::ranges::sort(runs, {}, &Made::started);
  }
  double longest = 0;
  for (size_t i = 1; i < runs.size(); ++i) {
    const Made &run = runs[i - 1], &next = runs[i];
    const double apart = by_boot ? (next.since_boot_s - run.since_boot_s) / 3600
                                 : harness::hours_between(run.started, next.started).value_or(0);
    longest = std::max(longest, apart - run.duration_s / 3600);
  }
  return longest;
}

// Rungs are compared within a repeat, because its runs share what the machine was like. Resumed on another day they do
// not.
void warn_of_sittings(const Measured& measured, Lines& warnings) {
  constexpr double pause_h = 0.5;
  for (const auto& [repeat, runs] : measured.made) {
    const double paused_h = longest_pause_h(runs);
    if (paused_h <= pause_h) continue;
    warnings.push_back(
        fmt::format("repeat {} was interrupted for {:.1f} hours: differences between its runs before "
                    "and after may come from the machine",
                    repeat + 1, paused_h));
  }
}

void warn_of_load(const Environment& environment, Lines& warnings) {
  const Environment::Cpu& cpu = environment.cpu;
  const int64_t cores = cpu.online_cores ? *cpu.online_cores : cpu.logical_cores.value_or(1);
  const auto& averages = environment.load_average;
  const double load = averages && !averages->empty() ? averages->front() : 0;
  if (load <= 1.5 * static_cast<double>(cores)) return;
  warnings.push_back(fmt::format("load average {:.2f} on {} during the runs: other work disturbed them", load,
                                 number_of(cores, "core")));
}

}  // namespace

std::vector<std::string> warnings_of(const Plan& plan, const Measured& measured, const std::vector<StudyRung>& rungs,
                                     const Environment& environment) {
  Lines warnings;
  const bool from_logs = plan.commands && plan.commands->from_logs;
  if (from_logs) warn_of_logs(plan, measured, warnings);
  warn_of_rungs(plan, measured, rungs, warnings);
  if (!from_logs && repeat_themselves(plan, measured)) warnings.emplace_back(one_number_each);
  warn_of_unwatched(measured, warnings);
  warn_of_cache(plan, measured, warnings);
  warn_of_sittings(measured, warnings);
  const bool is_of_time = !plan.commands || !plan.commands->metric || plan.commands->metric->depends_on_time();
  if (!from_logs && is_of_time) warn_of_load(environment, warnings);
  return warnings;
}

}  // namespace study
