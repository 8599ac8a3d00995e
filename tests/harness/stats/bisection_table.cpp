// Prints docs/bisect.md: how `ladder bisect` is used, and how often it is right, on machines whose timing is
// programmed.
#include "tests/harness/stats/simulated_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

namespace {

using namespace simulated;
using harness::Bisected;

constexpr const char* usage = R"(# Which commit made it slower?

    ladder bisect v1.0 HEAD --prepare 'pip install -q -e .' -- python train.py
    ladder bisect --versions torch==2.10.0,torch==2.11.0,torch==2.12.0 -- python train.py
    git bisect run ladder gate --bisect --base v1.0 -- python train.py

`ladder bisect` measures GOOD and BAD in pairs until they differ, or differ by less than `--min-effect` (2 %). Then it runs pairs of
commits where they tell most. All runs count together: each commit has a probability, and the search ends with the first that reaches
0.95. The list is GOOD..BAD along first parents. Each commit is checked out and prepared in a worktree of its own, as by
[a gate](regressions.md). One that cannot be prepared or does not run is skipped and named; if the change lies among skipped ones, they
are named together. With `--versions` each version is installed into an environment of its own in place of a commit. Losses are not
compared.

| exit status | |
|:--|:--|
| 0 | one commit, or two, with how much longer it takes and a 95 % interval |
| 3 | no answer: no difference above `--min-effect`; little steps at every commit; `--pairs` or `--budget-s` are spent; an end does not run |
| 2 | wrong usage |

The folder has a record of each run and `bisect.json`, which `--json` prints as one line. A bisection cannot be resumed. Commits are
built one at a time, when they are needed. Worktrees of commits that are no suspects any more are removed.

`git bisect run` takes any status from 1 to 127 for a bad commit, but 125, which skips it; from 128 on it stops. `ladder gate --bisect`
ends with 125 in place of 3, and where head does not run, and with 129 in place of 2.

## How often it is right

Printed by `tests/harness/stats/bisection_table.cpp` (`build/release/tests/bisection_table > docs/bisect.md`); a test fails when this
page is not what it prints. 64 commits with the change at a random one, and the machines of `tests/harness/simulated_machine.h`: runs of
21 steps whose medians differ by 1 % from run to run. With the noise of the steps that is 1.1 %. Drift and jump are those of
60 runs. At most 200 runs (`--pairs 100`).
)";

std::vector<size_t> places_of(const CommitList& list) {
  std::vector<size_t> places;
  for (const auto& [place, size] : list.changes) places.push_back(place);
  return places;
}

// git bisect beside it: the share of searches that end at the commit.
void tell_goal(int searches) {
  int ours = 0, gits = 0, held = 0, found = 0;
  double runs = 0;
  for (int i = 0; i < searches; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) + 1);
    const CommitList list{.changes = {{1 + random() % 64, 0.03}}};
    const Searched searched = bisect(list, {}, static_cast<uint64_t>(i) + 1);
    const bool is_right = searched.found() == places_of(list);
    const harness::Interval interval = searched.last.suspects.alone.interval;
    ours += is_right ? 1 : 0;
    found += searched.last.verdict == Bisected::one ? 1 : 0;
    held +=
        searched.last.verdict == Bisected::one && interval.lo <= std::log1p(0.03) && std::log1p(0.03) <= interval.hi;
    runs += static_cast<double>(searched.runs) / searches;
    gits += git_bisect(list, {}, static_cast<uint64_t>(i) + 1) == list.changes[0].first ? 1 : 0;
  }
  fmt::print(
      "\nA slowdown of 3 %, {} searches. `git bisect` makes six steps of eight pairs, and calls a commit bad if the "
      "median ratio is above\nhalf of the slowdown, which it is told.\n\n"
      "| | right | runs |\n|:--|--:|--:|\n| `ladder bisect` | {:.1f} % | {:.0f} |\n| `git bisect` | {:.1f} % | 96 |\n\n"
      "The interval of the size holds 3 % in {:.0f} % of them.\n",
      searches, 100.0 * ours / searches, runs, 100.0 * gits / searches, 100.0 * held / found);
}

void tell_row(const std::string& name, const Troubles& troubles,
              const std::function<CommitList(std::mt19937_64&)>& make) {
  constexpr int searches = 200;
  std::map<Bisected, int> verdicts;
  int right = 0;
  double runs = 0, places = 0;
  for (int i = 0; i < searches; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) + 1);
    const CommitList list = make(random);
    const Searched searched = bisect(list, troubles, static_cast<uint64_t>(i) + 1);
    ++verdicts[*searched.last.verdict];
    if (!list.changes.empty()) {
      right += searched.found() == places_of(list) ? 1 : 0;
    } else {
      right += searched.last.verdict == (list.steps == 0 ? Bisected::same : Bisected::steps) ? 1 : 0;
    }
    runs += static_cast<double>(searched.runs) / searches;
    places += static_cast<double>(searched.places) / searches;
  }
  fmt::print("| {} | {:.0f} % | {:.0f} | {:.0f} |", name, 100.0 * right / searches, runs, places);
  for (const Bisected verdict : {Bisected::one, Bisected::two, Bisected::steps, Bisected::same, Bisected::open}) {
    fmt::print(" {} |", 100 * verdicts[verdict] / searches);
  }
  fmt::print("\n");
}

CommitList one_change(std::mt19937_64& random) { return {.changes = {{1 + random() % 64, 0.03}}}; }

std::function<CommitList(std::mt19937_64&)> two_changes(double first, double second) {
  return [=](std::mt19937_64& random) {
    const size_t a = 1 + random() % 64, b = 1 + (a + random() % 63) % 64;
    return CommitList{.changes = {{std::min(a, b), first}, {std::max(a, b), second}}};
  };
}

}  // namespace

int main() {
  fmt::print("{}", usage);
  tell_goal(1000);
  fmt::print(
      "\nOther machines and other histories, 200 searches each: the share that is right, runs and built commits on "
      "average, and all verdicts in\nper cent, rounded down. \"Right\" names the very commits. 3 % and then -1.5 % are "
      "together less than `--min-effect`, so there\n\"no difference\" is no error.\n\n"
      "| 3 % at one commit | right | runs | built | one | two | steps | no difference | not found |\n"
      "|:--|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const Troubles& troubles : all_troubles()) tell_row(troubles.name, troubles, one_change);
  tell_row("2 % noise", {.name = "", .run_noise = 0.02}, one_change);
  fmt::print("| **other histories, 1 % noise** | | | | | | | | |\n");
  tell_row("10 % at one commit", {}, [](auto& random) { return CommitList{.changes = {{1 + random() % 64, 0.1}}}; });
  tell_row("2 % and 1.5 %", {}, two_changes(0.02, 0.015));
  tell_row("3 %, then -1.5 %", {}, two_changes(0.03, -0.015));
  tell_row("5 % in 64 equal steps", {}, [](auto&) { return CommitList{.steps = 0.05}; });
  tell_row("no change", {}, [](auto&) { return CommitList{}; });
}
