// `ladder compare`: two sides' records against each other.
#include "study/gate/compare.h"

#include "cli/commands.h"
#include "plots/comparison.h"
#include "plots/sentences.h"

#include <fmt/format.h>

namespace ablations {

int compare(const CompareFlags& flags) {
  const Comparison comparison = compare_sides(read_side(flags.base), read_side(flags.head),
                                              {.min_effect = flags.min_effect, .force = flags.force});
  const std::vector<Remark> remarks = remarks_of(comparison, sides_of_programs);
  const Look& look = standard_output();
  fmt::print("{}\n", flags.json       ? files::ascii_text(json_of(comparison))
                     : flags.markdown ? comparison_markdown(comparison) + "\n" + remarks_markdown(remarks)
                                      : comparison_table(comparison, look) + remarks_text(remarks, look));
  return 0;
}

}  // namespace ablations
