#include "ablations/report/gate_words.h"

#include "ablations/report/comparison_words.h"
#include "ablations/report/origin.h"
#include "ablations/text/figures.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ablations {

using files::shortened;

namespace {

using Entries = std::vector<ComparedRecipe>;

const Entries& entries_of(const GateResult& result) {
  static const Entries none;
  return result.comparison ? result.comparison->entries : none;
}

// What is said of a verdict whatever was measured.
struct Explanation {
  Mood mood;
  const char* meaning;
  const char* reason;  // for a verdict that gives none
};

Explanation said_of(GateOutcome verdict) {
  switch (verdict) {
    case GateOutcome::regression:
      return {
          Mood::bad,
          "A rung is slower: its whole interval lies beyond the least effect. Or its losses are no longer the same.",
          ""};
    case GateOutcome::improvement:
      return {Mood::good, "A rung is faster: its whole interval lies beyond the least effect. No rung is slower.", ""};
    case GateOutcome::same:
      return {Mood::good, "Every interval lies within the least effect.", ""};
    case GateOutcome::inconclusive:
      return {Mood::warn, "An interval crosses the bound of what matters, so these runs cannot tell. More pairs may.",
              ""};
    case GateOutcome::failed:
      return {Mood::bad,
              "The head has no number: one of its runs failed, was not proven, or had a loss that is not finite.",
              "head has no number"};
    case GateOutcome::unfit:
      return {
          Mood::warn,
          "There is nothing to judge by: the base has no number, the machine is not fit for measuring, or a program "
          "differs from itself.",
          "base has no number"};
    case GateOutcome::saved:
      return {Mood::plain, "There was no baseline to compare with. These runs are now the baseline.",
              "there was no baseline, now there is"};
    case GateOutcome::calibrated:
      break;
  }
  return {Mood::plain, "The program was run against itself. The noise floor is how far its equal runs are apart.",
          "the noise floor was measured"};
}

// The one of a gate's reasons that its verdict is about. There is one reason for each rung that is not the same.
std::string deciding_reason(const GateResult& result) {
  const std::vector<std::string>& reasons = result.reasons;
  if (reasons.empty()) return said_of(result.verdict).reason;
  if (result.verdict == GateOutcome::unfit) return reasons.back();
  if (result.verdict != GateOutcome::inconclusive) return reasons.front();
  const auto is_of_inconclusive = [&](const std::string& reason) {
    return std::ranges::any_of(entries_of(result), [&](const ComparedRecipe& entry) {
      return entry.verdict == harness::Verdict::inconclusive && reason.starts_with(entry.label + ": ");
    });
  };
  const auto found = std::ranges::find_if(reasons, is_of_inconclusive);
  return found == reasons.end() ? reasons.front() : *found;
}

std::string named(const ComparedRecipe& entry, size_t length) {
  return shortened(entry.label.starts_with("+ ") ? entry.label.substr(2) : entry.label, length);
}

std::string verdict_finding(const GateResult& result) {
  const Entries& entries = entries_of(result);
  const auto ratio = [](const ComparedRecipe& entry) { return entry.ratio; };
  if (result.verdict == GateOutcome::regression) {
    const auto differs = [](const ComparedRecipe& entry) { return !entry.loss.is_good(); };
    const auto other = std::ranges::find_if(entries, differs);
    if (other != entries.end()) {
      const auto more = std::ranges::count_if(entries, differs) - 1;
      return fmt::format("No longer learns the same: {}{}: {}", named(*other, 40),
                         more > 0 ? fmt::format(" and {} more", more) : "", shortened(other->loss.message, 90));
    }
    Entries slower;
    std::ranges::copy_if(entries, std::back_inserter(slower),
                         [](const ComparedRecipe& entry) { return entry.verdict == harness::Verdict::regression; });
    if (!slower.empty()) {
      const ComparedRecipe& worst = *std::ranges::max_element(slower, {}, ratio);
      return fmt::format("Slower: {}, {} the time of base", named(worst, 40), times(worst.ratio));
    }
  }
  if (result.verdict == GateOutcome::improvement && !entries.empty()) {
    const ComparedRecipe& best = *std::ranges::min_element(entries, {}, ratio);
    return fmt::format("Faster: {}, {} the time of base", named(best, 40), times(best.ratio));
  }
  if (result.verdict == GateOutcome::same) {
    return fmt::format("No change that matters: {} within {} of base", number_of(std::ssize(entries), "rung"),
                       percent(result.min_effect));
  }
  std::string word = name_of(result.verdict);
  for (char& c : std::span(word).subspan(1)) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return fmt::format("{}: {}", word, shortened(deciding_reason(result), 110));
}

std::string pairs_finding(const Entries& entries) {
  const ComparedRecipe& clearest = *std::ranges::min_element(entries, {}, &ComparedRecipe::sign_test_p);
  return fmt::format("{}: {}", named(clearest, 60), pairs_words(clearest, sides_of_programs));
}

Card pairs_of_runs(const GateResult& result) {
  const char* made = result.against == Against::program ? "each a fresh process of base and one of head"
                                                        : "each a run of the baseline and a fresh one of head";
  return {"Pairs of runs", std::to_string(result.pairs), Mood::plain,
          fmt::format("{}{}", made,
                      result.topped_up ? "; with the declared top-up, because the first pairs could not tell" : "")};
}

const char* noise_source_words(NoiseSource source) {
  switch (source) {
    case NoiseSource::calibration:
      return "a calibration on this machine";
    case NoiseSource::these_pairs:
      return "the spread of these pairs";
    case NoiseSource::sessions:
      break;
  }
  return "the spread of the baseline's sessions";
}

Card noise_floor(const GateResult& result) {
  const NoiseFloor* worst = nullptr;
  for (const auto& noise : result.noise) {
    if (noise && (worst == nullptr || noise->floor > worst->floor)) worst = &*noise;
  }
  if (worst == nullptr) {
    return {"Noise floor", "not known", Mood::warn,
            "`ladder gate --calibrate --save` measures how far equal programs are apart here"};
  }
  return {"Noise floor", percent(worst->floor), worst->floor > result.min_effect ? Mood::warn : Mood::good,
          fmt::format("comes on top of the least effect for a slowdown to be found in 95 % of studies; from {}",
                      noise_source_words(worst->source))};
}

// None: a loss is not finite.
std::optional<double> judged_deviation(const ComparedLoss& loss) {
  const std::optional<double> judged =
      loss.deviation ? *loss.deviation : loss.max_deviation.value_or(std::optional<double>());
  return judged ? std::optional(std::abs(*judged)) : std::nullopt;
}

Card losses(const Entries& entries) {
  const auto is_compared = [](const ComparedRecipe& entry) { return entry.loss.compared; };
  const auto is_identical = [](const ComparedRecipe& entry) { return entry.loss.identical.value_or(false); };
  const auto is_good = [](const ComparedRecipe& entry) { return entry.loss.is_good(); };
  const auto compared = std::ranges::count_if(entries, is_compared);
  if (!std::ranges::all_of(entries, is_good)) {
    return {"Losses", "differ", Mood::bad, "head no longer learns what base learns"};
  }
  if (compared == 0) return {"Losses", "not compared", Mood::warn, entries.front().loss.message};
  if (compared < std::ssize(entries)) {
    const auto left_out = std::ranges::find_if_not(entries, is_compared);
    return {"Losses", fmt::format("{} of {} compared", compared, entries.size()), Mood::warn,
            fmt::format("{}: {}", left_out->label, left_out->loss.message)};
  }
  if (std::ranges::all_of(entries, is_identical)) {
    return {"Losses", "identical", Mood::good, "to the bit, at every step"};
  }
  double furthest = 0;
  for (const ComparedRecipe& entry : entries) {
    furthest = std::max(furthest, judged_deviation(entry.loss).value_or(0));
  }
  return {"Losses", "within tolerance", Mood::plain, fmt::format("median difference {} nats at most", plain(furthest))};
}

Card disturbed_runs(const Entries& entries) {
  int64_t disturbed = 0, runs = 0;
  for (const ComparedRecipe& entry : entries) {
    disturbed += std::ssize(entry.flags);
    runs += std::ssize(entry.base_runs_ms) + std::ssize(entry.head_runs_ms);
  }
  if (disturbed == 0) {
    return {"Disturbed runs", "none seen", Mood::good, "no throttling and no other work, as far as it was watched"};
  }
  return {"Disturbed runs", fmt::format("{} of {}", disturbed, runs), Mood::warn,
          "throttled, shared, paused, busy with something else, or short of memory"};
}

// "0123456789...": the commits of a side.
std::string commits_of(const ComparedSide& side) {
  std::vector<std::string> names;
  for (const std::string& name : side.programs) {  // a commit, and what is to be said of it
    if (names.size() == 3) break;
    const size_t end = name.find(',');
    names.push_back(shortened(name.substr(0, end), 13) + (end == std::string::npos ? "" : ", changed"));
  }
  return names.empty() ? "unknown" : fmt::format("{}", fmt::join(names, ", "));
}

Card programs(const Comparison& comparison) {
  const std::string base = commits_of(comparison.base), head = commits_of(comparison.head);
  const bool is_changed = (base + head).find("changed") != std::string::npos;
  return {"Programs", base == head ? base : fmt::format("{} \u2192 {}", base, head),
          is_changed ? Mood::warn : Mood::plain,
          fmt::format("commits of base and head{}", is_changed ? "; with changes that are not committed" : "")};
}

std::vector<Card> cards_of(const GateResult& result) {
  const Entries& entries = entries_of(result);
  std::vector<Card> cards{pairs_of_runs(result),
                          {"Least effect", percent(result.min_effect), Mood::plain,
                           "a smaller change does not matter; it was chosen before measuring"}};
  if (entries.empty()) return cards;
  cards.push_back(noise_floor(result));
  cards.push_back(losses(entries));
  cards.push_back(disturbed_runs(entries));
  cards.push_back(programs(*result.comparison));
  return cards;
}

std::string how_to_read_pairs(Against against) {
  return fmt::format(
      "Equal programs scatter about 1. If the points rise or fall from left to right, the machine drifted{}. If they "
      "lie in two bands, the machine has two speeds. If a single point is far off, something disturbed one run. That "
      "moves the result little.",
      against == Against::program ? ". The order base, head, head, base largely cancels that"
                                  : ", and nothing cancels that here");
}

std::vector<Term> how_to_read_gate(const GateResult& result) {
  return {
      {"A run",
       "is one fresh process that trains one recipe; its number is the median of its timed steps. All statistics count "
       "runs, not steps."},
      {"The ratio",
       fmt::format("is head's time divided by base's. Above 1, head is slower.{}",
                   result.comparison ? " It is " + how_compared(*result.comparison, sides_of_programs) : "")},
      {"A rung's verdict",
       fmt::format("compares its interval with the least effect of {}. An interval beyond it is a regression or an "
                   "improvement. One within it means the same. One that crosses its bound is inconclusive. If the "
                   "losses differ from base's, the rung is a regression, whatever its time. The gate's verdict is the "
                   "worst of its rungs'.",
                   percent(result.min_effect))},
      {"The exit status",
       "is 0 if head is the same or faster, 1 if it is slower or fails, and 3 if the gate cannot tell or the "
       "machine is not fit to measure."}};
}

}  // namespace

