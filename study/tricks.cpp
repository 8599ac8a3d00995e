#include "study/tricks.h"

#include "files/printable.h"
#include "harness/stats/stats.h"
#include "study/guard.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace study {

namespace {

// One command beside the reference.
struct Pair {
  const Rung& rung;
  const Rung& reference;
  const RunsByRepeat& runs;
  const RunsByRepeat& reference_runs;

  [[nodiscard]] std::string reference_name() const { return files::shortened(reference.title, 60); }
};

constexpr int64_t fewest_runs = 3;  // of two, chance is one in four

std::vector<double> medians_of(const RunsByRepeat& runs) {
  std::vector<double> medians;
  for (const auto& [repeat, run] : runs) medians.push_back(run.median_ms);
  return medians;
}

// What the runs saw themselves. A priority that the reference has, too, was given to both.
void find_seen(const RunsByRepeat& runs, const RunsByRepeat& reference_runs, auto found) {
  const auto has = [](const RunData& run, const std::string& kind) {
    return std::ranges::any_of(run.command->found, [&](const Found& one) { return one.kind == kind; });
  };
  std::set<std::string> told;
  for (const auto& [repeat, run] : runs) {
    for (const Found& one : run.command->found) {
      const bool in_reference = &runs != &reference_runs && std::ranges::any_of(reference_runs, [&](const auto& other) {
        return has(other.second, one.kind);
      });
      if (in_reference || (&runs == &reference_runs && one.kind == "priority") || !told.insert(one.kind).second)
        continue;
      const auto count = std::ranges::count_if(runs, [&](const auto& other) { return has(other.second, one.kind); });
      found(one.kind, fmt::format("{} ({} of {} runs)", one.text, count, runs.size()));
    }
  }
}

// By how much longer a command's step takes after the timed ones, beside the reference's in the same repeat:
// logarithms.
struct Change {
  std::vector<double> wall, cpu, undisturbed;  // the last: wall, of runs beside which nothing else ran
  std::vector<double> timed_ms, later_ms, reference_timed_ms, reference_later_ms;
};

bool is_undisturbed(const RunData& run) {
  return run.disturbed.empty() && run.command->later->processor_lost.value_or(1) < 0.1;
}

Change change_after(const Pair& pair) {
  Change change;
  for (const auto& [repeat, run] : pair.runs) {
    const auto other = pair.reference_runs.find(repeat);
    if (other == pair.reference_runs.end()) continue;
    const CommandRun &own = *run.command, &its = *other->second.command;
    if (!own.later || !its.later || !own.later->ms || !its.later->ms) continue;
    change.timed_ms.push_back(run.median_ms);
    change.later_ms.push_back(*own.later->ms);
    change.reference_timed_ms.push_back(other->second.median_ms);
    change.reference_later_ms.push_back(*its.later->ms);
    const double own_change = *own.later->ms / run.median_ms, its_change = *its.later->ms / other->second.median_ms;
    change.wall.push_back(std::log(own_change / its_change));
    if (is_undisturbed(run) && is_undisturbed(other->second)) change.undisturbed.push_back(change.wall.back());
    if (!own.later->cpu_ms || !its.later->cpu_ms || !own.cpu_ms || !its.cpu_ms) continue;
    constexpr double least_ms = 1e-3;
    change.cpu.push_back(std::log(std::max(*own.later->cpu_ms, least_ms) / std::max(*own.cpu_ms, least_ms)) -
                         std::log(std::max(*its.later->cpu_ms, least_ms) / std::max(*its.cpu_ms, least_ms)));
  }
  return change;
}

// How far one run of a command is from its next by chance: the standard deviation of the logarithms of what its timed
// steps took, over both commands.
double noise_of(const Pair& pair, const auto& of) {
  double squares = 0;
  for (const RunsByRepeat* runs : {&pair.runs, &pair.reference_runs}) {
    std::vector<double> logs;
    for (const auto& [repeat, run] : *runs) logs.push_back(std::log(std::max(of(run), 1e-3)));
    squares += std::pow(harness::moments(logs).deviation, 2) / 2;
  }
  return std::sqrt(squares);
}

// There are enough, all lie above the limit, and their mean is far from what chance makes of ratios of four such runs.
bool are_above(const std::vector<double>& logs, double limit, double noise) {
  constexpr double errors = 4;
  if (std::ssize(logs) < fewest_runs || std::ranges::min(logs) <= std::log(limit)) return false;
  return harness::moments(logs).mean > errors * 2 * noise / std::sqrt(static_cast<double>(logs.size()));
}

// A step that takes longer once the timed ones are over. Other work on the machine makes steps longer, too, but hardly
// the work that they do: so it counts if the processor's time says the same, or if nothing else ran and it is much.
void find_pace_after(const Pair& pair, auto found) {
  constexpr double limit = 1.15, limit_alone = 1.5;
  const Change change = change_after(pair);
  if (change.wall.empty()) return;
  const double cpu_noise = noise_of(pair, [](const RunData& run) { return run.command->cpu_ms.value_or(0); });
  const double noise = noise_of(pair, [](const RunData& run) { return run.median_ms; });
  const bool by_cpu = are_above(change.cpu, limit, cpu_noise) && harness::median(change.wall) > std::log(limit);
  if (!by_cpu && !are_above(change.undisturbed, limit_alone, noise)) return;
  found("pace", fmt::format("a timed step took {} ms, and one after the timed steps {} ms; of “{}” {} and {} ms",
                            digits3(harness::median(change.timed_ms)), digits3(harness::median(change.later_ms)),
                            pair.reference_name(), digits3(harness::median(change.reference_timed_ms)),
                            digits3(harness::median(change.reference_later_ms))));
}

// Steps that end with the timed ones, while the program sleeps and the reference's steps go on. One that evaluates then
// does not sleep.
void find_end(const Pair& pair, auto found) {
  int64_t ended = 0, runs = 0;
  for (const auto& [repeat, run] : pair.runs) {
    const auto other = pair.reference_runs.find(repeat);
    if (!run.command->later || !run.command->ended_by_us || other == pair.reference_runs.end()) continue;
    if (!other->second.command->later || !other->second.command->later->ms) continue;
    ++runs;
    const LaterSteps& later = *run.command->later;
    ended += !later.ms && later.cpu_ms.value_or(INFINITY) < 0.1 * run.window_ms ? 1 : 0;
  }
  if (runs < fewest_runs || ended < runs) return;
  found("end", fmt::format("after its timed steps it only slept, in {} runs that went on", runs));
}

// A first run, the trial, whose step took more of the processor than those of all later ones, while the reference's did
// not: with cold caches a program waits, and does not compute more.
void find_pace_of_trial(const Pair& pair, int64_t timed_steps, auto found) {
  constexpr double limit = 1.5;
  constexpr double begins_ms = 40;  // an interpreter's first steps, and a processor's, cost some milliseconds more
  double more_ms = 0;               // of the processor, over the trial's timed steps
  const auto ratio = [&](const Rung& rung, const RunsByRepeat& runs) -> std::optional<double> {
    double most = 0;
    for (const auto& [repeat, run] : runs) {
      if (!run.command->cpu_ms) return std::nullopt;
      most = std::max(most, *run.command->cpu_ms);
    }
    const std::optional<double>& of_trial = rung.command->trial.cpu_ms;
    if (&rung == &pair.rung) more_ms = (of_trial.value_or(0) - most) * static_cast<double>(timed_steps);
    return most > 0 && of_trial ? std::optional(*of_trial / most) : std::nullopt;
  };
  const auto cpu = ratio(pair.rung, pair.runs), its_cpu = ratio(pair.reference, pair.reference_runs);
  const double step_ms = 1e3 * pair.rung.command->trial.step_s, later_ms = harness::median(medians_of(pair.runs));
  if (std::ssize(pair.runs) < fewest_runs || !cpu || !its_cpu || *cpu < limit || *cpu < limit * *its_cpu) return;
  if (step_ms < limit * later_ms || more_ms < begins_ms) return;
  const std::vector<std::string>& wrote = pair.rung.command->trial.wrote;
  found("kept", fmt::format("a step of its first run, the trial, took {} ms, and of its later runs {} ms: it lives on "
                            "what an earlier run has left{}",
                            digits3(step_ms), digits3(later_ms),
                            wrote.empty() ? "" : " (the trial wrote " + files::printable(wrote.front()) + ")"));
}

// A reference that sleeps where the command does not, for more than half of what it takes longer: what looks like the
// command's speed is a sleep. Who waits for the work of others is not asleep (harness/machine/asleep.h).
void find_sleep(const Pair& pair, auto found) {
  constexpr double least = 0.05, errors = 4;
  struct Share {
    double looks = 0, asleep = 0, sleeping_ms = 0;
    [[nodiscard]] double share() const { return asleep / looks; }
    // Of chance, were it the share itself; one look more of each kind, so that none is sure.
    [[nodiscard]] double variance() const {
      const double share = (asleep + 1) / (looks + 2);
      return share * (1 - share) / looks;
    }
  };
  const auto share_of = [](const RunsByRepeat& runs) {
    Share all;
    for (const auto& [repeat, run] : runs) {
      if (!run.command->sleep) return Share();
      all.looks += static_cast<double>(run.command->sleep->looks);
      all.asleep += static_cast<double>(run.command->sleep->asleep);
    }
    all.sleeping_ms = all.share() * harness::median(medians_of(runs));
    return all;
  };
  const Share own = share_of(pair.runs), its = share_of(pair.reference_runs);
  if (own.looks == 0 || its.looks == 0 || std::ssize(pair.reference_runs) < fewest_runs) return;
  const double more = its.share() - own.share();
  if (more < least || more < errors * std::sqrt(own.variance() + its.variance())) return;
  const double own_ms = harness::median(medians_of(pair.runs)),
               its_ms = harness::median(medians_of(pair.reference_runs));
  if (own_ms >= its_ms || its.sleeping_ms - own.sleeping_ms < 0.5 * (its_ms - own_ms)) return;
  found("sleep", fmt::format("“{}” stood still for {} of its timed steps, because it asked to sleep ({:.0f} of {:.0f} "
                             "looks); this one for {}, and the difference is most of what it is faster by",
                             pair.reference_name(), percent(its.share()), its.asleep, its.looks, percent(own.share())));
}

bool all_have_losses(const RunsByRepeat& runs) {
  return std::ranges::all_of(runs, [](const auto& run) { return !run.second.losses.empty(); });
}

// The guard has nothing to judge any more.
void find_no_loss(const Pair& pair, auto found) {
  const bool has_none = std::ranges::all_of(pair.runs, [](const auto& run) { return run.second.losses.empty(); });
  if (!has_none || !all_have_losses(pair.reference_runs)) return;
  found("no-loss", fmt::format("it prints no loss, and “{}” does: nobody can tell whether it learns the same",
                               pair.reference_name()));
}

bool has_seed(const Rung& rung) {
  return rung.command->text.find("{seed}") != std::string::npos ||
         rung.command->text.find("{repeat}") != std::string::npos;
}

// Seeds that change nothing: losses, or the number that is compared, which were made up before.
void find_ignored_seed(const Plan& plan, const Pair& pair, auto found) {
  const auto& metric = plan.commands->metric;
  const bool of_number = metric && !metric->pattern.empty();
  const auto values_of = [&](const RunsByRepeat& runs) {
    std::set<std::vector<double>> values;
    for (const auto& [repeat, run] : runs) {
      values.insert(of_number ? std::vector{run.command->numbers.at(metric->name)} : run.losses);
    }
    return values;
  };
  const bool asks = has_seed(pair.rung) && has_seed(pair.reference) && std::ssize(pair.runs) >= fewest_runs;
  if (!asks || (!of_number && (!all_have_losses(pair.runs) || !all_have_losses(pair.reference_runs)))) return;
  // One value of a few digits may come again and again by chance, but not beside one of each seed.
  std::set<int64_t> seeds;
  for (const auto& [repeat, run] : pair.reference_runs) seeds.insert(run.command->seed.value_or(repeat));
  if (std::ssize(seeds) < fewest_runs || values_of(pair.runs).size() != 1) return;
  if (values_of(pair.reference_runs).size() != seeds.size()) return;
  found("seed", fmt::format("its {} are the same whatever the seed, in {} runs; those of “{}” differ",
                            of_number ? metric->name + " values" : "losses", pair.runs.size(), pair.reference_name()));
}

// One batch cannot have two sizes.
void find_tokens(const Pair& pair, auto found) {
  constexpr size_t lines = 8;
  if (std::ssize(pair.runs) < fewest_runs) return;
  for (const auto& [repeat, run] : pair.runs) {
    const auto other = pair.reference_runs.find(repeat);
    if (other == pair.reference_runs.end()) return;
    const RunData& its = other->second;
    const bool is_same = run.losses.size() >= lines && run.losses == its.losses &&
                         std::set(run.losses.begin(), run.losses.end()).size() > 1;
    if (!is_same || run.tokens_per_step == 0 || its.tokens_per_step == 0 || run.tokens_per_step == its.tokens_per_step)
      return;
  }
  const int64_t own = pair.runs.begin()->second.tokens_per_step,
                its = pair.reference_runs.begin()->second.tokens_per_step;
  found("tokens",
        fmt::format("it says {} tokens a step, and “{}” says {}, and all their losses are the same to the last digit",
                    own, pair.reference_name(), its));
}

// The guard looks at the first lines, because rounding grows. It does not grow to a twentieth of the loss: the last
// third of the steps that both print.
void find_loss_after(const Pair& pair, auto found) {
  constexpr double limit = 0.05;
  std::vector<double> off;
  for (const auto& [repeat, run] : pair.runs) {
    const RunData& its = partner_of(repeat, pair.reference_runs);
    std::vector<double> common;
    for (size_t i = 0; i < run.losses.size(); ++i) {
      const auto same = std::ranges::lower_bound(its.loss_steps, run.loss_steps[i]);
      if (same == its.loss_steps.end() || *same != run.loss_steps[i]) continue;
      const double loss = its.losses[static_cast<size_t>(same - its.loss_steps.begin())];
      common.push_back((run.losses[i] - loss) / std::abs(loss));
    }
    if (common.size() < 3) return;
    common.erase(common.begin(), common.end() - std::ssize(common) / 3);
    off.push_back(harness::median(common));
  }
  const auto is_off = [&](double one) { return std::abs(one) > limit && (one > 0) == (off.front() > 0); };
  const auto guarded = guard_command(pair.runs, pair.reference_runs).verdict;  // one that failed says enough
  if (!guarded || !guarded->passed || std::ssize(off) < fewest_runs || !std::ranges::all_of(off, is_off)) return;
  found("loss-after",
        fmt::format("its last losses are {:.3g} % {} than those of “{}” at the same steps",
                    100 * std::abs(harness::median(off)), off.front() > 0 ? "higher" : "lower", pair.reference_name()));
}

}  // namespace

