#include "ablations/profile/step_calls.h"

#include "ablations/techniques/operations.h"
#include "model/gpt2.h"
#include "model/precision.h"

#include <array>
#include <tuple>

namespace ablations {

using at::Tensor;
using model::Affine;
using model::Ops;

namespace {

// Stands for the table that a large operation gets: when the call is made again, that is the one in use.
struct OpsTable {};

OpsTable leaf(const Ops&) { return {}; }
Tensor leaf(const Tensor& x) { return x.defined() ? x.detach().set_requires_grad(x.requires_grad()) : x; }
Affine leaf(const Affine& x) { return {leaf(x.weight), leaf(x.bias)}; }
template <class T>
T leaf(const T& x) {
  return x;
}

const Ops& argument(const OpsTable&, const Ops& used) { return used; }
template <class T>
const T& argument(const T& x, const Ops&) {
  return x;
}

bool is_there(const Tensor& x) { return x.defined(); }
template <class T>
bool is_there(const T&) {
  return true;
}

void append(std::vector<Tensor>& inputs, const Tensor& x) { inputs.push_back(x); }
void append(std::vector<Tensor>& inputs, const Affine& x) { inputs.insert(inputs.end(), {x.weight, x.bias}); }
template <class T>
void append(std::vector<Tensor>&, const T&) {}

std::vector<Tensor> listed(const Tensor& output) { return {output}; }
std::vector<Tensor> listed(const std::array<Tensor, 3>& outputs) { return {outputs.begin(), outputs.end()}; }
std::vector<Tensor> listed(const Ops::Normed& outputs) { return {outputs.x, outputs.normalized}; }

// Puts a listener in the operation's place.
template <class Result, class... Args>
void watch(Calls& calls, Ops& ops, std::function<Result(Args...)> Ops::*operation,
           const std::function<std::string()>& name) {
  ops.*operation = [&calls, operation, name, original = ops.*operation](Args... args) {
    const auto leaves = std::make_tuple(leaf(args)...);
    Call call;
    std::apply([&](const auto&... x) { (append(call.inputs, x), ...); }, leaves);
    call.forward = [operation, leaves](const Ops& used) {
      return listed(std::apply([&](const auto&... x) { return (used.*operation)(argument(x, used)...); }, leaves));
    };
    if ((is_there(args) && ...)) calls.try_emplace(name(), std::move(call));
    return original(args...);
  };
}

// As a block calls it, one after the other.
const std::vector<std::string> places_of_linear = {"attn_proj", "c_fc", "mlp_proj"};

}  // namespace

Calls calls_of_a_step(const model::Config& whole, const model::Recipe& recipe, int64_t B, int64_t T) {
  model::Config config = whole;
  config.n_layer = 1;
  const at::DeviceType device = model::device_type(recipe.device);
  const model::GPT2 gpt2(config, recipe.vocabulary_rows, /*seed=*/1, device);
  const Tensor tokens = at::randint(config.vocabulary, {2, B, T}, at::TensorOptions().dtype(at::kLong).device(device));

  Calls calls;
  Ops ops = model::ops_for(recipe);
  for_each_operation([&](const std::string& name, auto operation) {
    watch(calls, ops, operation, [name, nth = size_t{0}]() mutable {
      return name == "linear" ? "linear_" + places_of_linear.at(nth++) : name;
    });
  });
  const model::AutocastScope autocast(device, recipe.autocast);
  (void)gpt2.loss(ops, tokens[0], tokens[1]);
  return calls;
}

std::vector<std::string> call_names() {
  std::vector<std::string> names;
  for_each_operation([&](const std::string& name, auto) {
    if (name != "linear") return names.push_back(name);
    for (const std::string& place : places_of_linear) names.push_back("linear_" + place);
  });
  return names;
}

}  // namespace ablations
