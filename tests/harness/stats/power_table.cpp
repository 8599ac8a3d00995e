// Prints docs/power.md: what a gate finds and how often it is wrong, on machines whose timing is programmed.
#include "ablations/techniques/techniques.h"
#include "harness/stats/verdict.h"
#include "tests/harness/simulated_machine.h"
#include "tests/harness/stats/night_tables.h"
#include "tests/study/simulated_history.h"
#include "tests/study/simulated_losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace harness;
using simulated::Machine;
using simulated::Troubles;

constexpr int studies = 2000;
constexpr double min_effect = 0.02;

// What a gate finds with `pairs` pairs, and as many again where those leave it open.
PairedVerdict found(const simulated::Pairs& whole, int64_t pairs, bool top_up) {
  const auto first = static_cast<size_t>(pairs);
  const PairedVerdict comparison =
      compare(std::span(whole.base).first(first), std::span(whole.head).first(first), min_effect);
  if (!top_up || comparison.verdict != Verdict::inconclusive) return comparison;
  return compare(whole.base, whole.head, min_effect);
}

Verdict gate(Machine& machine, double slowdown, int64_t pairs, bool top_up) {
  return found(simulated::study(machine, slowdown, top_up ? 2 * pairs : pairs), pairs, top_up).verdict;
}

double share(const Troubles& troubles, double slowdown, int64_t pairs, bool top_up, Verdict wanted) {
  int count = 0;
  for (int i = 0; i < studies; ++i) {
    Machine machine(troubles, static_cast<uint64_t>(i) + 1);
    count += gate(machine, slowdown, pairs, top_up) == wanted ? 1 : 0;
  }
  return static_cast<double>(count) / studies;
}

// Of gates of 8 + 8 pairs: how often the interval that is printed in the end holds the true slowdown.
double covered_after_top_up(double slowdown) {
  int count = 0;
  for (int i = 0; i < studies; ++i) {
    Machine machine({}, static_cast<uint64_t>(i) + 1);
    const Interval interval = *found(simulated::study(machine, slowdown, 16), 8, true).ratio.interval;
    count += interval.lo <= 1 + slowdown && 1 + slowdown <= interval.hi ? 1 : 0;
  }
  return static_cast<double>(count) / studies;
}

// Of gates against what 16 runs each gave in so many other sessions: the machine's pace differs between sessions by
// `spread` (standard deviation of its logarithm).
double share_against_baseline(size_t sessions, double spread, double slowdown, Verdict wanted) {
  int count = 0;
  for (int i = 0; i < studies; ++i) {
    Machine machine({}, static_cast<uint64_t>(i) + 1);
    std::mt19937_64 random(static_cast<uint64_t>(i) + 1);
    std::normal_distribution<double> pace(0, spread);
    const auto session = [&](double true_ms) {
      const double today = true_ms * std::exp(pace(random));
      std::vector<double> runs(16);
      std::ranges::generate(runs, [&] { return machine.run(today, 0); });
      return runs;
    };
    std::vector<double> medians;
    simulated::Pairs pairs{.base = session(100), .head = session(100 * (1 + slowdown))};
    medians.push_back(median(pairs.base));
    while (medians.size() < sessions) medians.push_back(median(session(100)));
    Verdict verdict = Verdict::inconclusive;
    if (sessions < sessions_to_judge_by) {
      verdict = found(pairs, 8, true).verdict;
    } else {
      for (const size_t runs : {size_t{8}, size_t{16}}) {
        const double head = median(std::span(pairs.head).first(runs));
        if (verdict == Verdict::inconclusive) verdict = judge(ratio_to_earlier(head, medians), min_effect);
      }
    }
    count += verdict == wanted ? 1 : 0;
  }
  return static_cast<double>(count) / studies;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

struct Interval95 {
  double covered = 0, found = 0;
};

// How often an interval holds a true 5 %, and how often it lies above the least effect.
template <class Estimator>
Interval95 quality(const Troubles& troubles, int64_t pairs, Estimator estimate) {
  Interval95 result;
  for (int i = 0; i < studies; ++i) {
    Machine machine(troubles, static_cast<uint64_t>(i) + 1);
    const auto [base, head] = simulated::study(machine, 0.05, pairs);
    const Interval interval = *estimate(base, head).interval;
    result.covered += interval.lo <= 1.05 && 1.05 <= interval.hi ? 1.0 / studies : 0;
    result.found += interval.lo > 1 + min_effect ? 1.0 / studies : 0;
  }
  return result;
}

// What is used elsewhere: the median of the pairs' ratios, Student's interval with a bootstrapped standard error.
Estimate bootstrapped(const std::vector<double>& base, const std::vector<double>& head) {
  std::vector<double> ratios;
  for (size_t i = 0; i < base.size(); ++i) ratios.push_back(head[i] / base[i]);
  return median_with_interval(ratios);
}

Estimate signed_rank(const std::vector<double>& base, const std::vector<double>& head) {
  return paired_ratio(head, base);
}

}  // namespace

