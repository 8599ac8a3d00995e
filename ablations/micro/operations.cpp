// Every operation of the model, forward and backward, under each precision that its device has, as a step calls it:
// ATen's, and beside it what can take its place here. Backward computes the gradients but does not add them to existing
// ones, as in a step that begins without gradients.
#include "ablations/techniques/operations.h"

#include "ablations/micro/overheads.h"
#include "ablations/micro/suite.h"
#include "ablations/profile/trace_run.h"
#include "ablations/techniques/techniques.h"
#include "harness/machine/machine.h"
#include "model/precision.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ablations::micro {

using at::Tensor;
using namespace model;

namespace {

std::string_view precision_of(const Recipe& recipe) {
  if (recipe.autocast != Autocast::off) return name_of(recipe.autocast);
  return recipe.matmul_precision == MatmulPrecision::high ? "tf32" : "float32";
}

std::vector<Recipe> precisions(Device device) {
  const Recipe plain{.device = device, .host_memory = HostMemory::keep};
  std::vector<Recipe> recipes(device == Device::cpu ? 2 : 4, plain);
  recipes[1].autocast = Autocast::bf16;
  if (device == Device::cuda) {
    recipes[2].autocast = Autocast::fp16;
    recipes[3].matmul_precision = MatmulPrecision::high;
  }
  return recipes;
}

// What a call is benchmarked as: each implementation that the device has for the recipe's types.
struct Variant {
  std::string name;
  Recipe recipe;
};

std::vector<Attention> attentions(const Recipe& recipe) {
  std::vector<Attention> kinds = {Attention::manual, Attention::math};
  if (recipe.device == Device::cuda) kinds.push_back(Attention::efficient);
  const bool sixteen_bits = recipe.autocast != Autocast::off;
  if (recipe.device == Device::cpu || sixteen_bits) kinds.push_back(Attention::flash);
  if (recipe.device == Device::cuda && sixteen_bits) kinds.push_back(Attention::cudnn);
  return kinds;
}

std::vector<Variant> variants(const std::string& call, const Recipe& recipe) {
  std::vector<Variant> found;
  if (call == "attention") {
    for (const Attention kind : attentions(recipe)) {
      found.push_back({fmt::format("attention_{}", name_of(kind)), recipe});
      found.back().recipe.attention = kind;
    }
    return found;
  }
  found.push_back({call, recipe});
  for (const Optimization& optimization : optimizations()) {
    if (std::ranges::find(optimization.replaces, call) == optimization.replaces.end()) continue;
    Recipe edited = recipe;
    optimization.edit(edited, harness::this_machine());
    // A device that is not here is no obstacle of the optimization.
    const auto obstacle = [](const Recipe& of) { return recipe_obstacle(of, harness::this_machine()); };
    if (obstacle(edited) == obstacle(recipe)) found.push_back({fmt::format("{}_{}", call, optimization.by), edited});
  }
  return found;
}

// The calls of the recipe asked for last: those of a GPU's batch take gigabytes.
class Recorded {
 public:
  const Call& operator()(const Recipe& recipe, Sizes sizes, const std::string& name) {
    if (recipe_ != recipe) {
      calls_.clear();
      calls_ = calls_of_a_step(sizes.config(), recipe, sizes.B, sizes.T);
      recipe_ = recipe;
    }
    return calls_.at(name);
  }

 private:
  std::optional<Recipe> recipe_;
  Calls calls_;
};

struct Benchmark {
  Recipe recorded;   // under which the call was recorded
  Recipe recipe;     // under which it is made
  std::string call;  // as calls.h names it
  bool backward;
  Sizes sizes;
};

void run(benchmark::State& state, Recorded& recorded, const Benchmark& benchmark) {
  const Call& call = recorded(benchmark.recorded, benchmark.sizes, benchmark.call);
  const Recipe& recipe = benchmark.recipe;
  const MatmulPrecisionScope precision(recipe.matmul_precision);
  const SdpaScope sdpa(recipe.attention);
  const Ops ops = ops_for(recipe);

  const auto in_a_step = [&](const char* phase) {
    return cost_in_a_step(benchmark.call, phase, recipe, benchmark.sizes);
  };

  std::vector<Tensor> outputs;
  const auto forward = [&] {
    const AutocastScope autocast(device_type(recipe.device), recipe.autocast);
    outputs = call.forward(ops);
  };
  if (!benchmark.backward) {
    time_calls(
        state, recipe.device, [&] { outputs.clear(); }, forward);
    const Cost cost = in_a_step("forward").value_or(cost_of_forward(benchmark.call, call.inputs, outputs));
    return set_rates(state, cost.flops, cost.bytes);
  }
  forward();
  std::vector<Tensor> upstream, with_gradient, gradients;
  for (const Tensor& output : outputs) {  // of a loss 1, as in a step
    upstream.push_back(output.dim() == 0 ? at::ones_like(output) : at::randn_like(output));
  }
  for (const Tensor& input : call.inputs) {
    if (input.requires_grad()) with_gradient.push_back(input);
  }
  const auto prepare = [&] {
    gradients.clear();
    forward();
  };
  time_calls(state, recipe.device, prepare,
             [&] { gradients = torch::autograd::grad(outputs, with_gradient, upstream); });
  const Cost cost = in_a_step("backward").value_or(cost_of_backward(benchmark.call, call.inputs, outputs));
  set_rates(state, cost.flops, cost.bytes);
}

}  // namespace

void add_operations(Suite& suite) {
  const auto recorded = std::make_shared<Recorded>();
  const auto add = [&](const std::string& name, Benchmark benchmark) {
    for (const bool backward : {false, true}) {
      benchmark.backward = backward;
      suite.add(fmt::format("{}/{}/{}", name, backward ? "backward" : "forward", precision_of(benchmark.recipe)),
                benchmark.recipe.device,
                [recorded, benchmark](benchmark::State& state) { run(state, *recorded, benchmark); });
    }
  };
  for (const Device device : {Device::cpu, Device::cuda}) {
    for (const Recipe& recipe : precisions(device)) {
      for (const std::string& call : call_names()) {
        for (const Variant& variant : variants(call, recipe)) {
          add(variant.name, {.recorded = recipe, .recipe = variant.recipe, .call = call, .sizes = suite.sizes(device)});
        }
      }
    }
  }
}

}  // namespace ablations::micro
