#include "study/keep_or_discard.h"

#include "harness/stats/sequential.h"
#include "harness/stats/verdict.h"
#include "text/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace study {

using harness::Decision;

namespace {

constexpr double most_evidence = 1e300;

std::string percent_of(double ratio) { return fmt::format("{:+.2f} %", 100 * (ratio - 1)); }

// Why the evidence ends the experiment, or has not ended it.
std::string reason_of(const Plan& plan, const Judgment& judgment) {
  const Expectation& expected = *plan.commands->expects;
  const std::string least = fmt::format("{:g} %", 100 * expected.least_gain);
  const std::string wanted = expected.least_gain > 0 ? "more than " + least : "a gain";
  const std::string found = fmt::format("{} after {}", percent_of(judgment.ratio), number_of(judgment.pairs, "pair"));
  switch (judgment.verdict) {
    case Decision::keep:
      return fmt::format("{}: the evidence for {} is {:.3g}, and {:.3g} is enough", found, wanted, judgment.evidence,
                         judgment.needed);
    case Decision::discard:
      if (expected.least_gain > 0) return fmt::format("{}: a gain of {} is excluded", found, least);
      return fmt::format("{}: a gain of {:.2g} %, which {} can show, is excluded", found, 100 * judgment.least_shown,
                         number_of(expected.most_pairs, "pair"));
    case Decision::undecided:
      break;
  }
  return fmt::format("{}: the evidence for {} is {:.3g}, and {:.3g} is needed", found, wanted, judgment.evidence,
                     judgment.needed);
}

std::string next_of(const Plan& plan, Decision verdict) {
  switch (verdict) {
    case Decision::keep:
      return "go on from head";
    case Decision::discard:
      return "go back to base";
    case Decision::undecided:
      break;
  }
  return fmt::format("go back to base, or begin again with --pairs {}", 2 * plan.commands->expects->most_pairs);
}

}  // namespace

Judgment judgment_of(const Plan& plan, const Measured& measured, const std::vector<StudyRung>& rungs,
                     const std::vector<Found>& found) {
  const Expectation& expected = *plan.commands->expects;
  const harness::ExperimentTerms terms = expected.terms();
  Judgment judgment{.needed = 1 / expected.level};
  const RunsByRepeat &base = measured.runs_of.at(0), &head = measured.runs_of.at(1);
  judgment.runs = std::ssize(base) + std::ssize(head);
  int64_t disturbed = 0;
  for (const auto& [repeat, run] : base) {
    const auto partner = head.find(repeat);
    if (partner == head.end()) continue;
    judgment.gains.push_back(std::log(run.cost / partner->second.cost));
  }
  for (const RunsByRepeat* runs : {&base, &head}) {
    disturbed += std::ranges::count_if(*runs, [](const auto& run) { return !run.second.disturbed.empty(); });
  }
  judgment.pairs = std::ssize(judgment.gains);
  if (judgment.pairs > 0) {
    const harness::Judged judged = harness::judge_experiment(judgment.gains, terms, expected.noise());
    const harness::Estimate gain = harness::gain_at_any_look(judgment.gains, terms, expected.noise());
    judgment.verdict = judged.decision;
    judgment.evidence = std::min(std::exp(judged.log_evidence), most_evidence);
    judgment.ratio = std::exp(gain.center);
    if (gain.interval) {
      judgment.lo = std::exp(gain.interval->lo);
      judgment.hi = std::exp(gain.interval->hi);
    }
    harness::PooledNoise noise = expected.noise();
    noise.add(judgment.gains);
    if (noise.freedom > 0) {
      judgment.least_shown = std::expm1(harness::gain_shown_by(terms.most_pairs, terms.level) * noise.deviation());
    }
    judgment.reasons = {reason_of(plan, judgment)};
  }
  const auto decide = [&](Decision verdict, const std::string& why) {
    judgment.verdict = verdict;
    judgment.reasons.insert(judgment.reasons.begin(), why);
  };
  if (judgment.pairs > 1 && repeat_themselves(plan, measured)) {
    if (judgment.gains.front() == 0) {
      decide(Decision::discard, "all runs of base and head have the same number");
    } else {
      decide(Decision::undecided, one_number_each);
    }
  }
  if (rungs[0].status == RungStatus::failed) {
    decide(Decision::undecided, "base has no number: " + rungs[0].reason);
  } else if (rungs[1].status == RungStatus::failed || rungs[1].status == RungStatus::unproven) {
    decide(Decision::discard, "head has no number: " + rungs[1].reason);
  } else if (rungs[1].status == RungStatus::voided && judgment.pairs > 1) {
    decide(Decision::discard, "head no longer learns the same: " + rungs[1].reason);
  } else if (judgment.verdict != Decision::undecided && harness::are_most(disturbed, judgment.runs)) {
    decide(Decision::undecided, fmt::format("{} of {} were disturbed", disturbed, number_of(judgment.runs, "run")));
  }
  if (judgment.reasons.empty()) judgment.reasons = {"there is no pair of runs"};
  for (auto one = found.rbegin(); one != found.rend(); ++one) decide(Decision::discard, "found: " + one->text);
  judgment.next = next_of(plan, judgment.verdict);
  return judgment;
}

}  // namespace study
