// What the residual stream is kept in.
#include "ablations/techniques/technique.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ablations {

using namespace model;

namespace {

Text residual_text();
std::vector<Claim> residual_claims();

Proof prove_residual(const Recipe& recipe, const RunFacts& facts) {
  const Counts found = facts.observations.residual.value_or(Counts());
  const bool low = recipe.residual == Residual::autocast;
  const std::string dtype = !low || recipe.autocast == Autocast::off ? "Float"
                            : recipe.autocast == Autocast::bf16      ? "BFloat16"
                                                                     : "Half";
  std::vector<std::string> observed;
  for (const auto& [name, tensors] : found) observed.push_back(fmt::format("{} {}", tensors, name));
  return {"residual", found.size() == 1 && found.contains(dtype),
          fmt::format("{} from the embedding, every LayerNorm and every addition", dtype),
          fmt::format("{} tensors of the residual stream", fmt::join(observed, ", "))};
}

}  // namespace

Technique residual() {
  return {
      .field = "residual",
      .optimizations = {{.name = "residual16",
                         .title = "16-bit residual stream",
                         .summary = "What the blocks add to one another, and LayerNorm with it, stays in autocast's "
                                    "16-bit type, where PyTorch's autocast keeps float32: half the bytes, and no "
                                    "conversion before each matrix product.",
                         .edit =
                             [](Recipe& r, const harness::Machine&) {
                               r.residual = r.autocast == Autocast::off ? Residual::float32 : Residual::autocast;
                             },
                         .text = residual_text(),
                         .claims = residual_claims()}},
      .obstacle = [](const Recipe& recipe, const harness::Machine&) -> std::string {
        const bool impossible = recipe.residual == Residual::autocast && recipe.autocast == Autocast::off;
        return impossible ? "residual autocast needs autocast bf16 or fp16" : "";
      },
      .prove = prove_residual,
  };
}

// ---- In words

namespace {

Text residual_text() {
  return {
      .mechanism = R"(Each block adds its results to a stream of B x T x C numbers that goes from the embedding to the
last LayerNorm. Under autocast PyTorch keeps it in float32. Here the embedding's result is converted once, and LayerNorm
and the additions read and write autocast's 16-bit type. Bytes for each number of the stream, forward, at each of the
two LayerNorms of a block:

                            float32    16 bits
    LayerNorm reads            4          2
    LayerNorm writes           4          2
    conversion                 4 + 2      -
    addition reads             4 + 2      2 + 2
    addition writes            4          2
    together                  24         10)",
      .faster = R"(These operations compute little, so their time is their traffic. For GPT-2 124M it falls from 442 to
184 KB a token in the forward pass. The conversion before each matmul is gone.)",
      .costs = R"(Accuracy: in bfloat16 a number has 8 bits, so that 1 + 1/512 is 1 again, and small results of a block
may be lost in a large stream. On a CPU the gradients of LayerNorm's weight and bias are summed up in 16 bits, too. The
guard allows autocast's 0.01 nats. LayerNorm keeps half as much.)",
      .no_help =
          R"(Without autocast it changes nothing. It gains little where matmuls take nearly all of the time, as in wider
models: their work grows with C squared, the stream with C.)",
      .pytorch =
          R"(x = (wte(tokens) + wpe(positions)).to(torch.bfloat16)    # and LayerNorm with autocast off, weights in bfloat16)",
      .proven =
          R"(Every result of the embedding, of each LayerNorm and of each addition is looked at in one step: all of
them must have the 16-bit type.)",
      .alone = R"(ladder ablate --ladder gpt2 --mode factorial --factors bf16,residual16)"};
}

std::vector<Claim> residual_claims() {
  return {{.claim = "1.86x on an RTX 4090, with weights and activations in bfloat16",
           .source = sources::llm_c,
           .note = "There everything is bfloat16; the residual stream is a part of it.",
           .command = "ladder ablate --ladder gpt2 --mode factorial --factors bf16,residual16"}};
}

}  // namespace

}  // namespace ablations
