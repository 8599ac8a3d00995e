// Every operation of the model, forward and backward, against the same in float64 on the CPU, by the norm of the
// difference; under float32, TF32 and both autocast types, as a step calls it.
#include "model/ops.h"

#include "ablations/gpt2/observe.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/techniques.h"
#include "harness/machine/gpu_monitor.h"
#include "harness/machine/machine.h"
#include "model/gpt2.h"
#include "results/observations.h"
#include "tests/cuda/device.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

namespace cuda_ops_test {

using namespace device_tests;
using namespace model;
using at::Tensor;

struct Operation {
  std::string name;
  std::function<Tensor(const Ops&, const std::vector<Tensor>&)> forward;
  std::vector<std::vector<int64_t>> inputs;  // shapes of the float tensors that get gradients
};

constexpr int64_t B = 2, T = 128, C = 256, NH = 4, HS = C / NH, V = 1000;

Tensor token_ids(at::Device device) { return at::arange(B * T).mul(37).remainder(V).view({B, T}).to(device); }

const Operation cross_entropy{
    "cross_entropy",
    [](const Ops& ops, const auto& x) { return ops.cross_entropy(x[0], token_ids(x[0].device())); },
    {{B, T, V}}};

std::vector<Operation> operations() {
  return {
      {"embed",
       [](const Ops& ops, const auto& x) { return ops.embed(token_ids(x[0].device()), x[0], x[1]); },
       {{V, C}, {T, C}}},
      {"layer_norm",
       [](const Ops& ops, const auto& x) { return ops.layer_norm(x[0], x[1], x[2], 1e-5); },
       {{B, T, C}, {C}, {C}}},
      {"linear",
       [](const Ops& ops, const auto& x) { return ops.linear(x[0], x[1], x[2]); },
       {{B, T, C}, {4 * C, C}, {4 * C}}},
      {"qkv",
       [](const Ops& ops, const auto& x) {
         const auto [query, key, value] = ops.qkv(x[0], x[1], x[2]);
         return at::cat({query, key, value}, -1);
       },
       {{B, T, C}, {3 * C, C}, {3 * C}}},
      {"gelu", [](const Ops& ops, const auto& x) { return ops.gelu(x[0]); }, {{B, T, 4 * C}}},
      {"residual", [](const Ops& ops, const auto& x) { return ops.residual(x[0], x[1]); }, {{B, T, C}, {B, T, C}}},
      {"head", [](const Ops& ops, const auto& x) { return ops.head(x[0], x[1]); }, {{B, T, C}, {V, C}}},
      cross_entropy,
  };
}

const Operation attention{"attention",
                          [](const Ops& ops, const auto& x) { return ops.attention(x[0], x[1], x[2]); },
                          {{B, NH, T, HS}, {B, NH, T, HS}, {B, NH, T, HS}}};

// Relative errors of the result and of each gradient, the worst of them.
double worst_error(const Operation& operation, const Recipe& recipe) {
  at::Generator generator = at::detail::createCPUGenerator(17);
  std::vector<Tensor> exact, tried;
  for (const auto& shape : operation.inputs) {
    const Tensor values = at::empty(shape).normal_(0.0, 1.0, generator);
    exact.push_back(values.to(at::kDouble).requires_grad_(true));
    tried.push_back(values.to(at_device()).requires_grad_(true));
  }
  const Tensor expected = operation.forward(reference_ops(), exact);
  Tensor seen;
  const MatmulPrecisionScope precision(recipe.matmul_precision);
  const SdpaScope sdpa(recipe.attention);
  {
    const AutocastScope autocast(at_device().type(), recipe.autocast);
    seen = operation.forward(ops_for(recipe), tried);
  }
  const Tensor upstream = at::empty(expected.sizes()).normal_(0.0, 1.0, generator);
  expected.backward(upstream.to(at::kDouble));
  seen.backward(upstream.to(seen.device(), seen.scalar_type()));
  double worst = relative_error(seen, expected);
  for (size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, relative_error(tried[i].grad(), exact[i].grad()));
  return worst;
}

// What rounding to that many bits may cost over an operation with its backward: a few units in the last place of the
// narrowest type on the way, and float32's accumulation.
double allowed(const Recipe& recipe) {
  if (recipe.autocast == Autocast::bf16) return 2e-2;
  if (recipe.autocast == Autocast::fp16 || recipe.matmul_precision == MatmulPrecision::high) return 3e-3;
  return 1e-5;
}

std::vector<Recipe> precisions() {
  std::vector<Recipe> recipes{{.device = device()},
                              {.device = device(), .autocast = Autocast::bf16},
                              {.device = device(), .autocast = Autocast::fp16}};
  if (!rehearsal()) recipes.push_back({.device = device(), .matmul_precision = MatmulPrecision::high});
  return recipes;
}

// Says how near it came, too: the margins are estimates until a device has shown them.
void expect_follows_float64(const Operation& operation, const Recipe& recipe, double allowed) {
  const double error = worst_error(operation, recipe);
  fmt::print("{}: {:.2g} of {:.2g}, {}\n", operation.name, error, allowed, to_json(recipe).dump());
  EXPECT_LT(error, allowed) << operation.name << " " << to_json(recipe).dump();
}

TEST(Ops, ForwardAndBackwardFollowFloat64) {
  for (const Operation& operation : operations()) {
    for (const Recipe& recipe : precisions()) {
      expect_follows_float64(operation, recipe, allowed(recipe));
    }
  }
}

TEST(Ops, TheLossInPlaceFollowsFloat64) {
  for (Recipe recipe : precisions()) {
    recipe.cross_entropy = CrossEntropy::in_place;
    expect_follows_float64(cross_entropy, recipe, allowed(recipe));
  }
}

// As in a step, whose stream is rounded to 16 bits where it begins.
TEST(Ops, TheStreamOf16BitsFollowsFloat64) {
  for (Recipe recipe : precisions()) {
    if (recipe.autocast == Autocast::off) continue;
    recipe.residual = Residual::autocast;
    const auto stream = [type = scalar_type(recipe.autocast)](const Tensor& x) {
      return x.scalar_type() == at::kDouble ? x : x.to(type);
    };
    for (Operation operation : operations()) {
      if (operation.name == "layer_norm") {
        operation.forward = [&](const Ops& ops, const auto& x) {
          return ops.layer_norm(stream(x[0]), x[1], x[2], 1e-5);
        };
      } else if (operation.name == "residual") {
        operation.forward = [&](const Ops& ops, const auto& x) { return ops.residual(stream(x[0]), stream(x[1])); };
      } else if (operation.name != "embed") {
        continue;
      }
      expect_follows_float64(operation, recipe, allowed(recipe));
    }
  }
}

TEST(Ops, EveryAttentionFollowsFloat64) {
  for (Recipe recipe : precisions()) {
    for (const Attention kind :
         {Attention::manual, Attention::math, Attention::efficient, Attention::flash, Attention::cudnn}) {
      recipe.attention = kind;
      const bool cuda_only = kind == Attention::efficient || kind == Attention::cudnn;
      const bool sixteen_bits = kind == Attention::flash || kind == Attention::cudnn;
      if (rehearsal() ? cuda_only : sixteen_bits && recipe.autocast == Autocast::off) continue;
      // Its float32 products are three of TF32's, which leave out the product of the two small parts. TF32 drops bits
      // and does not round, and dQ and dK are two such products one after the other.
      const double more = recipe.matmul_precision == MatmulPrecision::high                   ? 2
                          : kind == Attention::efficient && recipe.autocast == Autocast::off ? 3
                                                                                             : 1;
      expect_follows_float64(attention, recipe, more * allowed(recipe));
    }
  }
}

// With the product that it reads, whose weight is scaled so that scores are about 1.
TEST(Ops, PackedAttentionFollowsFloat64) {
  const Operation packed{"packed attention",
                         [](const Ops& ops, const auto& x) {
                           const double scale = 1 / std::sqrt(static_cast<double>(C));
                           return ops.self_attention(ops, 0, x[0], Affine{x[1] * scale, x[2]}, NH);
                         },
                         {{B, T, C}, {3 * C, C}, {3 * C}}};
  for (Recipe recipe : precisions()) {
    recipe.attention = Attention::packed;
    if (rehearsal() ? recipe.autocast == Autocast::fp16 : recipe.autocast == Autocast::off) continue;
    expect_follows_float64(packed, recipe, 2 * allowed(recipe));
  }
}

// One implementation is enabled and it cannot read float32: an error, not another implementation.
TEST(Ops, NoAttentionFallsBackToAnother) {
  if (rehearsal()) GTEST_SKIP() << "a CPU's flash attention reads float32";
  for (const Attention kind : {Attention::flash, Attention::cudnn}) {
    EXPECT_THROW(worst_error(attention, {.device = device(), .attention = kind}), c10::Error) << name_of(kind);
  }
}

}  // namespace cuda_ops_test

