// How many rows the embedding has.
#include "ablations/techniques/technique.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Text vocabulary_rows_text();
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
            .text = vocabulary_rows_text(),
            .claims = vocabulary_rows_claims()}},
      .prove = prove_rows,
  };
}

// ---- In words

namespace {

Text vocabulary_rows_text() {
  return {
      .mechanism = R"(GPT-2 knows 50,257 tokens, 29 x 1,733, an odd number. The embedding, which is the last matrix
product's factor as well, gets 47 more rows: 50,304 = 128 x 393. In 16 bits a row of 50,257 logits has 100,514 bytes, so
most rows do not begin at a multiple of 16 bytes, and a kernel cannot load 16 bytes at once. A row of 50,304 has 100,608
bytes = 16 x 6,288. Tiles of 128 columns are as many as before, 393, but the last of them is whole.

The new rows begin as others do. No token has their number, so training only makes their logits small.)",
      .faster = R"(cuBLAS has faster kernels for rows that begin at multiples of 16 bytes. The product with this matrix
is 31 % of all multiplications with weights: 38.6 of 123.5 million for each token.)",
      .costs = R"(36,096 weights more (0.03 %), and 0.1 % more work in that product. The loss at the start rises by
ln(50304/50257) = 0.0009 nats, since the softmax has 47 terms more; the guard does not count that. Who samples text must
leave the new rows out.)",
      .no_help = R"(Where a size is a multiple of 8 already (of 4 in float32), and where the library copies what is not
aligned or does not mind. On the CPUs in results/evidence it brings next to nothing, on an H200 1.56x.
Odd numbers elsewhere need not matter: GPT-2 1558M has 25 heads, and its rows of 25 x 64 numbers are aligned.)",
      .pytorch = R"(model = GPT(GPTConfig(vocab_size=50304))    # 50257 tokens)",
      .proven = R"(The logits have 50,304 columns.)"};
}

std::vector<Claim> vocabulary_rows_claims() {
  return {{.claim = "96 -> 93 ms per step, \"4 %\"",
           .source = sources::lecture,
           .about = Claim::About::step,
           .least = 96.0 / 93,
           .most = 96.0 / 93,
           .note = "From 96 to 93 is 3 % less."},
          {.claim = "113 -> 87 ms per step, \"about 25 %\"; compiled, with flash attention",
           .source = sources::blog,
           .about = Claim::About::step,
           .least = 113.0 / 87,
           .most = 113.0 / 87,
           .note = "From 113 to 87 is 23 % less."}};
}

}  // namespace

}  // namespace ablations
