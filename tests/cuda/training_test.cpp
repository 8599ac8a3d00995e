// Training on the device: every rung of the ladder is proven and learns what the CPU learns, a replayed graph does what
// eager steps do while data and learning rate change, a training goes on from its state, and the gradient scaler skips
// a step without asking the host.
#include "ablations/gpt2/ladder_file.h"
#include "ablations/gpt2/observe.h"
#include "ablations/gpt2/run.h"
#include "ablations/techniques/fp8/copies.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/techniques.h"
#include "files/files.h"
#include "harness/clock/clock.h"
#include "study/guard.h"
#include "tests/cuda/device.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace cuda_training_test {

using namespace study;
using namespace device_tests;
using namespace model;

// As fast as training stays stable: at 3e-3 a difference of 1e-7 in the weights has grown to 2e-2 in the loss after 50
// steps, and no two right implementations would agree; at 1e-3 it stays 1e-6.
constexpr Schedule steep{.peak = 1e-3, .floor = 3e-5, .warmup_steps = 5, .decay_steps = 40};

Recipe on_device(Recipe recipe) {
  recipe.device = device();
  return recipe;
}

// A ladder's recipes on this machine, fp16 in place of bf16, and the fused operations after them.
std::vector<Rung> rungs() {
  Ladder ladder = load_ladder(rehearsal() ? "gpt2-cpu" : "gpt2");
  std::vector<Rung> all = climb(ladder, harness::this_machine());
  std::replace(ladder.rungs.begin(), ladder.rungs.end(), std::string("bf16"), std::string("fp16"));
  for (const Rung& rung : climb(ladder, harness::this_machine())) {
    if (recipe_of(rung).autocast == Autocast::fp16) all.push_back(rung);
  }
  if (!rehearsal()) {
    for (const Rung& rung : climb(load_ladder("gpt2"), harness::this_machine())) {
      if (recipe_of(rung).norm == Norm::fused) all.push_back(rung);
    }
  }
  std::erase_if(all, [](const Rung& rung) { return rung.status != Rung::Status::planned; });
  return all;
}

TEST(Rungs, AreProvenAndLearnTheSame) {
  constexpr int64_t steps = 12;
  TrainerOptions options{.B = 4, .T = 128, .max_steps = steps};
  const std::vector<double> reference = losses(small(), {}, options);
  options.max_steps += observed_steps;
  ASSERT_GE(rungs().size(), 4U);
  for (const Rung& rung : rungs()) {
    SCOPED_TRACE(fmt::format("{}: {}", rung.title, rung.recipe.dump()));
    Trainer trainer(small(), recipe_of(rung), options, tokens(), step_parts());
    for (int64_t step = 0; step < steps; ++step) trainer.step();
    const std::vector<double> seen = trainer.losses();
    // A skipped step leaves the weights where they were: only what comes before it can be compared.
    if (trainer.skipped_steps() == 0) {
      const ExpectedLosses expected = expected_losses(recipe_of(rung));
      const Guard verdict = guard(seen, reference, expected.tolerance, expected.offset);
      EXPECT_TRUE(verdict.passed) << verdict.message;
    }
    // The page faults of a step are a run's to count; a test has other things in memory.
    const RunFacts facts{.observations = observe(trainer).observations,
                         .page_faults_per_step = 0,
                         .peak_bytes = int64_t{1} << 40,
                         .attentions = small().n_layer};
    ASSERT_TRUE(counted(facts.observations)) << facts.observations.cuda_calls->unavailable.value_or("");
    for (const Proof& proof : prove(recipe_of(rung), facts)) {
      if (proof.field == "host_memory") continue;
      EXPECT_TRUE(proof.passed) << proof.field << ": expected " << proof.expected << "; observed " << proof.observed;
    }
  }
}

// Losses of a run that is eager and of one that is replayed, over `steps` steps of new data under a moving learning
// rate.
void compare_with_eager(Recipe recipe, TrainerOptions options) {
  SCOPED_TRACE(to_json(recipe).dump());
  options.max_steps = 3 + 50;  // three eager ones come first
  options.schedule = steep;
  recipe.execution = Execution::eager;
  const std::vector<double> eager = losses(small(), recipe, options);
  expect_learns(eager);
  const bool repeats_to_the_bit = eager == losses(small(), recipe, options);
  recipe.execution = Execution::graph;
  const std::vector<double> replayed = losses(small(), recipe, options);
  // The host's double precision factors and the device's float32 ones differ in the last place; one fused kernel does
  // not.
  const bool same_kernels = recipe.optimizer == Optimizer::fused;
  // The others add up with atomics: two eager runs that agree may have been lucky. Deterministic tests those.
  const bool is_ordered = recipe.attention == Attention::manual || recipe.attention == Attention::math;
  if (same_kernels && is_ordered && repeats_to_the_bit) {
    expect_same(replayed, eager);
    return;
  }
  for (size_t i = 0; i < eager.size(); ++i) {
    EXPECT_NEAR(replayed[i], eager[i], recipe.autocast == Autocast::off ? 2e-3 : 3e-2) << "step " << i;
  }
}

