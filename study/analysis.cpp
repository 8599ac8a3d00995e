#include "study/analysis.h"

#include "ablations/plan/make_plan.h"
#include "ablations/run/study_folder.h"
#include "harness/process/utc.h"
#include "harness/stats/stats.h"
#include "study/attribution.h"
#include "study/judge.h"
#include "study/keep_or_discard.h"
#include "study/looks.h"
#include "study/measured.h"
#include "study/rung_summary.h"
#include "study/same_training.h"
#include "study/trace/divided_step.h"
#include "study/trace/explain.h"
#include "study/tricks.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace study {

namespace fs = std::filesystem;

namespace {

using Rungs = std::vector<StudyRung>;

std::vector<double> times_in(const RunsByRepeat& runs) {
  std::vector<double> times;
  for (const auto& [repeat, run] : runs) times.push_back(run.median_ms);
  return times;
}

// From which step on a command that is faster is ahead of the first although it starts noticeably later.
void add_breakeven(Rungs& rungs) {
  constexpr double noticed_s = 0.1;
  const StudyRung& first = rungs.front();
  for (StudyRung& rung : rungs) {
    if (!rung.command || !rung.is_measured() || !rung.speedup_first || !rung.speedup_first->is_faster()) continue;
    const double later_s = rung.command->first_step_s - first.command->first_step_s;
    const double gain_s = (first.ms_per_step->median - rung.ms_per_step->median) / 1000;
    if (later_s > noticed_s && gain_s > 0) {
      rung.command->pays_from_step = static_cast<int64_t>(std::ceil(later_s / gain_s));
    }
  }
}

using Lines = std::vector<std::string>;

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

// What an optimization, or what was added to a command, is called: the title of the rung that has it alone, or that
// leaves it out.
std::string title_of_piece(const Plan& plan, const std::string& piece) {
  const auto rung = std::ranges::find(plan.rungs, piece, &Rung::optimization);
  if (rung == plan.rungs.end()) return piece;
  constexpr std::string_view left_out = "without ";
  const bool leaves_out = plan.mode == Mode::leave_one_out && rung->title.starts_with(left_out);
  return leaves_out ? rung->title.substr(left_out.size()) : rung->title;
}

std::vector<Worth> worths_of(const Plan& plan, const Measured& measured, const Rungs& rungs) {
  std::vector<Times> times;
  std::vector<std::string> reasons;
  for (const StudyRung& rung : rungs) {
    reasons.push_back(rung.reason);
    times.push_back(rung.is_measured() ? times_of(measured.runs_of[rung.index]) : Times{});
  }
  std::vector<Worth> worths = attribution(plan, times, reasons);
  for (Worth& worth : worths) {
    worth.title = title_of_piece(plan, worth.optimization);
  }
  return worths;
}

// Every peer beside the rung whose work it does.
void add_peers(const Measured& measured, Rungs& rungs) {
  for (const StudyRung& rung : rungs) {
    if (!rung.peer || !rung.against) continue;
    StudyRung& own = rungs[*rung.against];
    PeerRatio peer;
    peer.peer = *rung.peer;
    peer.rung = rung.index;
    if (own.is_measured() && rung.is_measured()) {
      if (const auto ratio = speedup(measured.runs_of[rung.index], measured.runs_of[own.index])) {
        static_cast<Bounds&>(peer) = *ratio;
        peer.ratio = ratio->ratio;
        peer.pairs = ratio->pairs;
      }
    }
    if (!own.peers) own.peers.emplace();
    own.peers->push_back(peer);
  }
}

// The rung below rung i of a ladder: the last one of this program before it that applies here.
std::optional<size_t> rung_below(const Plan& plan, size_t i) {
  while (i-- > 0) {
    if (plan.rungs[i].peer.empty() && plan.rungs[i].status == Rung::Status::planned) return i;
  }
  return std::nullopt;
}

// Where a rung was traced: how busy the device was, and what changed since the rung below it.
void add_explanations(const Plan& plan, const fs::path& folder, Rungs& rungs) {
  std::optional<TraceDocument> before;
  std::optional<size_t> of;  // the rung of `before`
  for (StudyRung& rung : rungs) {
    const fs::path file = trace_file(folder, plan.rungs[rung.index]);
    if (rung.peer || !rung.is_measured() || !fs::exists(file)) continue;
    auto trace = read_document<TraceDocument>(file);
    trace.title = rung.label;
    rung.profile = profile_of(trace.summary, rung.ms_per_step->median);
    // A CPU and a GPU have nothing in common to compare.
    if (of && of == rung_below(plan, rung.index) && before->device == trace.device) {
      const auto& step = rung.speedup_against;
      Explanation why = explain(*before, trace, step && (step->is_faster() || step->is_slower()));
      rung.explanation = std::move(why.words);
      if (!why.changed.empty()) rung.changed = std::move(why.changed);
    }
    before = std::move(trace);
    of = rung.index;
  }
}

Statistics statistics_of(const Plan& plan) {
  if (plan.commands && plan.commands->from_logs) {
    return {.center = "median over logs of each run's median step",
            .interval =
                "95 % over logs, Student's with a bootstrapped standard error; speedups of logs, which are no pairs, "
                "by Welch's degrees of freedom over the logarithms"};
  }
  Statistics statistics{.center = "median over runs of each run's median step",
                        .interval =
                            "95 % over runs, Student's with a bootstrapped standard error; speedups paired within a "
                            "repeat, from 6 repeats on by signed ranks"};
  if (plan.mode == Mode::factorial) {
    statistics.attribution =
        "Shapley values of the logarithm of the time, within each repeat; their mean over repeats (so that they add "
        "up) with a 95 % t interval; the other methods as speedups are";
  }
  return statistics;
}

// What a page may say: of a place its last part.
std::optional<TypedLine> without_places(std::optional<TypedLine> typed) {
  if (!typed) return typed;
  for (std::string& word : typed->flags) {
    if (word.starts_with('/')) word = fs::path(word).filename().string();
  }
  return typed;
}

// "NVIDIA H200", "AMD EPYC, 2 threads", or both where a ladder begins on the CPU.
NamedDevice named_device(const Plan& plan, const Environment& environment) {
  if (plan.commands && plan.commands->from_logs) return {DeviceKind::cpu, "the machines of its logs"};
  if (plan.commands) {
    const bool on_gpu = uses_cuda(plan) && environment.gpu;
    return {on_gpu ? DeviceKind::cuda : DeviceKind::cpu,
            on_gpu ? environment.gpu->name : environment.cpu.model.value_or("an unknown processor")};
  }
  const std::string cpu =
      fmt::format("{}, {}", environment.cpu.model.value_or(""), number_of(environment.threads.value_or(0), "thread"));
  if (!uses_cuda(plan)) return {DeviceKind::cpu, cpu};
  if (!environment.gpu) return {DeviceKind::cuda, cpu};
  const bool mixed = std::ranges::any_of(plan.rungs, [](const Rung& rung) {
    return rung.status == Rung::Status::planned && device_of(rung.recipe) == DeviceKind::cpu;
  });
  return {DeviceKind::cuda, environment.gpu->name + (mixed ? "; rungs without it on " + cpu : "")};
}

// The rung that another is compared with, where `reference` has taken the planned one's place.
std::optional<size_t> counted_reference(const Plan& plan, size_t reference, size_t rung) {
  const auto planned = reference_of(plan, rung);
  if (!planned || *planned != plan.reference) return planned;
  return reference == rung ? std::nullopt : std::optional(reference);
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

// By looks at the first steps of a command and of its reference. Free losses mean that it may be another training.
void judge_by_looks(const Plan& plan, const fs::path& folder, StudyRung& rung) {
  rung.command->training = same_training_in(folder, plan, rung.index);
  const auto& training = rung.command->training;
  if (!training || training->verdict != Sameness::another || !plan.commands->guards_losses) return;
  if (!rung.is_measured() && rung.status != RungStatus::voided) return;
  rung.status = RungStatus::voided;
  rung.reason = training->words;
}

// Every rung by its reference. Returns the plan's that counts.
size_t judge_rungs(const Plan& plan, const fs::path& folder, const Measured& measured, Rungs& rungs) {
  const size_t reference = reference_that_counts(plan, rungs);
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (measured.runs_of[i].empty()) continue;
    if (const auto guarded_by = counted_reference(plan, reference, i)) {
      judge_by_reference(plan, i, *guarded_by, measured, rungs);
    }
    if (plan.commands && !plan.commands->from_logs) judge_by_looks(plan, folder, rungs[i]);
  }
  return reference;
}

// Times and speedups of the rungs that were judged. Returns the last one of ours that was measured.
std::optional<size_t> number_rungs(const Plan& plan, const Measured& measured, size_t reference, const std::string& gpu,
                                   Rungs& rungs) {
  const auto& runs_of = measured.runs_of;
  std::optional<size_t> last;
  for (size_t i = 0; i < rungs.size(); ++i) {
    StudyRung& rung = rungs[i];
    const RunsByRepeat& data = runs_of[i];
    if (data.empty()) continue;
    add_conditions(data, rung);
    if (rung.status != RungStatus::unproven) add_numbers(plan.rungs[i], data, gpu, rung);
    if (!rung.is_measured()) continue;
    // Speedups count from the reference. If it is not valid itself, there are none.
    const size_t first = counted_reference(plan, reference, i).value_or(i);
    const bool alone = first == i && (plan.mode == Mode::sweep || i != reference);
    if (!alone && rungs[first].is_measured()) rung.speedup_first = speedup(runs_of[first], data);
    // In a ladder it is the rung below. A rung further down would show the worth of all rungs in between.
    const auto against = rung.against || plan.mode != Mode::cumulative ? rung.against : rung_below(plan, i);
    if (against && rungs[*against].is_measured()) rung.speedup_against = speedup(runs_of[*against], data);
    if (!rung.peer) last = i;
  }
  return last;
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

// What was seen to differ between a command and the one that it is compared with.
void add_looks(const Plan& plan, const fs::path& folder, Rungs& rungs) {
  for (size_t i = 0; i < rungs.size(); ++i) {
    std::optional<InputWait>& input = rungs[i].command->input;
    if (!input) input = input_wait_in(look_file(folder, plan.rungs[i]));
  }
  for (size_t i = 1; i < rungs.size(); ++i) {
    const size_t before = plan.rungs[i].against.value_or(plan.mode == Mode::cumulative ? i - 1 : 0);
    rungs[i].command->seen = seen_to_differ(look_file(folder, plan.rungs[before]), look_file(folder, plan.rungs[i]));
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

std::string created_of(const Plan& plan, const Measured& measured, const std::optional<Earlier>& earlier) {
  if (!plan.created.empty()) return plan.created;
  if (!measured.first_started.empty()) return measured.first_started;
  return earlier ? earlier->created : harness::utc_now();
}

Environment environment_of(const Plan& plan, const Measured& measured, const std::optional<Earlier>& earlier) {
  if (measured.environment) return *measured.environment;
  if (earlier) return earlier->environment;
  Environment environment = environment_of_program();               // no run has left its own
  if (!plan.commands) environment.threads = plan.workload.threads;  // of the runs, not of this process
  return environment;
}

// An experiment ends before all of its pairs are made.
Plan made_part(Plan plan, const fs::path& folder) {
  int64_t repeats = 1;
  for (const PlannedRun& run : plan.runs) {
    if (fs::exists(record_file(folder, run.id))) repeats = std::max(repeats, run.repeat + 1);
  }
  plan.repeats = repeats;
  std::erase_if(plan.runs, [&](const PlannedRun& run) { return run.repeat >= repeats; });
  return plan;
}

}  // namespace

Workload planned_workload(const Plan& plan) {
  if (plan.commands) return {};
  const PlannedWorkload& planned = plan.workload;
  return {.model = planned.model,
          .B = planned.B,
          .T = planned.T,
          .accumulation = planned.accumulation,
          .positions = std::max<int64_t>(planned.positions, 1),
          .tokens_per_step = planned.B * planned.T * planned.accumulation,
          .seed = planned.seed,
          .random_windows = planned.random_windows,
          .data = {.source = fs::path(planned.data).filename().string()}};
}

Study analyse(const Plan& declared, const fs::path& folder, const std::optional<Earlier>& earlier) {
  const Plan plan = declared.commands && declared.commands->expects ? made_part(declared, folder) : declared;
  const Measured measured = read_records(plan, folder);
  Study study{.id = plan.id,
              .created = created_of(plan, measured, earlier),
              .mode = plan.mode,
              .swept = plan.swept,
              .ladder = plan.ladder,
              .workload = measured.workload ? *measured.workload : planned_workload(plan),
              .plan = {.repeats = plan.repeats,
                       .warmup_steps = plan.warmup_steps,
                       .timed_steps = plan.timed_steps,
                       .least_window_s = plan.least_window_s,
                       .order_seed = plan.order_seed,
                       .runs_planned = plan.runs.size(),
                       .runs_ok = measured.runs_ok,
                       .cold_cache = plan.workload.cold_cache,
                       .repeated = plan.workload.repeated},
              .typed = without_places(plan.typed),
              .metric = plan.commands ? plan.commands->metric : std::nullopt,
              .from_logs = plan.commands && plan.commands->from_logs,
              .statistics = statistics_of(plan),
              .runs = measured.runs,
              .environment = environment_of(plan, measured, earlier)};
  if (plan.quick) study.quick = true;
  if (std::ranges::find(study.runs, RunStatus::missing, &StudyRun::status) == study.runs.end()) {
    study.finished = study.from_logs ? study.created : measured.last_started;  // a log may not say when it began
  }
  study.device = named_device(plan, study.environment);
  study.found = tricks_in(plan, measured.runs_of);

  Rungs& rungs = study.rungs;
  Lines& warnings = study.warnings;
  for (size_t i = 0; i < plan.rungs.size(); ++i) rungs.push_back(rung_by_itself(plan, i, measured));
  const size_t reference = judge_rungs(plan, folder, measured, rungs);
  const auto& gpu = study.environment.gpu;
  const auto last = number_rungs(plan, measured, reference, gpu ? gpu->name : "", rungs);
  if (is_about_batches(plan)) {
    for (StudyRung& rung : rungs) {
      if (rung.ms_per_step && !rung.peer) rung.batches = batches_of(measured.runs_of[rung.index]);
    }
  }
  if (study.from_logs) {
    warn_of_logs(plan, measured, warnings);
  } else if (plan.commands) {
    add_breakeven(rungs);
    add_looks(plan, folder, rungs);
  }
  add_peers(measured, rungs);
  add_explanations(plan, folder, rungs);
  warn_of_rungs(plan, measured, rungs, warnings);
  if (!study.from_logs && repeat_themselves(plan, measured)) warnings.emplace_back(one_number_each);
  warn_of_unwatched(measured, warnings);
  warn_of_cache(plan, measured, warnings);
  warn_of_sittings(measured, warnings);
  if (!study.from_logs && (!study.metric || study.metric->depends_on_time())) {
    warn_of_load(study.environment, warnings);
  }
  study.headline = headline_of(plan, measured, rungs, reference, last);
  study.attribution = worths_of(plan, measured, rungs);
  if (plan.commands && plan.commands->expects) study.judgment = judgment_of(plan, measured, rungs, study.found);
  return study;
}

}  // namespace study
