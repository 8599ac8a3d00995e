// How the two products of a block's MLP and the GELU between them are made.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"
#include "text/figures.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Text mlp_text();
std::vector<Claim> mlp_claims();

Proof prove_mlp(const Recipe& recipe, const RunFacts& facts) {
  const Counts& nodes = facts.observations.backward_nodes;
  const int64_t aten = count(nodes, "GeluBackward0"), fused = nodes_of(nodes, "FusedMlp");
  const std::string observed = fmt::format("{} of ATen's GELU, {} of the fused MLP", number_of(aten, "node"), fused);
  const int64_t wanted = facts.attentions;
  if (recipe.mlp == Mlp::aten) {
    return {"mlp", aten == wanted && fused == 0, fmt::format("{} nodes of ATen's GELU", wanted), observed};
  }
  return {"mlp", aten == 0 && fused == wanted, fmt::format("{} nodes of the fused MLP", wanted), observed};
}

// On a CPU GELU's result is written once more in backward, and not kept. On a GPU the first product writes it beside
// GELU's argument, which is not read again.
void amend_mlp(const StepSizes& s, StepTable& table) {
  if (s.recipe.mlp == Mlp::aten) return;
  const StepRow &fc = table.at("c_fc"), &gelu = table.at("gelu"), &proj = table.at("mlp_proj");
  const double pass = 4 * s.BTC * s.low;
  table.fuse({"c_fc", "gelu", "mlp_proj"},
             {.op = "mlp",
              .part = "mlp",
              .times = s.layers,
              .flops = fc.flops + proj.flops,
              .forward_bytes = fc.forward_bytes + gelu.forward_bytes + proj.forward_bytes - (s.on_cpu ? 0 : pass),
              .backward_bytes = fc.backward_bytes + gelu.backward_bytes + proj.backward_bytes + (s.on_cpu ? pass : 0),
              .gradients = fc.gradients + proj.gradients,
              .kept = fc.kept + gelu.kept + proj.kept - (s.on_cpu ? pass : 0),
              .working = gelu.working});
}

}  // namespace

Technique mlp() {
  return {
      .field = "mlp",
      .optimizations =
          {{.name = "fused_mlp",
            .title = "fused MLP",
            .summary = "Bias and GELU are one pass between the MLP's two matrix products, and so are their gradients. "
                       "On a GPU the products make them where they write their results. On a CPU GELU's result is "
                       "computed once more in the backward pass instead of being kept.",
            .edit = [](Recipe& r, const harness::Machine&) { r.mlp = Mlp::fused; },
            .text = mlp_text(),
            .claims = mlp_claims(),
            .rewritten = "2026-11-27",
            .replaces = {"mlp"},
            .by = "fused"}},
      .obstacle = [](const Recipe& recipe, const harness::Machine& machine) -> std::string {
        return recipe.mlp == Mlp::fused ? fused_obstacle(recipe, machine) : "";
      },
      .amend = amend_mlp,
      .prove = prove_mlp,
  };
}

// ---- In words

namespace {

Text mlp_text() {
  return {
      .mechanism =
          R"(The MLP of a block is a matmul to 4C numbers a token, a bias, GELU, and a matmul back to C
numbers. PyTorch adds the bias in the matmul's call, and GELU reads and writes all 4C numbers in a call of its own.
Backward there are separate passes for GELU's gradient and for the bias's, a sum over all tokens. Passes over B x T x 4C
numbers, between the matmuls:

                     separate    on a CPU    on a GPU
    forward             2           2           1       GELU's argument is kept
    backward            3           4           3       a CPU computes GELU again
    bias gradient       1           -           -       summed in the same pass
    kept for backward   2           1           2       GELU's argument, result

On a GPU cuBLASLt computes bias and GELU at the end of the first matmul, its epilogue. The first steps time that
against a plain matmul with a kernel of its own after it, and the faster way for these sizes is taken. Backward they
time a plain matmul with a kernel for GELU's gradient, which sums its columns for the bias, against the epilogue DGELU
with a kernel for the sums. On an H200 at B=16 the matmul and the first kernel took 121.6 and 68.8 us, DGELU 170 alone.)",
      .faster = R"(The bias and its gradient cost no pass of their own. What is not kept need not be fetched from memory
again. On a GPU the numbers are still in registers when GELU is computed of them.)",
      .costs = R"(On a CPU GELU is computed twice, and the memory for activations falls by 4C numbers for each token
and layer: for GPT-2 124M at B=4, T=256 in bfloat16 by 75 MB. On a GPU the first step takes longer, because it times
the matmuls.)",
      .no_help =
          R"(It gains little where matmuls take nearly all of the time. Where GELU in the epilogue slows the matmul
down by as much as the separate pass takes, the program takes the separate pass.)",
      .pytorch =
          R"(x = F.linear(F.gelu(F.linear(x, w1, b1), approximate="tanh"), w2, b2)    # what it takes the place of
model = torch.compile(model)    # what fuses bias and GELU in PyTorch)",
      .proven = R"(Autograd's graph has one node of the fused operation for each layer, and none of PyTorch's GELU.)"};
}

std::vector<Claim> mlp_claims() {
  return {{.claim = "GELU and its gradient in the epilogue of the matmuls: 0 to 1 % of a step",
           .source = sources::llm_c,
           .about = Claim::About::step,
           .least = 1,
           .most = 1.01,
           .note = "By cuBLASLt, as here on a GPU."}};
}

}  // namespace

}  // namespace ablations
