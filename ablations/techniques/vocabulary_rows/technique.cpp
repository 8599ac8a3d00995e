// How many rows the embedding has.
#include "ablations/techniques/technique.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

// To the next multiple of 128: 50257 -> 50304.
int64_t padded(int64_t rows) { return (rows + 127) / 128 * 128; }

Proof prove_rows(const Recipe& recipe, const RunFacts& facts) {
  const int64_t observed = facts.observations.logits.columns;
  return {"vocabulary_rows", observed == recipe.vocabulary_rows,
          fmt::format("{} columns of logits", recipe.vocabulary_rows), fmt::format("{} columns of logits", observed)};
}

}  // namespace

Technique vocabulary_rows() {
  return {
      .field = "vocabulary_rows",
      .optimizations =
          {{.name = "vocab",
            .title = "vocabulary 50304",
            .summary = "The embedding gets 47 rows that no token uses, so that its matrix products divide evenly into "
                       "tiles. The loss at the start rises by ln(50304/50257) = 0.0009, because the softmax has 47 "
                       "more terms.",
            .edit = [](Recipe& r, const harness::Machine&) { r.vocabulary_rows = padded(r.vocabulary_rows); }}},
      .prove = prove_rows,
  };
}

}  // namespace ablations
