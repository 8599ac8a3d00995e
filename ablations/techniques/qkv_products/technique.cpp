// Whether query, key and value are one matrix product or three.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Text qkv_products_text();
std::vector<Claim> qkv_products_claims();

Proof prove_qkv_products(const Recipe& recipe, const RunFacts& facts) {
  const int64_t in_a_block = linear_layers(recipe), expected = in_a_block * facts.attentions;
  const Counts& nodes = facts.observations.backward_nodes;
  const char* node = linear_node(recipe);
  const int64_t found = nodes_of(nodes, node);
  return {"qkv_products", found == expected, fmt::format("{} {}, {} for each attention", expected, node, in_a_block),
          fmt::format("{} {}", found, node)};
}

// Three products each convert their input for themselves, if it is not of their type.
void amend_qkv_products(const StepSizes& s, StepTable& table) {
  const bool converts = s.recipe.qkv_products == QkvProducts::three && s.normed > s.low;
  if (converts) table.at("c_attn").kept += 2 * s.BTC * s.low;
}

}  // namespace

Technique qkv_products() {
  return {
      .field = "qkv_products",
      .optimizations =
          {{.name = "packed_qkv",
            .title = "packed QKV product",
            .summary =
                "Query, key and value are one matrix product with a weight of 3C rows, instead of three products "
                "with C rows each. The input is read once, and one large product keeps a processor busier than "
                "three small ones.",
            .edit = [](Recipe& r, const harness::Machine&) { r.qkv_products = QkvProducts::one; },
            .text = qkv_products_text(),
            .claims = qkv_products_claims()}},
      .amend = amend_qkv_products,
      .prove = prove_qkv_products,
  };
}

// ---- In words

namespace {

Text qkv_products_text() {
  return {
      .mechanism = R"(Attention needs a query, a key and a value for each token. Each is a product of the same input,
B x T rows of C numbers, with a weight of its own, C x C. Stacked, the three weights are one of 3C x C, and one product
makes all three: the first C columns of its result are the queries, then come the keys and the values. Each number is
the sum of the same C terms as before. In GPT-2 124M at B=16, T=1024:

                          three products        one product
    input, read           3 x 16,384 x 768      16,384 x 768
    weight                3 x 768 x 768         2,304 x 768
    result                3 x 16,384 x 768      16,384 x 2,304
    tiles of 128 x 128    3 x 768               2,304)",
      .faster =
          R"(The input is read once and not three times: 25 MB each time, in 16 bits. Fewer multiprocessors of a GPU
wait at the end. An A100 has 108 of them. If each computes one tile at a time, 768 tiles take 8 rounds, the last with 12
tiles only, so three products take 24 rounds. One product of 2,304 tiles takes 22. In the backward pass the gradient of
the input comes out of one product, where three would have to be added up. Under autocast the input is converted once,
where each of three products converts it for itself.)",
      .costs = R"(The results lie side by side: each token's query is followed by its key and its value. Attention reads
them so, or copies them first. In the backward pass the gradients of the three are put side by side, which reads and
writes each of them once. The gradient of the input is summed up in another order, so losses differ in their last
digits. Memory falls under autocast, by two copies of the input in each layer.

The model keeps its weight packed in either case. So with three products the gradients of its thirds are put together,
7 MB in each layer, which a model with three weights does not have to do.)",
      .no_help = R"(Where each of the three products fills the device by itself. In GPT-2 124M they are 17 % of the
multiplications with weights (21.2 of 123.5 million for each token). So the 22 rounds above instead of 24 make a step
about 1 % shorter.)",
      .pytorch = R"(q, k, v = self.c_attn(x).split(C, dim=-1)    # c_attn = nn.Linear(C, 3 * C)
# was: q, k, v = self.q(x), self.k(x), self.v(x)    # nn.Linear(C, C) each)",
      .proven = R"(Autograd's graph of a step has a node for each product with a bias. There must be four in each block:
this one, attention's projection and the two of the MLP. With three products there must be six.)"};
}

std::vector<Claim> qkv_products_claims() {
  return {{.claim = "about 4 % to 5 % more tokens/s",
           .source = {"llama.cpp, pull request 16813; inference of Qwen3 models with 4-bit weights, RTX 4090",
                      "https://github.com/ggml-org/llama.cpp/pull/16813"},
           .note = "Here it is a step of training."},
          {.claim = "1.08x and 1.13x, two small models",
           .source = {"llama2.c, pull request 55; inference in plain C on a CPU",
                      "https://github.com/karpathy/llama2.c/pull/55"},
           .device = Device::cpu,
           .note = "There each product has one row, a single token. Here it is a step of training.",
           .command = "ladder ablate --ladder qkv"}};
}

}  // namespace

}  // namespace ablations
