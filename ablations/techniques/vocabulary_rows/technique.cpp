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
      .mechanism =
          R"(GPT-2 knows 50,257 tokens, 29 x 1,733, an odd number. The embedding, which is also the last matmul's
factor, gets 47 more rows: 50,304 = 128 x 393. In 16 bits a row of 50,257 logits has 100,514 bytes, so most rows do not
begin at a multiple of 16 bytes, and a kernel cannot load 16 bytes at once. A row of 50,304 has 100,608 bytes = 16 x
6,288. No token has the number of a new row, so training only makes their logits small.)",
      .faster =
          R"(cuBLAS has faster kernels for rows that begin at multiples of 16 bytes. The matmuls with this matrix are
31 % of all multiplications with weights: 38.6 of 123.5 million for each token. On an H200 cuBLAS takes an unaligned
kernel for Turing at 50,257 columns (`cutlass_75_tensorop_bf16_..._align1`): 30 of the 69 ms of a step, for three
matmuls that take 5 ms when padded. That is the whole 1.56x. The traced rungs before it have the same kernel, so their
ratios would be larger with the vocabulary padded first.)",
      .costs = R"(36,096 weights more (0.03 %). The loss at the start rises by ln(50304/50257) = 0.0009 nats; the guard
does not count that. Who samples text must leave the new rows out.)",
      .no_help =
          R"(It gains nothing where a size is a multiple of 8 already (of 4 in float32), and where the library copies
what is not aligned or does not mind. On the CPUs in results/evidence it brings next to nothing. Odd numbers elsewhere
need not matter: GPT-2 1558M has 25 heads, and its rows of 25 x 64 numbers are aligned.)",
      .pytorch = R"(model = GPT(GPTConfig(vocab_size=50304))    # 50257 tokens)",
      .proven = R"(The logits have 50,304 columns.)"};
}

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
