#include "results/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <tuple>

namespace results {

harness::ExperimentTerms Expectation::terms() const {
  return {.level = level, .most_pairs = most_pairs, .least_gain = std::log1p(least_gain)};
}

Expectation expectation_of(const std::string& text, bool is_time) {
  static const std::regex form(R"((faster|better)(?::(\d{1,3}(?:\.\d{1,6})?)%)?)");
  std::smatch found;
  if (!std::regex_match(text, found, form)) {
    throw std::invalid_argument(
        fmt::format("--expect must be faster:1%, better:0.5%, faster or better, got '{}'", text));
  }
  if (found[1] == "faster" && !is_time) {
    throw std::invalid_argument("--expect faster is for times; of another --metric expect better");
  }
  Expectation result{.text = text};
  if (found[2].matched) result.least_gain = std::stod(found[2]) / 100;
  return result;
}

int exit_status(harness::Decision verdict) {
  return verdict == harness::Decision::keep ? 0 : verdict == harness::Decision::discard ? 1 : 3;
}

void Ledger::check(const std::string& where) const {
  double weights = 0;
  for (size_t i = 0; i < experiments.size(); ++i) {
    const LedgerEntry& entry = experiments[i];
    const std::string who = fmt::format("{}: field [experiments][{}]", where, i);
    if (i > 0 && entry.started < experiments[i - 1].started) {
      throw std::invalid_argument(who + " began before the one above it");
    }
    if (entry.judgment && entry.judgment->pairs != std::ssize(entry.judgment->gains)) {
      throw std::invalid_argument(
          fmt::format("{} has {} pairs and {} gains", who, entry.judgment->pairs, entry.judgment->gains.size()));
    }
    const auto kept_before = static_cast<double>(std::count_if(
        experiments.begin(), experiments.begin() + static_cast<std::ptrdiff_t>(i), [](const LedgerEntry& earlier) {
          return earlier.judgment && earlier.judgment->verdict == harness::Decision::keep;
        }));
    weights += entry.expectation.level / (kept_before + 1);
  }
  if (weights <= error * (1 + 1e-9)) return;
  throw std::invalid_argument(
      fmt::format("{}: its experiments spend an error of {:.3g}, and it has {:.3g}", where, weights, error));
}

static size_t kept_of(const Ledger& ledger) {
  return static_cast<size_t>(std::ranges::count_if(ledger.experiments, [](const LedgerEntry& entry) {
    return entry.judgment && entry.judgment->verdict == harness::Decision::keep;
  }));
}

double level_of_next(const Ledger& ledger) {
  return harness::level_of_next(usual_error, ledger.experiments.size(), kept_of(ledger));
}

harness::PooledNoise noise_of(const Ledger& ledger, const LedgerEntry& like) {
  const auto kind = [](const LedgerEntry& entry) { return std::tie(entry.command, entry.metric, entry.device); };
  harness::PooledNoise noise;
  for (const LedgerEntry& entry : ledger.experiments) {
    if (entry.judgment && kind(entry) == kind(like)) noise.add(entry.judgment->gains);
  }
  return noise;
}

Ledger merged(const Ledger& one, const Ledger& other) {
  Ledger both{.created = std::min(one.created, other.created), .error = one.error + other.error};
  std::ranges::merge(one.experiments, other.experiments, std::back_inserter(both.experiments), {},
                     &LedgerEntry::started, &LedgerEntry::started);
  const auto same = [](const LedgerEntry& a, const LedgerEntry& b) {
    return a.started == b.started && a.folder == b.folder && a.head == b.head;
  };
  const auto twice = std::ranges::adjacent_find(both.experiments, same);
  if (twice != both.experiments.end()) {
    throw std::invalid_argument("both ledgers have the experiment of " + twice->started);
  }
  return both;
}

}  // namespace results
