// Two runs of a deterministic recipe have the same losses to the bit, under every attention of the device that has a
// deterministic backward pass, step by step and replayed.
#include "ablations/run/observe.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/techniques.h"
#include "tests/cuda/device.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace cuda_determinism_test {

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
