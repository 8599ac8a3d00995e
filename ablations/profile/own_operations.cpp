#include "ablations/profile/own_operations.h"

#include "ablations/profile/rates.h"
#include "ablations/profile/trace_run.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/step_table.h"
#include "harness/machine/machine.h"
#include "harness/machine/processor_time.h"
#include "model/precision.h"
#include "text/text.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>

namespace ablations {

using at::Tensor;
using model::Recipe;

namespace {

// A field of the recipe with a value that is an operation of our own. The fused LayerNorm and the update are not here:
// they save traffic, but timed by themselves their numbers stay in the caches.
struct OwnOperation {
  bool (*is_on)(const Recipe&);
  void (*copy)(const Recipe& from, Recipe& to);
  std::vector<std::string> calls;  // trace_run.h
  // How many times as fast ours must be to be taken. Master weights need the fused MLP and loss, and gain more than
  // these may cost. So these two are left out only where they are clearly slower.
  double least_ratio;
};

template <auto field, auto value>
OwnOperation own_operation(std::vector<std::string> calls, double least_ratio) {
  return {[](const Recipe& recipe) { return recipe.*field == value; },
          [](const Recipe& from, Recipe& to) { to.*field = from.*field; }, std::move(calls), least_ratio};
}

const std::vector<OwnOperation>& own_operations() {
  constexpr double faster = 1.03, not_much_slower = 0.9;
  static const std::vector<OwnOperation> all{
      own_operation<&Recipe::products, model::Products::packed>(
          {"qkv", "linear_attn_proj", "linear_c_fc", "linear_mlp_proj", "head"}, faster),
      own_operation<&Recipe::attention, model::Attention::packed>({"self_attention"}, faster),
      own_operation<&Recipe::mlp, model::Mlp::fused>({"mlp"}, not_much_slower),
      own_operation<&Recipe::cross_entropy, model::CrossEntropy::fused>({"head_loss"}, not_much_slower)};
  return all;
}

const OwnOperation& operation_of(const Recipe& own, const Recipe& without) {
  for (const OwnOperation& operation : own_operations()) {
    if (operation.is_on(own) && !operation.is_on(without)) return operation;
  }
  throw std::invalid_argument("the two recipes do not differ by an operation of the program's own");
}

// The fields that decide how long any operation takes.
Recipe shared_part(const Recipe& recipe) {
  return {.device = recipe.device,
          .host_memory = recipe.host_memory,
          .matmul_precision = recipe.matmul_precision,
          .autocast = recipe.autocast,
          .residual = recipe.residual,
          .vocabulary_rows = recipe.vocabulary_rows,
          .deterministic = recipe.deterministic};
}

// One call as a step under the recipe makes it.
class Way {
 public:
  Way(const Call& call, const Recipe& recipe) : call_(call), recipe_(recipe), ops_(model::ops_for(recipe)) {
    for (const Tensor& input : call.inputs) {
      if (input.requires_grad()) inputs_.push_back(input);
    }
  }

