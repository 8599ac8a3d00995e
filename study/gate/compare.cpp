#include "study/gate/compare.h"

#include "ablations/run/run_setting.h"
#include "harness/process/unfit.h"
#include "harness/process/utc.h"
#include "harness/stats/verdict.h"
#include "study/guard.h"
#include "study/measured.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

namespace study {

namespace {

using Match = std::pair<const Sample*, const Sample*>;

// Takes samples out of the two lists.
void match_by(auto same, std::vector<const Sample*>& base, std::vector<const Sample*>& head,
              std::vector<Match>& matches) {
  std::erase_if(base, [&](const Sample* sample) {
    const auto match = std::ranges::find_if(head, [&](const Sample* other) { return same(*sample, *other); });
    if (match == head.end()) return false;
    matches.emplace_back(sample, *match);
    head.erase(match);
    return true;
  });
}

void set_ratio(ComparedRatio& ratio, const harness::PairedVerdict& verdict) {
  static_cast<Bounds&>(ratio) = bounds(verdict.ratio);
  ratio.ratio = verdict.ratio.center;
  ratio.verdict = verdict.verdict;
}

// A deviation of losses that passed.
std::string how_far_apart(bool identical, double deviation, double tolerance) {
  if (identical) return "losses identical to the bit";
  return fmt::format("median difference of the losses {:.2g} nats (limit {:g})", std::abs(deviation), tolerance);
}

// Why two runs' losses cannot be the same. Empty if they can.
std::string other_work(const Workload& here, const Workload& there) {
  if (here.seed != there.seed) return "seed";
  if (here.data.sha256 != there.data.sha256) return "data";  // the file may have another name; its tokens count
  if (here.model != there.model) return "model";
  if (here.B != there.B) return "batch";
  if (here.T != there.T) return "context";
  if (here.random_windows != there.random_windows) return "windows";
  return here.accumulation != there.accumulation ? "accumulation" : "";
}

ComparedLoss compared_commands(const Sample& base, const Sample& head, size_t pairs) {
  RunsByRepeat before, after;
  for (size_t i = 0; i < pairs; ++i) {
    before[static_cast<int64_t>(i)] = run_data(base.records[i]);
    after[static_cast<int64_t>(i)] = run_data(head.records[i]);
  }
  const auto [verdict, words] = guard_command(after, before);
  ComparedLoss loss;
  loss.message = "losses " + words;
  if (!verdict) return loss;
  const auto same = [&](const auto& run) { return run.second.losses == before.at(run.first).losses; };
  loss.compared = true;
  loss.identical = std::ranges::all_of(after, same);
  loss.passed = verdict->passed;
  loss.deviation = verdict->deviation;
  loss.max_deviation = verdict->max_deviation;
  loss.tolerance = verdict->tolerance;
  if (!verdict->passed) loss.message = words;
  return loss;
}

ComparedLoss compared_loss(const Sample& base, const Sample& head, size_t pairs) {
  for (size_t i = 0; i < pairs; ++i) {
    const std::string other = other_work(base.records[i].workload, head.records[i].workload);
    if (other.empty()) continue;
    ComparedLoss none;
    none.message = fmt::format("losses are not compared: another {}", other);
    return none;
  }
  if (base.records.front().command) return compared_commands(base, head, pairs);
  const auto &its = base.records.front().losses, &own = head.records.front().losses;
  if (!its || !own) {
    ComparedLoss none;
    none.message = "losses are not compared: an older record does not say by how much they may differ";
    return none;
  }
  const double tolerance = std::max(own->tolerance, its->tolerance), offset = own->offset - its->offset;
  bool identical = true;
  Guard worst;
  for (size_t i = 0; i < pairs; ++i) {
    const RunData before = run_data(base.records[i]), after = run_data(head.records[i]);
    const Guard verdict = guard(after.losses, before.losses, tolerance, offset, after.skipped_steps);
    const auto steps = static_cast<std::ptrdiff_t>(std::min(before.losses.size(), after.losses.size()));
    identical &= std::equal(before.losses.begin(), before.losses.begin() + steps, after.losses.begin());
    if (i == 0 || is_worse(verdict, worst)) worst = verdict;
  }
  return {.compared = true,
          .identical = identical,
          .passed = worst.passed,
          .deviation = worst.deviation,
          .max_deviation = worst.max_deviation,
          .tolerance = tolerance,
          .message = worst.passed ? how_far_apart(identical, worst.deviation.value(), tolerance) : worst.message};
}

// The largest of the runs, as in a study.
int64_t peak_bytes(const Sample& sample) {
  int64_t peak = 0;
  for (const Record& record : sample.records) peak = std::max(peak, record.memory.peak_bytes);
  return peak;
}

ComparedRecipe compare_samples(const Sample& base, const Sample& head, const CompareOptions& options) {
  const size_t pairs = std::min(base.records.size(), head.records.size());
  const Record& first = head.records.front();
  ComparedRecipe entry;
  entry.label = head.label;
  entry.recipe_hash = recipe_hash_of(first);
  entry.recipe = first.recipe;
  entry.recipe_diff = recipe_diff(base.records.front().recipe, first.recipe);
  entry.setting = setting_of(first);
  entry.pairs = static_cast<int64_t>(pairs);
  entry.base_runs = std::ssize(base.records);
  entry.head_runs = std::ssize(head.records);
  std::vector<double> peaks[2];
  for (size_t side = 0; side < 2; ++side) {
    for (size_t i = 0; i < pairs; ++i) {
      const RunData run = run_data((side == 0 ? base : head).records[i]);
      (side == 0 ? entry.base_runs_ms : entry.head_runs_ms).push_back(run.median_ms);
      peaks[side].push_back(static_cast<double>(run.peak_bytes));
      if (!run.disturbed.empty())
        entry.flags.push_back(fmt::format("{} {}", side == 0 ? "base" : "head", run.disturbed));
    }
  }
  harness::PairedVerdict time = harness::compare(entry.base_runs_ms, entry.head_runs_ms, options.min_effect);
  entry.base_ms = harness::median(entry.base_runs_ms);
  entry.head_ms = harness::median(entry.head_runs_ms);
  if (base.sessions.size() >= harness::sessions_to_judge_by && pairs >= harness::runs_of_a_session) {
    time.ratio = harness::ratio_to_earlier(entry.head_ms, base.sessions);
    time.verdict = harness::judge(time.ratio, options.min_effect);
    entry.base_ms = entry.head_ms / time.ratio.center;
    entry.sessions = std::ssize(base.sessions);
  }
  set_ratio(entry, time);
  if (!entry.sessions) entry.unusable = harness::why_unusable(entry.pairs, entry.lo, entry.hi);
  entry.slower_pairs = time.greater;
  entry.sign_test_p = time.sign_test;
  entry.loss = compared_loss(base, head, pairs);
  const auto positive = [](double bytes) { return bytes > 0; };
  if (std::ranges::all_of(peaks[0], positive) && std::ranges::all_of(peaks[1], positive)) {
    entry.memory.emplace();
    set_ratio(*entry.memory, harness::compare(peaks[0], peaks[1], options.min_effect));
    entry.memory->base_bytes = peak_bytes(base);
    entry.memory->head_bytes = peak_bytes(head);
  }
  return entry;
}

ComparedSide compared_side(const Side& side) {
  std::set<std::string> programs;
  int64_t runs = 0;
  for (const Sample& sample : side.samples) {
    runs += std::ssize(sample.records);
    for (const Record& record : sample.records) {
      const Environment& environment = record.environment;
      if (record.command) {
        if (record.command->commit) programs.insert(record.command->commit->substr(0, 12));
        continue;
      }
      programs.insert(environment.git_commit.value_or("unknown") +
                      (environment.git_dirty == true ? ", with changes that are not committed" : ""));
    }
  }
  return {
      .source = side.source, .runs = runs, .programs = {programs.begin(), programs.end()}, .left_out = side.left_out};
}

struct Matched {
  std::vector<Match> matches;
  std::vector<const Sample*> base, head;  // the others
};

// Matches samples by recipe and size, then by recipe alone. If each side has one sample, those two match.
Matched match(const Side& base, const Side& head) {
  Matched result;
  for (const Sample& sample : base.samples) result.base.push_back(&sample);
  for (const Sample& sample : head.samples) result.head.push_back(&sample);
  const auto match_where = [&](auto same) { match_by(same, result.base, result.head, result.matches); };
  if (base.samples.size() == 1 && head.samples.size() == 1) {
    match_where([](const Sample&, const Sample&) { return true; });
    return result;
  }
  const auto same_work = [](const Sample& a, const Sample& b) {
    return recipe_hash_of(a.records.front()) == recipe_hash_of(b.records.front());
  };
  match_where([&](const Sample& a, const Sample& b) { return same_work(a, b) && a.label == b.label; });
  match_where(same_work);
  match_where([](const Sample& a, const Sample& b) {
    const Record &one = a.records.front(), &other = b.records.front();
    return !one.command && !other.command && recipe_diff(one.recipe, other.recipe).empty();
  });
  return result;
}

// How the circumstances of matched records differ.
std::vector<std::string> differing_circumstances(const std::vector<Match>& matches) {
  std::vector<std::string> differing;
  for (const auto& [a, b] : matches) {
    const Setting setting = setting_of(a->records.front());
    for (const Sample* sample : {a, b}) {
      for (const Record& record : sample->records) {
        for (std::string& line : differences(setting, setting_of(record))) {
          if (std::ranges::find(differing, line) == differing.end()) differing.push_back(std::move(line));
        }
      }
    }
  }
  return differing;
}

// How many of a side's runs were disturbed, and how many it has.
std::pair<int64_t, int64_t> disturbed_of(const Side& side) {
  int64_t disturbed = 0, runs = 0;
  for (const Sample& sample : side.samples) {
    runs += std::ssize(sample.records);
    disturbed += std::ranges::count_if(sample.records, &Record::is_disturbed);
  }
  return {disturbed, runs};
}

}  // namespace

Comparison compare_sides(const Side& base, const Side& head, const CompareOptions& options) {
  const Matched matched = match(base, head);
  if (matched.matches.empty()) {
    const char* const what = base.samples.front().records.front().command ? "command" : "recipe";
    throw std::invalid_argument(
        fmt::format("{} and {} have no {} in common; only single records are compared across {}s; `ladder report` "
                    "shows two studies beside each other",
                    base.source, head.source, what, what));
  }
  const std::vector<std::string> differing = differing_circumstances(matched.matches);
  if (!differing.empty() && !options.force) {
    throw harness::Unfit(
        fmt::format("{} and {} were measured under different circumstances ({}); --force compares them anyway",
                    base.source, head.source, fmt::join(differing, "; ")));
  }
  Comparison comparison{
      .created = harness::utc_now(),
      .min_effect = options.min_effect,
      .method =
          "head/base, paired in order: Hodges-Lehmann center of the logarithms of the runs' medians; interval "
          "of the signed-rank test, below 6 pairs Student's with a bootstrapped standard error; against 3 sessions or "
          "more of a baseline Student's prediction interval",
      .base = compared_side(base),
      .head = compared_side(head),
      .forced = differing,
      .warnings = {},
      .entries = {},
      .unmatched = {}};
  for (const auto& [a, b] : matched.matches) comparison.entries.push_back(compare_samples(*a, *b, options));
  for (const Side* side : {&base, &head}) {
    const auto [disturbed, runs] = disturbed_of(*side);
    if (!harness::are_most(disturbed, runs)) continue;
    for (ComparedRecipe& entry : comparison.entries) {
      entry.unusable = fmt::format("{} of {} runs of {} were disturbed", disturbed, runs, side->source);
    }
  }
  for (ComparedRecipe& entry : comparison.entries) {
    if (!entry.unusable.empty()) entry.verdict = harness::Verdict::inconclusive;
  }
  const auto is_by_sessions = [](const ComparedRecipe& entry) { return entry.sessions.has_value(); };
  if (!options.interleaved && !std::ranges::all_of(comparison.entries, is_by_sessions)) {
    comparison.warnings.emplace_back(not_interleaved);
  }
  for (const Sample* sample : matched.base) comparison.unmatched.push_back({SideName::base, sample->label});
  for (const Sample* sample : matched.head) comparison.unmatched.push_back({SideName::head, sample->label});
  return comparison;
}

}  // namespace study
