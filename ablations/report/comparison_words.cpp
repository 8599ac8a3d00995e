#include "ablations/report/comparison_words.h"

#include "ablations/text/figures.h"
#include "ablations/text/list.h"
#include "files/printable.h"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>

namespace ablations {

using files::shortened;

namespace {

constexpr size_t note_length = 240;

const char* verdict_word(harness::Verdict verdict) {
  switch (verdict) {
    case harness::Verdict::regression:
      return "slower";
    case harness::Verdict::improvement:
      return "faster";
    case harness::Verdict::same:
      return "the same";
    case harness::Verdict::inconclusive:
      break;
  }
  return "inconclusive";
}

// A flag begins with its run's side, as documents call it.
std::string with_side_named(const std::string& flag, const SideNames& names) {
  for (const auto& [side, name] : {std::pair(SideName::base, names.base), std::pair(SideName::head, names.head)}) {
    const std::string word = name_of(side);
    if (flag.starts_with(word + " ")) return name + flag.substr(word.size());
  }
  return flag;
}

std::vector<Remark> remarks_of_entry(const ComparedRecipe& entry, const SideNames& names) {
  const bool differ = !entry.loss.is_good();
  std::vector<Remark> remarks{
      {differ ? "losses differ" : "losses", differ ? Mood::bad : Mood::plain, losses_words(entry.loss)}};
  if (const std::string words = disturbed_words(entry, names); !words.empty()) {
    remarks.push_back({"disturbed", Mood::warn, words});
  }
  return remarks;
}

std::vector<std::string> how_pairs_agree(const ComparedRecipe& entry, const SideNames& names) {
  std::vector<std::string> parts{pairs_words(entry, names), "sign test p = " + plain(entry.sign_test_p)};
  if (const std::string words = sessions_words(entry, names); !words.empty()) parts.insert(parts.begin(), words);
  return parts;
}

// One line, with at most three of what is said; empty where nothing is.
std::string note_of(const char* what, const std::vector<std::string>& said) {
  if (said.empty()) return "";
  return fmt::format("{}: {}", what, first_of(said, 3, note_length));
}

std::vector<std::string> chart_notes(const Comparison& comparison, const SideNames& names) {
  std::vector<std::string> differ, disturbed, alone;
  const auto said = [](const ComparedRecipe& entry, const std::string& words) {
    return fmt::format("{}, {}", shortened(entry.label, 40), shortened(words, 100));
  };
  for (const ComparedRecipe& entry : comparison.entries) {
    if (!entry.loss.is_good()) differ.push_back(said(entry, entry.loss.message));
    if (!entry.flags.empty()) disturbed.push_back(said(entry, disturbed_words(entry, names)));
  }
  for (const Unmatched& one : comparison.unmatched) {
    alone.push_back(
        fmt::format("{} ({} only)", shortened(one.label, 40), one.side == SideName::base ? names.base : names.head));
  }
  std::vector<std::string> notes{note_of("compared although these differ", comparison.forced),
                                 note_of("losses differ", differ), note_of("disturbed", disturbed)};
  for (const std::string& line : left_out_lines(comparison, names)) notes.push_back(shortened(line, note_length));
  notes.push_back(note_of("Warning", comparison.warnings));
  notes.push_back(note_of("not compared", alone));
  std::erase(notes, "");
  return notes;
}

}  // namespace

std::string losses_words(const ComparedLoss& loss) {
  if (!loss.is_good()) return "LOSSES DIFFER: " + loss.message;
  if (!loss.message.empty()) return loss.message;
  return loss.compared ? "losses agree" : "losses are not compared";  // an older program said no more of them
}

std::string disturbed_words(const ComparedRecipe& entry, const SideNames& names) {
  const std::vector<std::string>& flags = entry.flags;  // one line for each such run
  if (flags.empty()) return "";
  return fmt::format("{} of the runs {} disturbed: {}", flags.size(), flags.size() == 1 ? "was" : "were",
                     with_side_named(flags.front(), names));
}

std::string pairs_words(const ComparedRecipe& entry, const SideNames& names) {
  return fmt::format("{}{} took longer in {} of {}{}", names.article, names.head, entry.slower_pairs,
                     number_of(entry.pairs, "pair"),
                     entry.sessions ? fmt::format(" with {}{}'s own runs", names.article, names.base) : "");
}

std::string sessions_words(const ComparedRecipe& entry, const SideNames& names) {
  return entry.sessions ? fmt::format("{}: the mean of {}", names.base, number_of(*entry.sessions, "session")) : "";
}

std::string how_compared(const Comparison& comparison, const SideNames& names) {
  std::string method = comparison.method;
  constexpr std::string_view ratio = "head/base, ";  // as documents call the sides
  if (method.starts_with(ratio)) method.erase(0, ratio.size());
  return fmt::format("{}/{}, {}.", names.head, names.base, method);
}

std::vector<std::string> difference_lines(const Comparison& comparison, const SideNames& names) {
  std::vector<std::string> lines;
  for (const std::string& one : comparison.forced) lines.push_back(fmt::format("{}: {}", names.differs, one));
  return lines;
}

std::vector<std::string> left_out_lines(const Comparison& comparison, const SideNames& names) {
  std::vector<std::string> lines;
  for (const auto& [name, side] : {std::pair(names.base, &comparison.base), std::pair(names.head, &comparison.head)}) {
    const std::vector<std::string>& left_out = side->left_out;
    if (left_out.empty()) continue;
    lines.push_back(fmt::format("{} of {}{} left out, not a number: {}", number_of(std::ssize(left_out), "run"),
                                names.article, name, left_out.front()));
  }
  return lines;
}

Comparison with_words(Comparison comparison, const SideNames& names) {
  for (ComparedRecipe& entry : comparison.entries) {
    entry.words = {.verdict = verdict_word(entry.verdict),
                   .pairs = how_pairs_agree(entry, names),
                   .remarks = remarks_of_entry(entry, names)};
  }
  ComparisonWords words{
      .how = fmt::format("{} Above 1, {}{} takes longer.", how_compared(comparison, names), names.article, names.head),
      .differences = difference_lines(comparison, names),
      .remarks = left_out_lines(comparison, names),
      .notes = chart_notes(comparison, names)};
  for (const std::string& warning : comparison.warnings) words.remarks.push_back("Warning: " + warning);
  comparison.words = std::move(words);
  return comparison;
}

}  // namespace ablations
