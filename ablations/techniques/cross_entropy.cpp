// How the loss and the gradient of the logits are computed.
#include "ablations/techniques/technique.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Text text();
std::vector<Claim> claims();

Proof prove_loss(const Recipe& recipe, const RunFacts& facts) {
  const Counts& nodes = facts.observations.backward_nodes;
  int64_t in_place = 0;
  for (const auto& [name, calls] : nodes) {
    if (name.find("InPlaceCrossEntropy") != std::string::npos) in_place += calls;
  }
  const int64_t aten = count(nodes, "NllLossBackward0");
  const std::string observed = fmt::format("{} nodes of ATen's loss, {} of the one in place", aten, in_place);
  if (recipe.cross_entropy == CrossEntropy::aten) {
    return {"cross_entropy", aten > 0 && in_place == 0, "ATen's nodes only", observed};
  }
  return {"cross_entropy", aten == 0 && in_place > 0, "nodes of the loss in place only", observed};
}

}  // namespace

Technique cross_entropy() {
  return {
      .field = "cross_entropy",
      .optimizations =
          {{.name = "in_place_loss",
            .title = "in-place loss",
            .summary = "The gradient of the loss is written over the log-probabilities of the forward pass, number by "
                       "number. PyTorch's own steps lead there by further matrices of B x T x V numbers, in float32 "
                       "under autocast.",
            .edit = [](Recipe& r, const harness::Machine&) { r.cross_entropy = CrossEntropy::in_place; },
            .text = text(),
            .claims = claims()}},
      .prove = prove_loss,
  };
}

// ---- In words

namespace {

Text text() {
  return {
      .mechanism = R"(The loss is the mean of -log p[target] over N tokens, where p is the softmax of the logits. Its
gradient by the logits is (p - 1) / N at the target and p / N elsewhere. So each number of the gradient follows from the
log-probability in the same place, and can be written over it. With N = 1, three words, and the first as target:

    logits         2.000    1.000    0.000
    log p         -0.408   -1.408   -2.408    what the forward pass keeps
    gradient      -0.335    0.245    0.090    exp of that, minus 1 at the target

PyTorch's own steps get there by more matrices of B x T x V numbers. Under autocast on a GPU they convert the
log-probabilities to float32, write a float32 matrix of zeros with one entry in each row, convert that to 16 bits, and
make the gradient from it. At B=16, T=1024 and V=50,304 such a matrix has 824 million numbers: 1.6 GB in 16 bits, 3.3 GB
in float32.)",
      .faster = R"(The loss does little arithmetic, so its time is the traffic of these matrices. Fewer of them are
written and read.)",
      .costs = R"(Memory falls by the matrices that are not made. The gradient takes the place of what the backward pass
needs, so that the backward pass can be made only once. The entries of the targets are computed from float32 copies of
their log-probabilities, and may be rounded differently.)",
      .no_help = R"(Where B x T x V is small beside the model: a small vocabulary, or few tokens in a step. It makes no
difference to the matrix product before it.)",
      .pytorch = R"(loss = F.cross_entropy(logits.view(-1, V), targets.view(-1))    # what it takes the place of
# PyTorch has no switch for it; libraries of fused losses, such as Liger Kernel, do the same)",
      .proven = R"(Autograd's graph of a step has nodes of this loss, and none of PyTorch's `nll_loss`.)"};
}

std::vector<Claim> claims() {
  return {{.claim = "loss and gradient in one kernel, in place over the logits: 6 -> 3.7 ms",
           .source = sources::llm_c,
           .note = "One kernel there, several operations of ATen here.",
           .command = "ladder profile --diff in_place_loss --ladder gpt2"}};
}

}  // namespace

}  // namespace ablations