std::vector<Found> tricks_in(const Plan& plan, const std::vector<RunsByRepeat>& runs_of) {
  std::vector<Found> all;
  if (!plan.commands || plan.commands->from_logs || runs_of.empty() || runs_of[plan.reference].empty()) return all;
  const RunsByRepeat& reference_runs = runs_of[plan.reference];
  for (size_t i = 0; i < plan.rungs.size(); ++i) {
    if (runs_of[i].empty()) continue;
    const Rung& rung = plan.rungs[i];
    const std::string title = plan.gate ? (i == plan.reference ? "base" : "head") : files::shortened(rung.title, 60);
    const auto found = [&](const std::string& kind, const std::string& text) {
      all.push_back({kind, fmt::format("“{}”: {}", title, text)});
    };
    find_seen(runs_of[i], reference_runs, found);
    const bool is_same = !plan.gate && rung.command->text == plan.rungs[plan.reference].command->text;
    if (i == plan.reference || is_same) continue;
    const Pair pair{rung, plan.rungs[plan.reference], runs_of[i], reference_runs};
    if (plan.commands->guards_losses || plan.commands->metric) find_ignored_seed(plan, pair, found);
    if (plan.commands->metric) continue;
    const bool is_of_commits = plan.gate || plan.commands->expects;  // then the base is what there was
    if (!is_of_commits) find_sleep(pair, found);
    find_pace_after(pair, found);
    find_end(pair, found);
    find_pace_of_trial(pair, plan.timed_steps, found);
    find_tokens(pair, found);
    if (!plan.commands->guards_losses) continue;
    find_no_loss(pair, found);
    find_loss_after(pair, found);
  }
  return all;
}

}  // namespace study
