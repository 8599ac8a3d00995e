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
#include "study/warnings.h"
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

// By looks at the first steps of a rung and of its reference. Free losses mean that it may be another training.
void judge_by_looks(const Plan& plan, const fs::path& folder, StudyRung& rung) {
  rung.training = same_training_in(folder, plan, rung.index);
  const auto& training = rung.training;
  const bool is_free = plan.commands && !plan.commands->guards_losses;
  if (!training || training->verdict != Sameness::another || is_free) return;
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
    if (!plan.commands || !plan.commands->from_logs) judge_by_looks(plan, folder, rungs[i]);
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
  for (size_t i = 0; i < plan.rungs.size(); ++i) rungs.push_back(rung_by_itself(plan, i, measured));
  const size_t reference = judge_rungs(plan, folder, measured, rungs);
  const auto& gpu = study.environment.gpu;
  const auto last = number_rungs(plan, measured, reference, gpu ? gpu->name : "", rungs);
  if (is_about_batches(plan)) {
    for (StudyRung& rung : rungs) {
      if (rung.ms_per_step && !rung.peer) rung.batches = batches_of(measured.runs_of[rung.index]);
    }
  }
  if (plan.commands && !study.from_logs) {
    add_breakeven(rungs);
    add_looks(plan, folder, rungs);
  }
  add_peers(measured, rungs);
  add_explanations(plan, folder, rungs);
  study.warnings = warnings_of(plan, measured, rungs, study.environment);
  study.headline = headline_of(plan, measured, rungs, reference, last);
  study.attribution = worths_of(plan, measured, rungs);
  if (plan.commands && plan.commands->expects) study.judgment = judgment_of(plan, measured, rungs, study.found);
  return study;
}

}  // namespace study
