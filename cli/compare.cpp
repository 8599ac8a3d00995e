// `ladder compare`: two sides' records against each other.
#include "study/gate/compare.h"

#include "cli/command.h"
#include "harness/stats/verdict.h"
#include "plots/comparison_text.h"
#include "plots/sentences.h"

#include <fmt/format.h>

#include <algorithm>

namespace cli {

namespace {

struct CompareFlags {
  std::string base, head;
  double min_effect = harness::usual_min_effect;
  bool force = false, json = false, markdown = false;
};

int print_comparison(const CompareFlags& flags) {
  const Comparison comparison = compare_sides(read_side(flags.base), read_side(flags.head),
                                              {.min_effect = flags.min_effect, .force = flags.force});
  const std::vector<Remark> remarks = remarks_of(comparison, sides_of_programs);
  const Look& look = standard_output();
  fmt::print("{}\n", flags.json       ? files::ascii_text(json_of(comparison))
                     : flags.markdown ? comparison_markdown(comparison) + "\n" + remarks_markdown(remarks)
                                      : comparison_table(comparison, look) + remarks_text(remarks, look));
  const auto is_usable = [](const ComparedRecipe& entry) { return entry.unusable.empty(); };
  return std::ranges::any_of(comparison.entries, is_usable) ? 0 : 3;
}

}  // namespace

void add_compare(CommandLine& line) {
  Command& command = line.add(
      {.name = "compare",
       .about =
           "Pairs the runs of two sides. For each recipe it gives the ratio of a step's time, HEAD over BASE, with "
           "an interval and a verdict: REGRESSION, IMPROVEMENT, SAME or INCONCLUSIVE against the least difference that "
           "matters. Compares losses and memory, too. Measures and writes nothing. The exit status is 0 even if there "
           "are differences, and 3 if nothing can be compared: fewer than 4 pairs, half of the runs disturbed, or an "
           "interval whose ends are ten-fold apart. Refuses sides measured under different circumstances, such as on "
           "another GPU.",
       .examples = {
           {"ladder compare before after", "Two studies, rung by rung."},
           {"ladder compare --min-effect 5 before/records after/records", "Only differences of 5 % or more matter."},
           {"ladder compare --markdown before after", "The table for a pull request."}}});
  auto& flags = command.runs<CompareFlags>(print_comparison);
  command.heading("Arguments");
  add_text(command, "base", flags.base, "the old side: a record, a study or a folder of records", "PATH")->required();
  add_text(command, "head", flags.head, "the new side", "PATH")->required();
  command.heading("How to compare");
  add_min_effect_flag(command, flags.min_effect, "difference");
  command.add_flag("--force", flags.force, "compare even if the circumstances differ, and say so");
  command.heading("What to print");
  command.add_flag("--json", flags.json, "for programs");
  command.add_flag("--markdown", flags.markdown, "for a page");
  command.exclude("--json", {"--markdown"});
}

}  // namespace cli
