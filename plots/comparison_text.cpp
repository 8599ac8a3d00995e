#include "plots/comparison_text.h"

#include "files/printable.h"
#include "plots/report_document.h"
#include "plots/sentences.h"
#include "results/study.h"
#include "text/figures.h"
#include "text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

namespace plots {

using files::shortened;

namespace {

std::string ratio_with_interval(const ComparedRatio& ratio) {
  std::string center = fmt::format("{:.3f}", ratio.ratio);
  if (ratio.lo && tells_nothing(*ratio.lo, *ratio.hi)) return center + " [unknown]";
  return ratio.lo ? fmt::format("{} [{:.3f}-{:.3f}]", center, *ratio.lo, *ratio.hi) : center;
}

// "losses agree", "median difference of the losses 0.0012 nats (limit 0.02)"
std::string losses_words(const ComparedLoss& loss) {
  if (!loss.is_good()) return "LOSSES DIFFER: " + loss.message;
  return loss.message;
}

std::string memory_words(const std::optional<ComparedMemory>& memory) {
  if (!memory) return "";
  const std::string verdict =
      memory->lo ? fmt::format(" ({} by pairs, {:.3f})", name_of(memory->verdict), memory->ratio) : "";
  return fmt::format("; peak memory {:.2f} to {:.2f} GiB at most{}", gib(memory->base_bytes), gib(memory->head_bytes),
                     verdict);
}

std::string verdict_of(const ComparedRecipe& entry) {
  return entry.unusable.empty() ? name_of(entry.verdict) : "NOT USABLE";
}

// The lines below an entry's row.
std::vector<std::string> notes(const ComparedRecipe& entry, const SideNames& names) {
  std::vector<std::string> lines{fmt::format(
      "{} took longer in {} of {} (sign test p = {}); {}{}", names.head, entry.slower_pairs,
      number_of(entry.pairs, "pair"), plain(entry.sign_test_p), losses_words(entry.loss), memory_words(entry.memory))};
  if (entry.sessions) {
    lines.push_back(
        fmt::format("{}: the mean of {} of one program; the interval holds 1 for 95 % of its further sessions",
                    names.base, number_of(*entry.sessions, "session")));
  }
  if (!entry.unusable.empty()) lines.push_back("not usable: " + entry.unusable);
  if (const int64_t runs = std::max(entry.base_runs, entry.head_runs); runs > entry.pairs) {
    lines.push_back(fmt::format("{} of {} runs have a partner", entry.pairs, runs));
  }
  if (!entry.recipe_diff.empty()) lines.push_back("recipes differ: " + entry.recipe_diff.dump());
  return lines;
}

std::string programs_of(const ComparedSide& side) {
  std::vector<std::string> names;
  for (const std::string& name : side.programs) {  // a commit, and what is to be said of it
    const size_t end = std::min(name.find(','), name.size());
    names.push_back(name.substr(0, std::min<size_t>(end, 12)) + name.substr(end));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string how_compared(const Comparison& comparison, const SideNames& names) {
  return fmt::format("{}/{}: ratios of paired runs; less than {:g} % is the same.", names.head, names.base,
                     100 * comparison.min_effect);
}

// A flag begins with its run's side, as documents call it.
std::string with_side_named(const std::string& flag, const SideNames& names) {
  for (const auto& [side, name] : {std::pair(SideName::base, names.base), std::pair(SideName::head, names.head)}) {
    const std::string word = name_of(side);
    if (flag.starts_with(word + " ")) return name + flag.substr(word.size());
  }
  return flag;
}

}  // namespace

std::string ratio_words(const ComparedRecipe& entry, const SideNames& names, double confidence) {
  const std::string interval =
      entry.lo && entry.hi ? fmt::format(" ({:.4g} %: {})", 100 * confidence, times_between(*entry.lo, *entry.hi)) : "";
  return fmt::format("{} takes {} {}'s time{}", names.head, times(entry.ratio), names.base, interval);
}

std::vector<Remark> remarks_of(const Comparison& comparison, const SideNames& names) {
  std::vector<Remark> remarks;
  std::vector<std::string> flags;
  int64_t runs = 0;
  for (const ComparedRecipe& entry : comparison.entries) {
    std::ranges::copy(entry.flags, std::back_inserter(flags));
    runs += std::ssize(entry.base_runs_ms) + std::ssize(entry.head_runs_ms);
    if (!entry.loss.is_good()) {
      remarks.push_back({Severity::bad, "losses",
                         fmt::format("{}: losses differ: {}", shortened(entry.label, 40), entry.loss.message), ""});
    }
  }
  if (!flags.empty()) {
    const bool few = 10 * std::ssize(flags) < runs;  // medians bear them
    remarks.push_back(
        {few ? Severity::info : Severity::warn, "disturbed",
         fmt::format("{} of {} disturbed: {}.", flags.size(),
                     number_of(std::max(runs, std::ssize(flags)), "run") + (flags.size() == 1 ? " was" : " were"),
                     shortened(with_side_named(flags.front(), names), 120)),
         few ? "" : capitalized(remedy_for(flags)) + " and measure again."});
  }
  if (!comparison.forced.empty()) {
    remarks.push_back({Severity::warn, "circumstances",
                       fmt::format("{}: {}.", names.differs, first_of(comparison.forced, 4, 400)), ""});
  }
  for (const auto& [name, side] : {std::pair(names.base, &comparison.base), std::pair(names.head, &comparison.head)}) {
    if (side->left_out.empty()) continue;
    remarks.push_back({Severity::warn, "left-out",
                       fmt::format("{} of {} left out, not a number: {}", number_of(std::ssize(side->left_out), "run"),
                                   name, side->left_out.front()),
                       ""});
  }
  for (const std::string& warning : comparison.warnings) {
    remarks.push_back({Severity::warn, "warning", capitalized(warning) + ".", ""});
  }
  for (const auto& [side, name] : {std::pair(SideName::base, names.base), std::pair(SideName::head, names.head)}) {
    std::vector<std::string> alone;
    for (const Unmatched& one : comparison.unmatched) {
      if (one.side == side) alone.push_back(shortened(one.label, 40));
    }
    if (!alone.empty()) {
      remarks.push_back(
          {Severity::info, "unmatched", fmt::format("Only {} has {}.", name, first_of(alone, 6, 400)), ""});
    }
  }
  return sorted(std::move(remarks));
}

std::string comparison_table(const Comparison& as_written, const Look& look, const SideNames& names) {
  const Comparison comparison = with_printable_texts(as_written);
  const ComparedSide &base = comparison.base, &head = comparison.head;
  std::string text = "\n" + wrapped(fmt::format("{}: {} ({})", names.base, base.source, programs_of(base)));
  text += wrapped(fmt::format("{}: {} ({})", names.head, head.source, programs_of(head)));
  const size_t label = 26 + columns() - 80;
  const auto row = [&](const std::string& name, const std::string& a, const std::string& b, const std::string& ratio,
                       const std::string& verdict) {
    return fmt::format("{:<{}} {:>8} {:>8}  {:>20}  {:>12}\n", name, label, a, b, ratio, verdict);
  };
  const std::string rule = look.painted(Style::faint, std::string(columns(), '-') + "\n");
  text += "\n" +
          look.painted(Style::faint, row("", fmt::format("{} ms", names.base), fmt::format("{} ms", names.head),
                                         fmt::format("{}/{} [95 %]", names.head, names.base), "")) +
          rule;
  for (const ComparedRecipe& entry : comparison.entries) {
    const std::string ratio = ratio_with_interval(entry);
    const bool fits = ratio.size() <= 20;
    const std::string verdict = verdict_of(entry);
    const std::string numbers = row(shortened(entry.label, label), number(entry.base_ms), number(entry.head_ms),
                                    fits ? ratio : fmt::format("{:.3f}", entry.ratio), verdict);
    text += look.painted(style_of(verdict), numbers, numbers.size() - 1 - verdict.size(), verdict.size());
    if (!fits) text += fmt::format("{:>66}\n", ratio.substr(ratio.find('[')));
    for (const std::string& line : notes(entry, names)) text += look.painted(Style::faint, wrapped("  " + line, "  "));
  }
  return text + rule + wrapped(how_compared(comparison, names));
}

std::string comparison_markdown(const Comparison& comparison) {
  const ComparedSide &base = comparison.base, &head = comparison.head;
  std::string text = fmt::format("base {} ({}), head {} ({})\n\n", markdown(base.source), markdown(programs_of(base)),
                                 markdown(head.source), markdown(programs_of(head)));
  text += "| | base ms | head ms | head/base [95 %] | verdict |\n|---|--:|--:|--:|---|\n";
  for (const ComparedRecipe& entry : comparison.entries) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", markdown(entry.label), number(entry.base_ms),
                        number(entry.head_ms), ratio_with_interval(entry), verdict_of(entry));
  }
  text += "\n";
  for (const ComparedRecipe& entry : comparison.entries) {
    text += fmt::format("- {}: {}\n", markdown(entry.label),
                        markdown(fmt::format("{}", fmt::join(notes(entry, sides_of_programs), "; "))));
  }
  return text + "\n" + markdown(how_compared(comparison, sides_of_programs)) + "\n";
}

}  // namespace plots