TEST(Graph, RepeatsWhatEagerStepsDo) {
  if (rehearsal()) GTEST_SKIP() << "a CPU has no graphs";
  const TrainerOptions options{.B = 2, .T = 128};
  compare_with_eager(on_device({.optimizer = Optimizer::fused}), options);
  compare_with_eager(on_device({.matmul_precision = MatmulPrecision::high, .optimizer = Optimizer::fused}), options);
  compare_with_eager(on_device({.optimizer = Optimizer::loop}), options);
  compare_with_eager(on_device({.optimizer = Optimizer::foreach}), options);
  for (const Attention attention :
       {Attention::manual, Attention::math, Attention::efficient, Attention::flash, Attention::cudnn}) {
    compare_with_eager(on_device({.autocast = Autocast::bf16, .attention = attention, .optimizer = Optimizer::fused}),
                       options);
  }
  compare_with_eager(
      on_device({.autocast = Autocast::fp16, .attention = Attention::flash, .optimizer = Optimizer::fused}), options);
}

TEST(Graph, HoldsAllMicroSteps) {
  if (rehearsal()) GTEST_SKIP() << "a CPU has no graphs";
  compare_with_eager(on_device({.optimizer = Optimizer::fused}), {.B = 2, .T = 64, .accumulation = 3});
}

TEST(Graph, IsCapturedAgainWithoutATrace) {
  if (rehearsal()) GTEST_SKIP() << "a CPU has no graphs";
  const Recipe recipe = on_device({.autocast = Autocast::bf16,
                                   .attention = Attention::flash,
                                   .execution = Execution::graph,
                                   .optimizer = Optimizer::fused});
  const TrainerOptions options{.B = 2, .T = 64, .max_steps = 20, .schedule = steep};
  const std::vector<double> expected = losses(small(), recipe, options);
  expect_learns(expected);
  Trainer trainer(small(), recipe, options, tokens(), step_parts());
  for (int64_t step = 0; step < options.max_steps; ++step) {
    if (step == 7 || step == 12) trainer.recapture();
    trainer.step();
  }
  const std::vector<double> seen = trainer.losses();
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], expected[i], 1e-2) << "step " << i;
}

// Step by step against its own weights: a graph that read stale data or a frozen learning rate would not move so.
TEST(Graph, FollowsTheSchedule) {
  if (rehearsal()) GTEST_SKIP() << "a CPU has no graphs";
  const Recipe recipe = on_device({.execution = Execution::graph, .optimizer = Optimizer::fused});
  TrainerOptions options{
      .B = 2, .T = 64, .max_steps = 20, .schedule = {.peak = 1e-3, .floor = 0.0, .warmup_steps = 0, .decay_steps = 10}};
  Trainer trainer(small(), recipe, options, tokens(), step_parts());
  const auto weights = [&] { return trainer.model().parameters().front().tensor.detach().clone(); };
  at::Tensor before = weights();
  for (int64_t step = 0; step < options.max_steps; ++step) {
    trainer.step();
    const at::Tensor after = weights();
    if (options.schedule.at(step) > 0) {
      EXPECT_FALSE(at::equal(before, after)) << "step " << step;
    } else {
      EXPECT_TRUE(at::equal(before, after)) << "step " << step << " has learning rate 0";
    }
    before = after;
  }
}