namespace cuda_monitor_test {

// The monitor on a real GPU: what NVML says while a kernel runs is possible and its parts agree.

using namespace device_tests;

TEST(Monitor, SeesTheGpuAtWork) {
  if (rehearsal()) GTEST_SKIP() << "a CPU has no NVML";
  harness::Monitor monitor(harness::current_bus_id());
  const at::Tensor a = at::randn({4096, 4096}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
  (void)at::mm(a, a);  // which loads cuBLAS, and the GPU waits
  cudaDeviceSynchronize();
  monitor.begin();
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::seconds(2)) {
    for (int i = 0; i < 20; ++i) (void)at::mm(a, a);
    cudaDeviceSynchronize();
  }
  const harness::GpuWatch watch = monitor.end();
  if (!watch.unavailable.empty()) GTEST_SKIP() << watch.unavailable;
  const results::MonitorSummary seen = results::summary_of(watch, 1000);
  SCOPED_TRACE(results::json_of(seen).dump());
  EXPECT_GE(seen.samples, 3);
  if (seen.sm_clock_mhz) {
    EXPECT_GT(seen.sm_clock_mhz->median, 200);
  }
  if (seen.power_w && seen.energy_j) {
    // Energy is power times two seconds, as far as a counter with steps and a window that begins idle can agree.
    EXPECT_NEAR(*seen.energy_j / 2, seen.power_w->median, 0.35 * seen.power_w->median);
  }
  if (seen.other_processes) {
    EXPECT_GE(*seen.other_processes, 0);
  }
}

}  // namespace cuda_monitor_test