  double seconds() {
    const model::MatmulPrecisionScope precision(recipe_.matmul_precision);
    const model::SdpaScope sdpa(recipe_.attention);
    const model::DeterminismScope determinism(recipe_.deterministic);
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Tensor> outputs;
    {
      const model::AutocastScope autocast(model::device_type(recipe_.device), recipe_.autocast);
      outputs = call_.forward(ops_);
    }
    std::vector<Tensor> upstream;
    for (const Tensor& output : outputs) upstream.push_back(at::ones_like(output));
    (void)torch::autograd::grad(outputs, inputs_, upstream);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  const Call& call_;
  Recipe recipe_;
  model::Ops ops_;
  std::vector<Tensor> inputs_;
};

ProductTiming described(const std::string& name, const Call& call, const Recipe& recipe) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  const bool has_weight = weight.dim() == 2;
  return {.product = name,
          .type = at::toString(model::scalar_type(recipe.autocast)),
          .m = has_weight ? weight.size(0) : x.size(-1),
          .n = x.numel() / x.size(-1),
          .k = x.size(-1)};
}

// How often a step makes the product. Other operations have a single timing, so for them it does not matter.
int64_t times_of(const ProductTiming& timing, int64_t n_layer) { return timing.product == "head" ? 1 : n_layer; }

}  // namespace

std::vector<ProductTiming> time_both(const model::Config& config, const Recipe& own, const Recipe& without, int64_t B,
                                     int64_t T) {
  constexpr int rounds = 3;
  constexpr double least_seconds = 0.02;  // of a round
  const Calls calls = calls_of_a_step(config, shared_part(own), B, T);
  std::vector<ProductTiming> timings;
  for (const std::string& name : operation_of(own, without).calls) {
    const Call& call = calls.at(name);
    Way library(call, without), ours(call, own);
    library.seconds();
    const double once = std::min(ours.seconds(), library.seconds());
    const auto repeats = std::clamp<int64_t>(static_cast<int64_t>(least_seconds / once), 1, 100);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double shortest[2] = {infinity, infinity};
    for (int attempt = 0; attempt < 3; ++attempt) {  // other work slows threads that wait for each other
      const auto before = harness::processor_time();
      const auto begin = std::chrono::steady_clock::now();
      for (int64_t i = 0; i < rounds * repeats; ++i) {
        shortest[0] = std::min(shortest[0], library.seconds());
        shortest[1] = std::min(shortest[1], ours.seconds());
      }
      const std::chrono::duration<double> window = std::chrono::steady_clock::now() - begin;
      const auto after = harness::processor_time();
      const int threads = at::get_num_threads(), cores = harness::this_cpu().logical_cores;
      if (!before || !after ||
          harness::flag(harness::share_lost(*before, *after, window.count(), threads, cores)).empty()) {
        break;
      }
    }
    ProductTiming timing = described(name, call, own);
    timing.plain_microseconds = 1e6 * shortest[0];
    timing.own_microseconds = 1e6 * shortest[1];
    timing.tried = 2;
    timings.push_back(timing);
  }
  return timings;
}

const OwnOperations::Answer& OwnOperations::answer(const Recipe& own, const Recipe& without) {
  const std::string key = model::to_json(own).dump() + model::to_json(without).dump();
  if (const auto found = answers_.find(key); found != answers_.end()) return found->second;
  std::vector<ProductTiming> timings = time_(own, without);
  double library_us = 0, own_us = 0, flops = 0;
  for (const ProductTiming& timing : timings) {
    const auto times = static_cast<double>(times_of(timing, n_layer_));
    library_us += times * timing.plain_microseconds;
    own_us += times * timing.own_microseconds.value();
    const double forward =
        product_flops(static_cast<double>(timing.n), static_cast<double>(timing.m), static_cast<double>(timing.k));
    flops += times * (forward + backward_flops(forward));
  }
  const OwnOperation& operation = operation_of(own, without);
  Answer answer{library_us >= operation.least_ratio * own_us, ""};
  if (own.products != without.products) {
    answer.why_not = fmt::format("not faster here: the library makes {}, ours {}", flops_text(1e6 * flops / library_us),
                                 flops_text(1e6 * flops / own_us));
  } else {
    answer.why_not = fmt::format("not faster here: PyTorch's operation takes {} ms, ours {}",
                                 number(timings.front().plain_microseconds / 1e3),
                                 number(timings.front().own_microseconds.value() / 1e3));
  }
  for (ProductTiming& timing : timings) {
    timing.algorithm = answer.is_faster ? 0 : -1;
    timing.microseconds = answer.is_faster ? *timing.own_microseconds : timing.plain_microseconds;
    timings_.push_back(timing);
  }
  return answers_.emplace(key, std::move(answer)).first->second;
}

std::string OwnOperations::choose(const Recipe& before, Recipe& edited) {
  std::string why;
  if (edited.device != model::Device::cpu) return why;
  for (const OwnOperation& operation : own_operations()) {
    const bool is_new = !operation.is_on(before) || edited.autocast != before.autocast;
    if (!operation.is_on(edited) || !is_new) continue;
    const Recipe plain;
    const Recipe& other = operation.is_on(before) ? plain : before;
    Recipe own = shared_part(edited), without = own;
    own.products = without.products = edited.products;
    operation.copy(edited, own);
    operation.copy(other, without);
    const Answer& found = answer(own, without);
    if (found.is_faster) continue;
    operation.copy(other, edited);
    why = found.why_not;
  }
  return why;
}

}  // namespace ablations
