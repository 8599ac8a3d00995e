// How many rows the embedding has.
#include "ablations/techniques/technique.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

std::vector<Claim> vocabulary_rows_claims();

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
            .edit = [](Recipe& r, const harness::Machine&) { r.vocabulary_rows = padded(r.vocabulary_rows); },
            .claims = vocabulary_rows_claims()}},
      .prove = prove_rows,
  };
}

// ---- What others claim

namespace {

std::vector<Claim> vocabulary_rows_claims() {
  return {
      {.claim = "96 -> 93 ms per step, \"4 %\"",
       .source = sources::lecture,
       .about = Claim::About::step,
       .least = 96.0 / 93,
       .most = 96.0 / 93,
       .note =
           "From 96 to 93 is 3 % less. Here cuBLAS takes an unaligned kernel for Turing without padding: 30 of 69 ms."},
      {.claim = "113 -> 87 ms per step, \"about 25 %\"; compiled, with flash attention",
       .source = sources::blog,
       .about = Claim::About::step,
       .least = 113.0 / 87,
       .most = 113.0 / 87,
       .note = "From 113 to 87 is 23 % less."}};
}

}  // namespace

}  // namespace ablations