namespace cuda_determinism_test {

// Two runs of a deterministic recipe have the same losses to the bit, under every attention of the device that has a
// deterministic backward pass, step by step and replayed.

using namespace ablations;
using namespace device_tests;
using namespace model;

// ATen looks at it once, at the first matrix product of the process, which may be another test's.
[[maybe_unused]] const int workspace = ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/1);

std::vector<Recipe> recipes() {
  std::vector<Recipe> all;
  for (const Autocast autocast : {Autocast::off, Autocast::bf16, Autocast::fp16}) {
    if (rehearsal() && autocast == Autocast::fp16) continue;  // minutes on a CPU
    for (const Attention attention :
         {Attention::manual, Attention::math, Attention::efficient, Attention::flash, Attention::cudnn}) {
      for (const Execution execution : {Execution::eager, Execution::graph}) {
        // Float16's kernels are bfloat16's with another type: one attention stands for all.
        if (autocast == Autocast::fp16 && attention != Attention::flash) continue;
        Recipe recipe{.device = device(),
                      .autocast = autocast,
                      .attention = attention,
                      .execution = execution,
                      .optimizer = Optimizer::fused,
                      .deterministic = true};
        if (!recipe_obstacle(recipe, harness::this_machine()).empty()) continue;
        all.push_back(recipe);
        if (attention != Attention::flash) continue;
        recipe.cross_entropy = CrossEntropy::in_place;
        if (autocast != Autocast::off) recipe.residual = Residual::autocast;
        all.push_back(recipe);
        if (rehearsal()) continue;
        recipe.cross_entropy = CrossEntropy::fused;
        recipe.norm = Norm::fused;
        recipe.mlp = Mlp::fused;
        if (recipe_obstacle(recipe, harness::this_machine()).empty()) all.push_back(recipe);
      }
    }
  }
  return all;
}

// More tokens than the 3,072 up to which ATen's embedding needs no sorting.
int64_t batch() { return rehearsal() ? 2 : 16; }
int64_t context() { return rehearsal() ? 64 : 256; }

