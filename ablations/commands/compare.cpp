// `ladder compare`: two sides' records against each other.
#include "ablations/gate/compare.h"

#include "ablations/commands/commands.h"
#include "ablations/report/comparison.h"

#include <fmt/format.h>

namespace ablations {

int compare(const CompareFlags& flags) {
  const Comparison comparison = compare_sides(read_side(flags.base), read_side(flags.head),
                                              {.min_effect = flags.min_effect, .force = flags.force});
  fmt::print("{}\n", flags.json       ? files::ascii_text(json_of(comparison))
                     : flags.markdown ? comparison_markdown(comparison)
                                      : comparison_table(comparison, standard_output()));
  return 0;
}

}  // namespace ablations
