// How the gradients of query, key and value become the gradient of their product.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Text qkv_gradient_text();

std::string qkv_gradient_obstacle(const Recipe& recipe, const harness::Machine& machine) {
  if (recipe.qkv_gradient == QkvGradient::separate) return "";
  if (recipe.device == Device::cpu) return "the joined QKV gradient is a kernel for a GPU";
  if (recipe.qkv_products == QkvProducts::three)
    return "the joined QKV gradient needs query, key and value as one product";
  if (recipe.attention == Attention::packed)
    return "packed attention joins the gradients of query, key and value itself";
  return fused_obstacle(recipe, machine);
}

Proof prove_qkv_gradient(const Recipe& recipe, const RunFacts& facts) {
  const int64_t found = nodes_of(facts.observations.backward_nodes, "JoinedThirds");
  const int64_t expected = recipe.qkv_gradient == QkvGradient::joined ? facts.attentions : 0;
  return {"qkv_gradient", found == expected, fmt::format("{} JoinedThirds", expected),
          fmt::format("{} JoinedThirds", found)};
}

}  // namespace

Technique qkv_gradient() {
  return {
      .field = "qkv_gradient",
      .optimizations = {{.name = "joined_qkv_gradient",
                         .title = "joined QKV gradient",
                         .summary = "Attention gives three gradients, of query, key and value. One pass puts them side "
                                    "by side for their matrix product, and sums them for the bias on the way.",
                         .edit = [](Recipe& r, const harness::Machine&) { r.qkv_gradient = QkvGradient::joined; },
                         .text = qkv_gradient_text(),
                         .replaces = {"qkv"},
                         .by = "joined"}},
      .obstacle = qkv_gradient_obstacle,
      .prove = prove_qkv_gradient,
  };
}

// ---- In words

namespace {

Text qkv_gradient_text() {
  return {
      .mechanism = R"(Query, key and value come from one matmul with 3C results for each token. Attention's
backward pass gives a gradient for each of the three. The matmul's backward pass needs them as one matrix, and the
gradient of its bias is the sum of that matrix over all tokens. PyTorch copies the three into one matrix (at::cat) and
reads it again for the sum. Passes over B x T x 3C numbers:

                      separate    joined
    the three are read    1          1
    one is written        1          1
    it is read for a sum  1          -)",
      .faster = R"(The sum costs no pass of its own: its numbers are in registers already.)",
      .costs = R"(A kernel of our own instead of PyTorch's copy. The sum has a fixed order.)",
      .no_help =
          R"(Packed attention writes the three side by side itself, and a CPU gains nothing. On a GPU the copy and the
sum are a small part of a step: on an H200 the copies of all layers take 0.45 of 29 ms, and the sums of all biases 1.0.
No GPU has timed it yet.)",
      .pytorch = R"(q, k, v = F.linear(x, weight, bias).chunk(3, -1)    # what it takes the place of)",
      .proven = R"(Autograd's graph has one node of the joined gradient for each layer and micro-step.)",
      .alone = R"(ladder run --ladder qkv --rung packed_qkv
ladder run --ladder qkv --rung joined_qkv_gradient)"};
}

}  // namespace

}  // namespace ablations
