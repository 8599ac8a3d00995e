// How AdamW goes over the weights.
#include "ablations/techniques/technique.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Text text_of_foreach();
Text text_of_fused();
std::vector<Claim> claims_of_fused();

Proof prove_optimizer(const Recipe& recipe, const RunFacts& facts) {
  const Counts& operations = facts.observations.update_operations;
  const int64_t fused = count(operations, "aten::_fused_adamw_");
  const int64_t foreach = count(operations, "aten::_foreach_addcdiv_");
  const int64_t single = count(operations, "aten::addcdiv_");
  const int64_t own = count(operations, "model::adamw");
  const std::string observed =
      fmt::format("{} _fused_adamw_, {} _foreach_addcdiv_, {} addcdiv_ in an update", fused, foreach, single);
  if (recipe.weights == Weights::master) {
    return {"optimizer", own == 1 && fused == 0 && foreach == 0 && single == 0,
            "one operation for all master weights, none of ATen's", fmt::format("{} of our own, {}", own, observed)};
  }
  switch (recipe.optimizer) {
    case Optimizer::loop:
      return {"optimizer", fused == 0 && foreach == 0 && single > 2, "one addcdiv_ per tensor, nothing fused",
              observed};
    case Optimizer::foreach:
      return {"optimizer", fused == 0 && foreach == 2, "one _foreach_addcdiv_ per parameter group, nothing fused",
              observed};
    case Optimizer::fused:
      return {"optimizer", fused == 2 && foreach == 0 && single == 0 && own == 0,
              "one _fused_adamw_ per parameter group, nothing else", observed};
  }
  return {"optimizer", false, "", observed};
}

// AdamW's denominators, of the largest tensor or of all of them; as many numerators if its factors are on the device.
void amend_optimizer(const StepSizes& s, StepTable& table) {
  if (s.recipe.optimizer == Optimizer::fused || s.recipe.weights == Weights::master) return;
  const bool on_device = s.recipe.execution == Execution::graph || s.recipe.autocast == Autocast::fp16;
  const double at_once = s.recipe.optimizer == Optimizer::foreach ? s.parameters : s.rows * s.C;
  table.update.working = f32 * at_once * (on_device ? 2 : 1);
}

}  // namespace

Technique optimizer() {
  return {
      .field = "optimizer",
      .optimizations =
          {{.name = "foreach",
            .title = "foreach AdamW",
            .summary = "The optimizer works on lists of tensors instead of one tensor after another, which saves "
                       "kernel launches. The arithmetic is the same.",
            .excludes = {"fused_adamw"},
            .edit = [](Recipe& r, const harness::Machine&) { r.optimizer = Optimizer::foreach; },
            .text = text_of_foreach(),
            .micro_below = "adamw_loop",
            .micro = "adamw_foreach"},
           {.name = "fused_adamw",
            .title = "fused AdamW",
            .summary = "One operation per parameter group reads gradient, moments and weight once and writes them "
                       "once. Clipping the gradients happens in the same pass.",
            .edit = [](Recipe& r, const harness::Machine&) { r.optimizer = Optimizer::fused; },
            .text = text_of_fused(),
            .claims = claims_of_fused(),
            .micro_below = "adamw_loop",
            .micro = "adamw_fused"}},
      .amend = amend_optimizer,
      .prove = prove_optimizer,
  };
}

// ---- In words

namespace {

Text text_of_foreach() {
  return {
      .mechanism = R"(GPT-2 124M has its weights in 148 tensors, 50 of which decay. AdamW is seven operations on each,
and one more on those that decay: 7 x 148 + 50 = 1,086 operations, a kernel each. PyTorch's `_foreach_` operations take
a list of tensors instead. One kernel then works on many tensors, and a few dozen launches do.)",
      .faster =
          R"(A thousand launches take the processor several milliseconds. Most tensors are small, so that their kernels
are shorter than their launches.)",
      .costs =
          R"(Memory: the temporaries of all tensors of a list exist at once. The square roots of the second moments are
498 MB; tensor by tensor the largest is 154 MB.)",
      .no_help =
          R"(On a CPU these operations go through the list tensor by tensor. A CUDA graph saves the launches anyway. It
moves as many bytes as before, so large tensors take as long.)",
      .pytorch =
          R"(optimizer = torch.optim.AdamW(model.parameters(), foreach=True)    # PyTorch's choice on a GPU unless told otherwise)",
      .proven = R"(An update has one `_foreach_addcdiv_` for each of the two groups, with and without decay, and nothing
fused.)",
      .alone = R"(ladder run --recipe '{"device": "cuda", "optimizer": "loop"}'
ladder run --recipe '{"device": "cuda", "optimizer": "foreach"}')"};
}

Text text_of_fused() {
  return {
      .mechanism =
          R"(The update of a weight needs its gradient and two moments, and can be done in one go. One operation
for each group (with decay, without) reads weight, gradient and moments, clips the gradient, and writes all four back.
That is 8 passes over 498 MB for GPT-2 124M, 4.0 GB. As single operations, each of which reads its input from memory and
writes its result there, clipping and AdamW take 22 passes, 11 GB:

    scale the gradient 2    first moment 3    second moment 2 + 3    decay 2    square root 2
    divide 2    add epsilon 2    weight 4)",
      .faster = R"(The update does a few operations on each number, so its time is its traffic, and that is almost three
times less. On a GPU launches are saved as well.)",
      .costs = R"(No memory; the temporaries are gone.)",
      .no_help =
          R"(The update takes as long at any batch, so its share of a step falls with B, T and the number of micro-steps.)",
      .pytorch = R"(optimizer = torch.optim.AdamW(model.parameters(), fused=True)
# PyTorch's clip_grad_norm_ stays a pass of its own; here the update does that, too)",
      .proven = R"(An update has one `_fused_adamw_` for each of the two groups, and no other operation of AdamW.)"};
}

std::vector<Claim> claims_of_fused() {
  return {
      {.claim = "93 -> 90 ms per step",
       .source = sources::lecture,
       .about = Claim::About::step,
       .least = 93.0 / 90,
       .most = 93.0 / 90},
      {.claim = "one call for each tensor costs 0.5 % of a step, beside one call for all",
       .source = sources::llm_c,
       .note = "No command here measures it: both are a fused kernel, and here that has one call for each group only.",
       .command = ""}};
}

}  // namespace

}  // namespace ablations
