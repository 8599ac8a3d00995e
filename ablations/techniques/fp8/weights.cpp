#include "ablations/techniques/fp8/weights.h"

#include "ablations/techniques/cuda/built.h"
#include "ablations/techniques/fp8/copies.h"
#include "ablations/techniques/operations.h"

#include <ATen/core/grad_mode.h>

#include <memory>

namespace model {

using at::Tensor;

std::vector<Fp8Parameter> fp8_parameters(const std::vector<Parameter>& all, Fp8 which) {
  const auto named = [&](const std::string& name) {
    for (const Parameter& one : all) {
      if (one.name == name) return one.tensor;
    }
    TORCH_CHECK(false, "fp8: the model has no ", name);
  };
  struct Kind {
    const char *end, *name, *norm;  // norm: beside it in its block
  };
  std::vector<Fp8Parameter> found;
  for (const Parameter& one : all) {
    if (one.name == "wte.weight") found.push_back({"head", one, named("ln_f.weight"), named("ln_f.bias")});
    for (const auto& [end, name, norm] :
         {Kind{"attn.c_attn.weight", "c_attn", "ln_1"}, Kind{"mlp.c_fc.weight", "c_fc", "ln_2"},
          Kind{"mlp.c_proj.weight", "mlp_proj", nullptr}}) {
      if (which != Fp8::all || !one.name.ends_with(end)) continue;
      const std::string block = one.name.substr(0, one.name.size() - std::string(end).size());
      found.push_back({name, one});
      if (norm == nullptr) {
        found.back().bias = named(block + "mlp.c_proj.bias");
        continue;
      }
      found.back().norm_weight = named(block + norm + ".weight");
      found.back().norm_bias = named(block + norm + ".bias");
    }
  }
  return found;
}

void install_fp8(const Recipe& recipe, Gradients* gradients, Ops& ops) {
  if (recipe.fp8 == Fp8::off) return;
  TORCH_CHECK(gradients != nullptr, "recipe: fp8 needs weights master");
  const std::vector<Fp8Parameter> parameters = fp8_parameters(gradients->parameters(), recipe.fp8);
  Fp8Update update;
  if (recipe.device == Device::cpu) {
    for (const Fp8Parameter& one : parameters) fp8::put_weight(one.weight.tensor, {one.name, {}, {}});
  } else if constexpr (has_cuda_kernels) {
    update = cuda_weight_copies(parameters);
  }
  ops.before_step = update.find_maxima;
  // Once in a step. What is evaluated between steps needs the weights as they are by then.
  ops.embed = [embed = ops.embed, copy = update.copy, gradients, copied = std::make_shared<int64_t>(-1)](
                  const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
    const bool in_step = at::GradMode::is_enabled();
    if (!in_step || *copied != gradients->steps()) copy();
    *copied = in_step ? gradients->steps() : -1;
    return embed(tokens, wte, wpe);
  };
}

}  // namespace model