TEST(Deterministic, RunsRepeatToTheBit) {
  // Micro-steps add up gradients, too.
  const TrainerOptions options{.B = batch(), .T = context(), .accumulation = 2, .max_steps = rehearsal() ? 3 : 6};
  const size_t attentions = rehearsal() ? 3 : 4;
  ASSERT_GE(recipes().size(), attentions);
  for (const Recipe& recipe : recipes()) {
    SCOPED_TRACE(to_json(recipe).dump());
    const std::vector<double> once = losses(small(), recipe, options);
    expect_learns(once);
    expect_same(losses(small(), recipe, options), once);
  }
}

TEST(Deterministic, ReplayedStepsAreTheEagerOnesToTheBit) {
  if (rehearsal()) GTEST_SKIP() << "a CPU has no graphs";
  const TrainerOptions options{.B = batch(), .T = context(), .max_steps = 12};
  for (Recipe recipe : recipes()) {
    if (recipe.execution == Execution::graph) continue;
    SCOPED_TRACE(to_json(recipe).dump());
    const std::vector<double> eager = losses(small(), recipe, options);
    expect_learns(eager);
    recipe.execution = Execution::graph;
    expect_same(losses(small(), recipe, options), eager);
  }
}

TEST(Deterministic, IsProvenWithoutAWait) {
  for (const Recipe& recipe : recipes()) {
    SCOPED_TRACE(to_json(recipe).dump());
    Trainer trainer(small(), recipe, {.B = batch(), .T = context(), .max_steps = 6 + observed_steps}, tokens(),
                    step_parts());
    for (int i = 0; i < 6; ++i) trainer.step();
    const RunFacts facts{.observations = observe(trainer).observations,
                         .page_faults_per_step = 0,
                         .peak_bytes = int64_t{1} << 40,
                         .attentions = small().n_layer};
    ASSERT_TRUE(counted(facts.observations)) << facts.observations.cuda_calls->unavailable.value_or("");
    for (const Proof& proof : prove(recipe, facts)) {
      if (proof.field != "deterministic" && proof.field != "device") continue;
      EXPECT_TRUE(proof.passed) << proof.field << ": expected " << proof.expected << "; observed " << proof.observed;
    }
  }
}

}  // namespace cuda_determinism_test

namespace cuda_parity_test {

// The same weights and tokens on the CPU and on the GPU: the loss and every parameter's gradient, in float64 and
// float32.

using namespace device_tests;
using namespace model;
using at::Tensor;

struct Pass {
  Tensor loss;
  std::map<std::string, Tensor> gradients;
};

Pass pass(const Config& config, at::Device device, at::ScalarType type, int64_t B, int64_t T) {
  GPT2 gpt2(config, config.vocabulary, /*seed=*/5, device);
  for (const Parameter& parameter : gpt2.parameters()) parameter.tensor.set_data(parameter.tensor.to(type));
  BatchLoader loader(tokens(), B, T, /*seed=*/3);
  const auto [inputs, targets] = loader.next();
  const MatmulPrecisionScope precision(MatmulPrecision::highest);
  Pass result{.loss = gpt2.loss(reference_ops(), inputs.to(device), targets.to(device)), .gradients = {}};
  result.loss.backward();
  for (const Parameter& parameter : gpt2.parameters()) result.gradients[parameter.name] = parameter.tensor.grad();
  return result;
}

void compare(const Config& config, at::ScalarType type, int64_t B, int64_t T, double loss_error,
             double gradient_error) {
  const Pass expected = pass(config, at::kCPU, type, B, T);
  const Pass seen = pass(config, at_device(), type, B, T);
  EXPECT_EQ(seen.loss.device(), at_device());
  EXPECT_LE(relative_error(seen.loss, expected.loss), loss_error);
  ASSERT_EQ(seen.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_LE(relative_error(seen.gradients.at(name), gradient), gradient_error) << name;
  }
}

TEST(Parity, SmallInFloat64) { compare(small(), at::kDouble, 2, 128, 1e-13, 1e-11); }

TEST(Parity, SmallInFloat32) { compare(small(), at::kFloat, 2, 128, 1e-6, 1e-4); }

TEST(Parity, Gpt2InFloat32) { compare(preset("gpt2-124m"), at::kFloat, 1, 64, 1e-6, 1e-4); }

}  // namespace cuda_parity_test
