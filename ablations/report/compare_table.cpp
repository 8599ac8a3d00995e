#include "ablations/report/compare_table.h"

#include "ablations/report/comparison_words.h"
#include "ablations/text/figures.h"
#include "ablations/text/markdown.h"
#include "ablations/text/text.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

namespace ablations {

namespace {

std::string ratio_with_interval(const ComparedRatio& ratio) {
  std::string center = fmt::format("{:.3f}", ratio.ratio);
  return ratio.lo ? fmt::format("{} [{:.3f}-{:.3f}]", center, *ratio.lo, *ratio.hi) : center;
}

std::string memory_words(const std::optional<ComparedMemory>& memory) {
  if (!memory) return "";
  const std::string verdict =
      memory->lo ? fmt::format(" ({} by pairs, {:.3f})", name_of(memory->verdict), memory->ratio) : "";
  return fmt::format("; peak memory {:.2f} to {:.2f} GiB at most{}", gib(memory->base_bytes), gib(memory->head_bytes),
                     verdict);
}

// The lines below an entry's row.
std::vector<std::string> notes(const ComparedRecipe& entry, const SideNames& names) {
  std::vector<std::string> lines{fmt::format("{} (sign test p = {}); {}{}", pairs_words(entry, names),
                                             plain(entry.sign_test_p), losses_words(entry.loss),
                                             memory_words(entry.memory))};
  if (const std::string sessions = sessions_words(entry, names); !sessions.empty()) {
    lines.push_back(sessions + " of one program; the interval holds 1 for 95 % of its further sessions");
  } else if (entry.pairs == 1) {
    lines.emplace_back("one pair has no interval, so no verdict; more runs give one");
  }
  if (const int64_t runs = std::max(entry.base_runs, entry.head_runs); runs > entry.pairs) {
    lines.push_back(fmt::format("{} of {} runs have a partner", entry.pairs, runs));
  }
  if (!entry.recipe_diff.empty()) lines.push_back("recipes differ: " + entry.recipe_diff.dump());
  if (const std::string words = disturbed_words(entry, names); !words.empty()) {
    lines.push_back("! " + words);
  }
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

std::vector<std::string> closing(const Comparison& comparison, const SideNames& names) {
  std::vector<std::string> lines;
  for (const Unmatched& one : comparison.unmatched) {
    const char* side = one.side == SideName::base ? names.base : names.head;
    lines.push_back(fmt::format("only {}{} has {}", names.article, side, one.label));
  }
  std::ranges::copy(left_out_lines(comparison, names), std::back_inserter(lines));
  std::ranges::copy(comparison.warnings, std::back_inserter(lines));
  std::ranges::copy(difference_lines(comparison, names), std::back_inserter(lines));
  return lines;
}

std::string band(const Comparison& comparison) {
  const double most = 1 + comparison.min_effect;
  return fmt::format("Least effect that matters: {:g} %, so the same is {:.3f} to {:.3f}.", 100 * comparison.min_effect,
                     1 / most, most);
}

}  // namespace

std::string comparison_table(const Comparison& as_written, const Look& look, const SideNames& names) {
  const Comparison comparison = with_printable_texts(as_written);
  const ComparedSide &base = comparison.base, &head = comparison.head;
  std::string text = "\n" + wrapped(fmt::format("{} {} ({})", names.base, base.source, programs_of(base)));
  text += wrapped(fmt::format("{} {} ({})", names.head, head.source, programs_of(head)));
  constexpr const char* row = "{:<26} {:>8} {:>8}  {:>20}  {:>12}\n";
  const std::string rule = look.painted(Style::faint, std::string(columns, '-') + "\n");
  const std::string heads = fmt::format(row, "", fmt::format("{} ms", names.base), fmt::format("{} ms", names.head),
                                        fmt::format("{}/{} [95 %]", names.head, names.base), "");
  text += "\n" + look.painted(Style::faint, heads) + rule;
  for (const ComparedRecipe& entry : comparison.entries) {
    const std::string ratio = ratio_with_interval(entry);
    const bool fits = ratio.size() <= 20;
    const std::string verdict = name_of(entry.verdict);
    const std::string numbers =
        fmt::format(row, files::shortened(entry.label, 26), number(entry.base_ms), number(entry.head_ms),
                    fits ? ratio : fmt::format("{:.3f}", entry.ratio), verdict);
    text += look.painted(style_of(verdict), numbers, numbers.size() - 1 - verdict.size(), verdict.size());
    if (!fits) text += fmt::format("{:>66}\n", ratio.substr(ratio.find('[')));
    for (const std::string& line : notes(entry, names)) {
      text += look.painted(line.starts_with("!") ? Style::caution : Style::plain, wrapped("  " + line, "  "));
    }
  }
  text += rule + wrapped(band(comparison));
  for (const std::string& line : closing(comparison, names)) text += wrapped(line, "  ");
  return text;
}

std::string comparison_markdown(const Comparison& comparison) {
  const ComparedSide &base = comparison.base, &head = comparison.head;
  std::string text = fmt::format("base {} ({}), head {} ({})\n\n", markdown(base.source), markdown(programs_of(base)),
                                 markdown(head.source), markdown(programs_of(head)));
  text += "| | base ms | head ms | head/base [95 %] | verdict |\n|---|--:|--:|--:|---|\n";
  for (const ComparedRecipe& entry : comparison.entries) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", markdown(entry.label), number(entry.base_ms),
                        number(entry.head_ms), ratio_with_interval(entry), name_of(entry.verdict));
  }
  text += "\n";
  for (const ComparedRecipe& entry : comparison.entries) {
    text += fmt::format("- {}: {}\n", markdown(entry.label),
                        markdown(fmt::format("{}", fmt::join(notes(entry, sides_of_programs), "; "))));
  }
  text += "\n" + band(comparison) + " " + markdown(how_compared(comparison, sides_of_programs)) + "\n";
  for (const std::string& line : closing(comparison, sides_of_programs)) text += "\n" + markdown(line) + "\n";
  return text;
}

}  // namespace ablations