int main() {
  fmt::print(
      "# What a gate finds, and how often it is wrong\n\n"
      "Printed by `tests/harness/stats/power_table.cpp` (`build/release/tests/power_table > docs/power.md`); a test "
      "fails "
      "when this\n"
      "page is not what it prints. Each figure is a share of {} simulated studies, unless it says otherwise. The least "
      "effect that\n"
      "matters is 2 %. The simulated machines stand in `tests/harness/simulated_machine.h`: runs of 21 steps whose "
      "medians differ by\n"
      "1 % from run to run, unless the name says otherwise. Real machines: `ladder gate --calibrate`.\n\n"
      "**What to choose.** Run both programs interleaved (`--base`). The default, 8 + 8 pairs, finds a slowdown of "
      "twice the least\n"
      "effect nearly always; for a smaller one name it (`--catch 3`). Where base cannot run, store a baseline of five "
      "sessions or more.\n\n"
      "## Slowdowns that are found\n\n"
      "REGRESSION at 1 % noise, by the true slowdown and the number of pairs. \"8 + 8\" is the gate's default: eight "
      "pairs, and\n"
      "eight more where those leave it open.\n\n",
      studies);
  struct Design {
    int64_t pairs;
    bool top_up;
  };
  const std::vector<Design> designs{{6, false}, {8, false}, {8, true}, {12, false}, {16, false}, {24, false}};
  fmt::print("| true slowdown |");
  for (const auto& [pairs, top_up] : designs) fmt::print(" {}{} |", pairs, top_up ? fmt::format(" + {}", pairs) : "");
  fmt::print("\n|--:|");
  for (size_t i = 0; i < designs.size(); ++i) fmt::print("--:|");
  fmt::print("\n");
  for (const double slowdown : {0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1}) {
    fmt::print("| {:g} % |", 100 * slowdown);
    for (const auto& [pairs, top_up] : designs) {
      fmt::print(" {} |", percent(share({}, slowdown, pairs, top_up, Verdict::regression)));
    }
    fmt::print("\n");
  }
  fmt::print(
      "\n## Verdicts by the machine's troubles\n\n"
      "The gate's default, 8 + 8 pairs. Wrong is REGRESSION or IMPROVEMENT of equal programs, and REGRESSION of one "
      "that is\n"
      "slower by no more than the least effect. The jump falls between the two runs of one pair, which puts it on "
      "head's\n"
      "account; one pair of sixteen cannot decide, but where the truth lies at the very bound it tips some "
      "verdicts.\n\n"
      "| machine | equal: same | equal: wrong | 2 % slower: wrong | 5 % slower: found | 10 % slower: found |\n"
      "|---|--:|--:|--:|--:|--:|\n");
  for (const Troubles& troubles : simulated::all_troubles()) {
    const double wrong =
        share(troubles, 0, 8, true, Verdict::regression) + share(troubles, 0, 8, true, Verdict::improvement);
    fmt::print("| {} | {} | {} | {} | {} | {} |\n", troubles.name, percent(share(troubles, 0, 8, true, Verdict::same)),
               percent(wrong), percent(share(troubles, min_effect, 8, true, Verdict::regression)),
               percent(share(troubles, 0.05, 8, true, Verdict::regression)),
               percent(share(troubles, 0.1, 8, true, Verdict::regression)));
  }
  fmt::print(
      "\n## Two looks, several recipes\n\n"
      "Eight more pairs are a second look. The interval that is printed in the end holds the truth in {:.1f} % of "
      "gates "
      "of equal\n"
      "programs, and in {:.1f} % of those whose head is slower by just the least effect, where most take the second "
      "look. A gate of\n"
      "several recipes (`--rung`) says REGRESSION where one of them is one:\n\n"
      "| recipes | equal: wrong | each 2 % slower: wrong |\n|--:|--:|--:|\n",
      100 * covered_after_top_up(0), 100 * covered_after_top_up(min_effect));
  const double equal = share({}, 0, 8, true, Verdict::regression);
  const double bound = share({}, min_effect, 8, true, Verdict::regression);
  for (const int recipes : {1, 3, 7}) {
    fmt::print("| {} | {} | {} |\n", recipes, percent(1 - std::pow(1 - equal, recipes)),
               percent(1 - std::pow(1 - bound, recipes)));
  }
  fmt::print(
      "\n## Against a stored baseline\n\n"
      "Its runs were made in another session, and no pairing cancels that the machine runs at another pace today. By "
      "how much pace\n"
      "differs from session to session (standard deviation), at 1 % noise between runs, and by how many sessions of "
      "its "
      "program the\n"
      "baseline knows. With {} or more their spread is allowed for; with fewer, every difference counts against the "
      "program.\n\n"
      "| sessions differ by | it knows | equal: REGRESSION | equal: IMPROVEMENT | 5 % slower: found | 10 % slower: "
      "found |\n|--:|--:|--:|--:|--:|--:|\n",
      sessions_to_judge_by);
  for (const double spread : {0.0, 0.005, 0.01, 0.02}) {
    for (const size_t sessions : {1, 3, 5, 10}) {
      const auto of = [&](double slowdown, Verdict wanted) {
        return percent(share_against_baseline(sessions, spread, slowdown, wanted));
      };
      fmt::print("| {:g} % | {} | {} | {} | {} | {} |\n", 100 * spread, sessions, of(0, Verdict::regression),
                 of(0, Verdict::improvement), of(0.05, Verdict::regression), of(0.1, Verdict::regression));
    }
  }
  constexpr int ladders = 300;
  fmt::print(
      "\n## Slowdowns over time\n\n"
      "`ladder history`, on {} simulated ladders of {} rungs each. In these nothing changes, and they are looked at "
      "each night from\n"
      "the sixth to the fortieth:\n\n"
      "| noise of a study's median | called slower once or more |\n|--:|--:|\n",
      ladders, simulated::rungs_of_a_ladder);
  for (const double noise : {0.003, 0.01, 0.02}) {
    fmt::print("| {:g} % | {} |\n", 100 * noise, percent(simulated::false_alarms(ladders, noise)));
  }
  fmt::print(
      "\nAnd how often a slowdown of 5 % is found with 1 % noise, so many nights after it:\n\n"
      "| studies | rungs that are slower | 3 nights | 4 nights | 6 nights |\n|--:|--:|--:|--:|--:|\n");
  for (const size_t nights : {size_t{12}, size_t{20}, size_t{30}}) {
    for (const size_t slowed : {size_t{1}, simulated::rungs_of_a_ladder}) {
      fmt::print("| {} | {} of {} |", nights, slowed, simulated::rungs_of_a_ladder);
      for (const size_t since : {size_t{3}, size_t{4}, size_t{6}}) {
        fmt::print(" {} |", percent(simulated::found(ladders, slowed, since, nights)));
      }
      fmt::print("\n");
    }
  }
  const double tolerance = ablations::expected_losses({.autocast = model::Autocast::bf16}).tolerance;
  fmt::print(
      "\n## Losses\n\n"
      "A rung, or a gate's head, is void where its losses leave the reference's. The guard judges the median "
      "deviation\n"
      "over the first {} steps. In 16 bits it may be {:g} nats. No single step may be {:g} nats off. Right programs\n"
      "differ, too. The table simulates how; `tests/study/simulated_losses.h` says what was measured. It shows "
      "how\n"
      "often right rungs are void, by the number of their runs (losses differ between runs on a GPU, not on a CPU), "
      "and\n"
      "how often a wrong program is found, by how much it is off from the second step on. The last column is for\n"
      "comparison: a limit of 0.05 nats for every single step.\n\n"
      "| steps | right, 1 run: void | 6 runs | 16 runs | 0.005 nats off: found | 0.01 | 0.015 | 0.03 | single steps: "
      "right, 1 run: void |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
      study::judged_steps, tolerance, study::largest_deviation);
  for (const int64_t steps : {5, 13, 30, 100}) {
    const auto of = [&](int64_t runs, double shift) {
      return simulated::voided(studies / 4, runs, steps, shift, tolerance, 0.05);
    };
    const simulated::Voided one = of(1, 0);
    fmt::print("| {} | {:.1f} % | {:.1f} % | {:.1f} % | {} | {} | {} | {} | {} |\n", steps, 100 * one.by_guard,
               100 * of(6, 0).by_guard, 100 * of(16, 0).by_guard, percent(of(1, 0.005).by_guard),
               percent(of(1, 0.01).by_guard), percent(of(1, 0.015).by_guard), percent(of(1, 0.03).by_guard),
               percent(one.by_worst_step));
  }
  const auto noise = [&](double nats) { return percent(simulated::voided_by_noise(studies, nats, tolerance)); };
  fmt::print(
      "\nNoise of mean zero, which noisy gradients may give, goes both ways as rounding does. Where it has 0.01 nats "
      "at "
      "each step,\nit is found in {} of studies of 16 steps, with 0.05 nats in {}, with 0.1 in {}.\n",
      noise(0.01), noise(0.05), noise(0.1));
  const auto commands = [](const simulated::Commands& of) { return simulated::judged(studies / 2, of); };
  fmt::print(
      "\n## Losses of commands\n\n"
      "`ladder measure` knows no program's rounding, so its guard takes the limit from the first command's own runs\n"
      "(`study/guard.h`). By how much a command's runs differ (standard deviation, share of the loss): noise "
      "of "
      "its\n"
      "own at each line, as other batches give, or runs that drift apart to so much at the 16th line. How often a "
      "command\n"
      "that learns the same is void, and how often a wrong one is found, by how much its loss is off. Shares of {} "
      "studies.\n\n"
      "| runs differ by | repeats | same: not compared | same: void | 0.02 % off: found | 0.1 % | 0.3 % | 1 % | 3 % |\n"
      "|:--|--:|--:|--:|--:|--:|--:|--:|--:|\n",
      studies / 2);
  const auto print_commands = [&](const std::string& name, simulated::Commands of) {
    const simulated::CommandsJudged same = commands(of);
    fmt::print("| {} | {} | {} | {:.1f} % |", name, of.repeats, percent(same.not_compared), 100 * same.failed);
    for (const double shift : {0.0002, 0.001, 0.003, 0.01, 0.03}) {
      of.shift = shift;
      fmt::print(" {} |", percent(commands(of).failed));
    }
    fmt::print("\n");
  };
  print_commands("nothing", {.repeats = 6});
  print_commands("nothing; the second rounds otherwise, 0.06 %", {.rounding = 0.0006, .repeats = 6});
  for (const double spread : {0.0001, 0.001, 0.005, 0.02}) {
    for (const bool drifts : {false, true}) {
      for (const int64_t repeats : {2, 6, 12}) {
        print_commands(fmt::format("{:g} %, {}", 100 * spread, drifts ? "drift" : "noise"),
                       {.spread = spread, .drifts = drifts, .repeats = repeats});
      }
    }
  }
  fmt::print(
      "\nOne repeat does not show how much runs differ. Then a thousandth of the loss is allowed, and of commands that "
      "learn\n"
      "the same {} are void where runs differ by 0.1 %, and {} where they differ by 0.5 %: seed them, or make six.\n",
      percent(commands({.spread = 0.001, .repeats = 1}).failed),
      percent(commands({.spread = 0.005, .repeats = 1}).failed));
  fmt::print(
      "\n## Why signed ranks\n\n"
      "How often a 95 % interval holds the true ratio (it should in 95 %), and how often it finds a slowdown of 5 %, "
      "with eight\n"
      "pairs: the interval in use, which inverts the signed-rank test, and the bootstrapped one of the median that is "
      "usual.\n"
      "Drift makes pairs differ by more than their noise, so that both hold more than they must.\n\n"
      "| machine | signed ranks: holds | finds | bootstrapped: holds | finds |\n|---|--:|--:|--:|--:|\n");
  for (const Troubles& troubles : simulated::all_troubles()) {
    const Interval95 ranks = quality(troubles, 8, signed_rank), median = quality(troubles, 8, bootstrapped);
    fmt::print("| {} | {:.1f} % | {} | {:.1f} % | {} |\n", troubles.name, 100 * ranks.covered, percent(ranks.found),
               100 * median.covered, percent(median.found));
  }
  fmt::print("\n{}", night_tables());
}
