#include "ablations/report/compare_table.h"

#include "ablations/text/markdown.h"
#include "ablations/text/text.h"
#include "files/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace ablations {

namespace {

std::string ratio_with_interval(const ComparedRatio& ratio) {
  std::string center = fmt::format("{:.3f}", ratio.ratio);
  return ratio.lo ? fmt::format("{} [{:.3f}-{:.3f}]", center, *ratio.lo, *ratio.hi) : center;
}

std::string loss_words(const ComparedLoss& loss) {
  if (!loss.is_good()) return "LOSSES DIFFER: " + loss.message;
  return loss.message.empty() ? "losses agree" : loss.message;  // an older program said no more of them
}

std::string memory_words(const std::optional<ComparedMemory>& memory) {
  if (!memory) return "";
  const std::string verdict =
      memory->lo ? fmt::format(" ({} by pairs, {:.3f})", name_of(memory->verdict), memory->ratio) : "";
  return fmt::format("; peak memory {:.2f} to {:.2f} GiB at most{}", gib(memory->base_bytes), gib(memory->head_bytes),
                     verdict);
}

// The lines below an entry's row.
std::vector<std::string> notes(const ComparedRecipe& entry) {
  std::vector<std::string> lines{fmt::format("{}slower in {} of {} pair{} (sign test p = {:.2g}); {}{}",
                                             entry.sessions ? "with the baseline's own runs: " : "", entry.slower_pairs,
                                             entry.pairs, entry.pairs == 1 ? "" : "s", entry.sign_test_p,
                                             loss_words(entry.loss), memory_words(entry.memory))};
  if (entry.sessions) {
    lines.push_back(
        fmt::format("base: the mean of {} sessions of one program; the interval holds 1 for 95 % of its "
                    "further sessions",
                    *entry.sessions));
  } else if (entry.pairs == 1) {
    lines.emplace_back("one pair has no interval, so no verdict; more runs give one");
  }
  if (const int64_t runs = std::max(entry.base_runs, entry.head_runs); runs > entry.pairs) {
    lines.push_back(fmt::format("{} of {} runs have a partner", entry.pairs, runs));
  }
  if (!entry.recipe_diff.empty()) lines.push_back("recipes differ: " + entry.recipe_diff.dump());
  if (const auto& flags = entry.flags; !flags.empty()) {
    lines.push_back(fmt::format("! {} of the runs {} disturbed: {}", flags.size(), flags.size() == 1 ? "was" : "were",
                                flags.front()));
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

std::vector<std::string> closing(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const Unmatched& one : comparison.unmatched) {
    lines.push_back(fmt::format("only {} has {}", name_of(one.side), one.label));
  }
  for (const auto& [name, side] : {std::pair("base", &comparison.base), std::pair("head", &comparison.head)}) {
    const auto& left_out = side->left_out;
    if (left_out.empty()) continue;
    lines.push_back(fmt::format("{} run{} of {} left out, not a number: {}", left_out.size(),
                                left_out.size() == 1 ? "" : "s", name, left_out.front()));
  }
  lines.insert(lines.end(), comparison.warnings.begin(), comparison.warnings.end());
  for (const std::string& line : comparison.forced) {
    lines.push_back("FORCED: measured under different circumstances: " + line);
  }
  return lines;
}

std::string band(const Comparison& comparison) {
  const double most = 1 + comparison.min_effect;
  return fmt::format("Least effect that matters: {:g} %, so the same is {:.3f} to {:.3f}.", 100 * comparison.min_effect,
                     1 / most, most);
}

}  // namespace

std::string comparison_table(const Comparison& as_written, const Look& look) {
  const Comparison comparison = with_printable_texts(as_written);
  const ComparedSide &base = comparison.base, &head = comparison.head;
  std::string text = "\n" + wrapped(fmt::format("base {} ({})", base.source, programs_of(base)));
  text += wrapped(fmt::format("head {} ({})", head.source, programs_of(head)));
  constexpr const char* row = "{:<26} {:>8} {:>8}  {:>20}  {:>12}\n";
  const std::string rule = look.painted(Style::faint, std::string(columns, '-') + "\n");
  text += "\n" + look.painted(Style::faint, fmt::format(row, "", "base ms", "head ms", "head/base [95 %]", "")) + rule;
  for (const ComparedRecipe& entry : comparison.entries) {
    const std::string ratio = ratio_with_interval(entry);
    const bool fits = ratio.size() <= 20;
    const std::string verdict = name_of(entry.verdict);
    const std::string numbers =
        fmt::format(row, files::shortened(entry.label, 26), number(entry.base_ms), number(entry.head_ms),
                    fits ? ratio : fmt::format("{:.3f}", entry.ratio), verdict);
    text += look.painted(style_of(verdict), numbers, numbers.size() - 1 - verdict.size(), verdict.size());
    if (!fits) text += fmt::format("{:>66}\n", ratio.substr(ratio.find('[')));
    for (const std::string& line : notes(entry)) {
      text += look.painted(line.starts_with("!") ? Style::caution : Style::plain, wrapped("  " + line, "  "));
    }
  }
  text += rule + wrapped(band(comparison));
  text += wrapped(comparison.method + ".");
  for (const std::string& line : closing(comparison)) text += wrapped(line, "  ");
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
    text +=
        fmt::format("- {}: {}\n", markdown(entry.label), markdown(fmt::format("{}", fmt::join(notes(entry), "; "))));
  }
  text += "\n" + band(comparison) + " " + markdown(comparison.method) + ".\n";
  for (const std::string& line : closing(comparison)) text += "\n" + markdown(line) + "\n";
  return text;
}

}  // namespace ablations
