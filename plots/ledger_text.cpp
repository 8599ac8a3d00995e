#include "plots/ledger_text.h"

#include "files/printable.h"
#include "plots/report_document.h"
#include "plots/sentences.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace plots {

using files::shortened;
using harness::Decision;

namespace {

bool is(const LedgerEntry& entry, Decision verdict) { return entry.judgment && entry.judgment->verdict == verdict; }

int64_t number_with(const Ledger& ledger, Decision verdict) {
  return std::ranges::count_if(ledger.experiments, [&](const LedgerEntry& entry) { return is(entry, verdict); });
}

std::string word_of(const LedgerEntry& entry) {
  return entry.judgment ? name_of(entry.judgment->verdict) : "interrupted";
}

std::string devices_of(const Ledger& ledger) {
  std::set<std::string> devices;
  for (const LedgerEntry& entry : ledger.experiments) devices.insert(shortened(entry.device, 40));
  return fmt::format("{}", fmt::join(devices, ", "));
}

}  // namespace

double kept_ratio(const Ledger& ledger) {
  double ratio = 1;
  for (const LedgerEntry& entry : ledger.experiments) {
    if (is(entry, Decision::keep)) ratio *= entry.judgment->ratio;
  }
  return ratio;
}

Said said_of(const Ledger& ledger) {
  const int64_t all = std::ssize(ledger.experiments), kept = number_with(ledger, Decision::keep);
  Said said{.title = fmt::format("{} · {}", devices_of(ledger), files::valid_utf8(ledger.created.substr(0, 10))),
            .headline = fmt::format("{}: {} kept", number_of(all, "experiment"), kept),
            .lines = {},
            .remarks = {},
            .command = ""};
  if (kept > 0) said.headline += ", " + times(kept_ratio(ledger)) + " together";
  int64_t runs = 0;
  for (const LedgerEntry& entry : ledger.experiments) {
    runs += entry.judgment ? entry.judgment->runs : 0;
  }
  std::vector<std::string> others;
  for (const auto& [verdict, word] :
       {std::pair(Decision::discard, "discarded"), std::pair(Decision::undecided, "undecided")}) {
    if (const int64_t number = number_with(ledger, verdict)) others.push_back(fmt::format("{} {}", number, word));
  }
  const int64_t open = std::ranges::count_if(ledger.experiments, [](const LedgerEntry& one) { return !one.judgment; });
  if (open > 0) others.push_back(fmt::format("{} interrupted", open));
  others.push_back(number_of(runs, "run"));
  said.lines.push_back(fmt::format("{}.", fmt::join(others, " · ")));
  said.lines.push_back(fmt::format(
      "If no change gains anything, such a night keeps one with a probability of {} at most; of what is kept, no more "
      "than {} gains nothing, in the mean.",
      percent(ledger.error), percent(ledger.error)));
  if (kept > 0) {
    said.lines.emplace_back(
        "Measured ratios of kept changes are a little high, and so is their product: measure the last commit against "
        "the first.");
  }
  return said;
}

std::string ledger_table(const Ledger& as_written, const Look& look) {
  const Ledger ledger = with_printable_texts(as_written);
  std::string text = fmt::format("\n{:>4}  {:<8} {:<12} {:>8} {:<18} {:>5} {:>9}\n{}\n", "", "head", "verdict", "ratio",
                                 "[95 %]", "pairs", "together", std::string(columns(), '-'));
  double together = 1;
  for (size_t i = 0; i < ledger.experiments.size(); ++i) {
    const LedgerEntry& entry = ledger.experiments[i];
    if (is(entry, Decision::keep)) together *= entry.judgment->ratio;
    const std::string word = word_of(entry);
    text += fmt::format("{:>4}  {:<8} {:<12}", i + 1, entry.head.substr(0, 7), word);
    if (entry.judgment && entry.judgment->pairs > 0) {
      const Judgment& judgment = *entry.judgment;
      text +=
          fmt::format(" {:>7.4f}x {:<18} {:>5}", judgment.ratio,
                      judgment.lo ? fmt::format("[{:.4f}-{:.4f}]", *judgment.lo, *judgment.hi) : "", judgment.pairs);
      if (judgment.verdict == Decision::keep) text += fmt::format(" {:>8.4f}x", together);
    }
    text += "\n";
  }
  text += std::string(columns(), '-') + "\n";
  return text + said_text(with_printable_texts(said_of(ledger)), look);
}

}  // namespace plots