std::string noise_words(const Noise& noise) {
  return fmt::format(
      "{} of equal runs differ by {} (standard deviation). A slowdown is found in 95 % of studies if it exceeds the "
      "least effect by the noise floor. A least effect well below the floor leaves most comparisons of equal programs "
      "inconclusive.",
      number_of(noise.pairs, "pair"), percent(noise.sd));
}

GateWords words_of(const GateResult& result) {
  const Explanation said = said_of(result.verdict);
  GateWords words{.mood = said.mood,
                  .meaning = said.meaning,
                  .trust = cards_of(result),
                  .findings = {{"gate", verdict_finding(result)}},
                  .origin = origin_of(result),
                  .how_to_read = how_to_read_gate(result)};
  for (const Noise& noise : result.calibration) words.noise.push_back(noise_words(noise));
  const Entries& entries = entries_of(result);
  if (entries.empty()) return words;
  words.findings["pairs"] = pairs_finding(entries);
  words.pairs = how_to_read_pairs(result.against);
  if (result.against == Against::baseline) {
    words.pairs_note =
        "base's runs are the baseline's, made at another time: if the machine's pace has changed since, every point "
        "shows it";
  }
  return words;
}

GateResult with_words(GateResult result) {
  if (result.comparison) result.comparison = with_words(std::move(*result.comparison), sides_of_programs);
  result.words = words_of(result);
  return result;
}

bool has_words(const GateResult& result) {
  return result.words && !result.words->how_to_read.empty() && (!result.comparison || result.comparison->words);
}

}  // namespace ablations
