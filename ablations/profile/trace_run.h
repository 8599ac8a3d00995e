// One traced run: a recipe in its own process, from which only the trace is used.
#pragma once

#include "ablations/gpt2/options.h"
#include "model/config.h"
#include "model/ops.h"
#include "model/recipe.h"
#include "results/trace.h"

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ablations {

struct TracedRun {
  TraceDocument document;
  std::string timeline;  // Trace Event Format, for Perfetto
};

// Steps under trace.
inline constexpr int64_t traced_steps = 5;

// Warm-up, timed steps for the clean time of one, then `traced_steps` steps under trace. `title` says what is traced:
// "+ flash attention". Throws as Gpt2Workload; std::runtime_error where the device cannot be traced.
TracedRun trace_run(const RunOptions& options, const std::string& title);

// The operations of a step, each with the tensors that it gets there.
//
// The tensors are observed in one forward pass of the model with a single block. So whoever times a call gets the
// shapes, types and strides of a real step, including the effect of autocast.

struct Call {
  std::vector<at::Tensor> inputs;  // leaves; those of them that have a gradient in a step require one here
  std::function<std::vector<at::Tensor>(const model::Ops&)> forward;  // one output; of "qkv" three, of "add_norm" two
};

// By operation of model/ops.h, the first call of each that gets all its tensors: a step's first add_norm has nothing to
// add. "linear" by its place in a block: linear_attn_proj, linear_c_fc, linear_mlp_proj.
using Calls = std::map<std::string, Call>;

// All of them only under a recipe without operations of our own.
Calls calls_of_a_step(const model::Config& config, const model::Recipe& recipe, int64_t B, int64_t T);

// The names that it returns; known without running a step.
std::vector<std::string> call_names();

// Calls visit("embed", &model::Ops::embed) and so on for every operation.
template <class Visit>
void for_each_operation(Visit&& visit) {
  using model::Ops;
  // Nine small operations, four large ones, a flag, and two hooks.
  static_assert(sizeof(Ops) == 13 * sizeof(Ops::gelu) + alignof(Ops) + sizeof(Ops::before_step) + sizeof(Ops::on_part),
                "every operation of model/ops.h stands here");
  visit("embed", &Ops::embed);
  visit("layer_norm", &Ops::layer_norm);
  visit("linear", &Ops::linear);
  visit("qkv", &Ops::qkv);
  visit("attention", &Ops::attention);
  visit("gelu", &Ops::gelu);
  visit("residual", &Ops::residual);
  visit("head", &Ops::head);
  visit("cross_entropy", &Ops::cross_entropy);
  visit("add_norm", &Ops::add_norm);
  visit("self_attention", &Ops::self_attention);
  visit("mlp", &Ops::mlp);
  visit("head_loss", &Ops::head_loss);
}

}  // namespace ablations