// Whether a replay takes what AdamW has left of them, or others have changed a weight since.
TEST(Fp8, ScalesAreThoseOfTheWeightsThatAStepBeginsWith) {
  if (rehearsal()) GTEST_SKIP() << "a CPU emulates fp8";
  const std::vector<Rung> all = rungs();
  const auto rung = std::ranges::find_if(all, [](const Rung& one) { return recipe_of(one).fp8 == model::Fp8::all; });
  if (rung == all.end()) GTEST_SKIP() << "no rung of this machine has its layers in fp8";
  Trainer trainer(small(), recipe_of(*rung), {.B = 2, .T = 64, .max_steps = 12}, tokens(), step_parts());
  std::vector<at::Tensor> weights;
  for (const Parameter& parameter : trainer.model().parameters()) {
    if (fp8::weight_of(parameter.tensor)) weights.push_back(parameter.tensor);
  }
  ASSERT_EQ(weights.size(), 1 + 3 * static_cast<size_t>(small().n_layer));
  for (int64_t step = 0; step < 12; ++step) {
    SCOPED_TRACE(step);
    if (step % 5 == 1) (void)trainer.evaluate(tokens(), 1);
    if (step == 2 || step == 8) {
      for (const at::Tensor& weight : weights) weight.mul_(0.5);
    }
    std::vector<float> greatest;
    for (const at::Tensor& weight : weights) greatest.push_back(weight.abs().amax().item<float>());
    trainer.step();
    for (size_t i = 0; i < weights.size(); ++i)
      EXPECT_EQ(fp8::weight_of(weights[i])->rows.scales[0].item<float>(), 1 / (448 / greatest[i])) << i;
  }
}

TEST(Scaler, SkipsAPlantedInfinityAndGoesOn) {
  for (const Execution execution : {Execution::eager, Execution::graph}) {
    if (rehearsal() && execution == Execution::graph) continue;
    for (const Optimizer optimizer : {Optimizer::loop, Optimizer::foreach, Optimizer::fused}) {
      const Recipe recipe = on_device({.autocast = Autocast::fp16, .execution = execution, .optimizer = optimizer});
      SCOPED_TRACE(to_json(recipe).dump());
      Trainer trainer(small(), recipe, {.B = 2, .T = 64, .max_steps = 16}, tokens(), step_parts());
      for (int i = 0; i < 8; ++i) trainer.step();
      const int64_t skipped = trainer.skipped_steps();
      const double scale = trainer.loss_scale();
      const at::Tensor norm = [&] {
        for (const Parameter& parameter : trainer.model().parameters()) {
          if (parameter.name == "ln_f.weight") return parameter.tensor.detach();
        }
        throw std::logic_error("no ln_f.weight");
      }();
      const at::Tensor good = norm.clone();
      norm.fill_(1e6);  // beyond float16
      const at::Tensor before = trainer.model().parameters().front().tensor.detach().clone();
      trainer.step();
      trainer.step();
      EXPECT_EQ(trainer.skipped_steps(), skipped + 2);
      EXPECT_EQ(trainer.loss_scale(), scale / 4);
      EXPECT_TRUE(at::equal(trainer.model().parameters().front().tensor, before));
      norm.copy_(good);
      for (int i = 0; i < 4; ++i) trainer.step();
      EXPECT_EQ(trainer.skipped_steps(), skipped + 2);
      EXPECT_FALSE(at::equal(trainer.model().parameters().front().tensor, before));
      EXPECT_TRUE(std::isfinite(trainer.losses().back()));
    }
  }
}

TEST(Data, ArrivesInOrderWhileStepsCompute) {
  const TrainerOptions options{.B = 2, .T = 64, .accumulation = 2, .max_steps = 30, .seed = 4};
  const std::vector<double> cpu = losses(small(), {}, options);
  const std::vector<double> seen = losses(small(), on_device({}), options);
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(seen[i], cpu[i], 1e-3) << "step " << i;
}

// A training that is evaluated now and then, and one that goes on from the middle of it. Sums may come in another
// order.
TEST(Training, GoesOnFromItsStateAndIsEvaluatedInBetween) {
  constexpr int64_t steps = 16, half = 8;
  for (const Execution execution : {Execution::eager, Execution::graph}) {
    if (rehearsal() && execution == Execution::graph) continue;  // a CPU has none
    const Recipe recipe = on_device({.execution = execution, .vocabulary_rows = 50304, .optimizer = Optimizer::fused});
    TrainerOptions options{.B = 2, .T = 64, .accumulation = 2, .max_steps = steps, .schedule = steep};
    const std::vector<double> undisturbed = losses(small(), recipe, options);
    std::map<std::string, at::Tensor> state;
    std::vector<at::Tensor> weights;
    std::vector<StepValues> expected;
    {
      Trainer whole(small(), recipe, options, tokens(), step_parts());
      for (int64_t step = 1; step <= steps; ++step) {
        whole.step();
        if (step % 3 == 0) (void)whole.evaluate(tokens(), 2);
        if (step != half) continue;
        for (const auto& [name, tensor] : whole.state()) state[name] = tensor.clone();
        for (const Parameter& parameter : whole.model().parameters())
          weights.push_back(parameter.tensor.detach().clone());
      }
      const std::vector<double> evaluated = whole.losses();
      for (size_t i = 0; i < evaluated.size(); ++i) EXPECT_NEAR(evaluated[i], undisturbed[i], 2e-3) << i;
      expected = whole.values(half);
    }
    options.first_step = half;
    Trainer second(small(), recipe, options, tokens(), step_parts());
    for (size_t i = 0; i < weights.size(); ++i) second.model().parameters()[i].tensor.data().copy_(weights[i]);
    second.load_state(state, "state");
    for (int64_t step = half; step < steps; ++step) second.step();
    const std::vector<StepValues> seen = second.values(half);
    ASSERT_EQ(seen.size(), expected.size());
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_NEAR(seen[i].loss, expected[i].loss, 2e-3) << i;
      EXPECT_NEAR(seen[i].norm / expected[i].norm, 1, 2e-2) << i;
      EXPECT_NEAR(seen[i].clip, std::min(1.0, 1 / (seen[i].norm + 1e-6)), 1e-5) << i;
    }
  }
}

