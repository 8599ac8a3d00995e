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
      .mechanism = R"(Attention needs a query, a key and a value for each token. Each is a matmul of the same input,
B x T rows of C numbers, by a weight of its own, C x C. Stacked, the three weights are one of 3C x C, and one matmul
computes all three: the first C columns of its result are the queries, then come the keys and the values. Each number is
the sum of the same C terms as before. In GPT-2 124M at B=16, T=1024:

                          three matmuls         one matmul
    input, read           3 x 16,384 x 768      16,384 x 768
    weight                3 x 768 x 768         2,304 x 768
    result                3 x 16,384 x 768      16,384 x 2,304
    tiles of 128 x 128    3 x 768               2,304)",
      .faster =
          R"(The input is read once and not three times: 25 MB each time, in 16 bits. Fewer multiprocessors of a GPU
wait at the end: on an A100 with its 108, three matmuls of 768 tiles take 24 rounds, one of 2,304 tiles 22. In the
backward pass the gradient of the input comes out of one matmul. Under autocast the input is converted once.)",
      .costs = R"(In the backward pass the gradients of the three are put side by side, which reads and writes each of
them once. Memory falls under autocast, by two copies of the input in each layer. With three matmuls the model still
keeps one packed weight, so the gradients of its thirds are put together, 7 MB in each layer.)",
      .no_help =
          R"(It gains little where each of the three matmuls fills the device by itself. In GPT-2 124M they are 17 % of
the multiplications with weights (21.2 of 123.5 million for each token), so the 22 rounds above instead of 24 shorten a
step by about 1 %.)",
      .pytorch = R"(q, k, v = self.c_attn(x).split(C, dim=-1)    # c_attn = nn.Linear(C, 3 * C)
# was: q, k, v = self.q(x), self.k(x), self.v(x)    # nn.Linear(C, C) each)",
      .proven =
          R"(Autograd's graph has a node for each matmul with a bias: four in each block, six with three matmuls.)"};
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
           .note = "There each matmul has one row, a single token. Here it is a step of training.",
           .command = "ladder ablate --ladder qkv"}};
}

}  // namespace

}  // namespace ablations