// Ranks of one, for which no second GPU is needed: NCCL is captured, and the mean over one rank changes nothing. The
// answer to an interrupt comes two steps later.
TEST(Ranks, ReduceWithinTheGraph) {
  if (rehearsal()) GTEST_SKIP() << "a CPU has no graphs";
  const Recipe separate = on_device({.execution = Execution::graph, .optimizer = Optimizer::fused});
  for (Recipe recipe : std::vector<Recipe>{separate, recipe_of(rungs().back())}) {
    const TrainerOptions options{.B = 2, .T = 64, .accumulation = 2, .max_steps = 20, .schedule = steep};
    const std::vector<double> expected = losses(small(), recipe, options);
    recipe.data_parallel = Parallel::ddp;
    SCOPED_TRACE(to_json(recipe).dump());
    Trainer trainer(small(), recipe, options, tokens(), step_parts());
    for (int64_t step = 0; step < options.max_steps; ++step) {
      trainer.step();
      EXPECT_EQ(trainer.on_any_rank(step >= 8), step >= 10) << step;
    }
    const std::vector<double> seen = trainer.losses();
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], expected[i], 3e-2) << "step " << i;
    expect_learns(seen);
  }
}

class Steps : public harness::Workload {
 public:
  Steps() : trainer_(small(), on_device({}), {.B = 4, .T = 128, .max_steps = 12}, tokens(), step_parts()) {}
  void step() override { trainer_.step(); }
  void synchronize() override { trainer_.synchronize(); }
  [[nodiscard]] bool on_cuda() const override { return true; }

 private:
  Trainer trainer_;
};

TEST(Clock, EventsFitIntoTheHostsWindow) {
  if (rehearsal()) GTEST_SKIP() << "a CPU has no events";
  Steps steps;
  const harness::Timing timing = harness::measure(steps, 4, 8);
  ASSERT_TRUE(timing.device_ms.has_value());
  EXPECT_GT(*timing.device_ms, 0);
  EXPECT_LE(*timing.device_ms, timing.window_ms * 1.001);  // two clocks
  EXPECT_EQ(timing.step_ms.size(), 12U);
  for (const double ms : timing.step_ms) EXPECT_GT(ms, 0);
}

TEST(Clock, LeavesOutNothingBetweenTwoSteps) {
  if (rehearsal()) GTEST_SKIP() << "a CPU has no events";
  Steps steps;
  const auto pause = [](int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(40)); };
  const harness::Timing timing = harness::measure(steps, 4, 8, pause);
  EXPECT_GT(*timing.device_ms, 0.999 * 7 * 40);  // the last pause comes after the last step
  EXPECT_LE(*timing.device_ms, timing.window_ms * 1.001);
}

TEST(Memory, ThatIsNotThereIsReported) {
  if (rehearsal()) GTEST_SKIP() << "the host's memory is not to be filled";
  const files::TemporaryFolder temporary("ladder-device-test");
  const std::vector<uint16_t> tokens(1100000, 7);
  write_tokens(temporary.path() / "tokens.bin", tokens);
  RunOptions options;
  options.B = 1024;
  options.T = 1024;  // a float32 attention matrix of one layer: 48 GiB
  options.data = temporary.path() / "tokens.bin";
  options.recipe = on_device({});
  const Record record = execute_run(options, [](int64_t) {});
  ASSERT_FALSE(record.is_ok());
  EXPECT_EQ(record.failure->kind, FailureKind::out_of_memory);
  EXPECT_NE(record.failure->message.find("GiB on the device"), std::string::npos);
  c10::cuda::CUDACachingAllocator::emptyCache();
}

}  // namespace cuda_training_test
