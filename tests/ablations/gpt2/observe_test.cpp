// What a run is seen to do: memory's parts, the peak.
#include "ablations/gpt2/observe.h"

#include "ablations/gpt2/memory.h"
#include "ablations/techniques/operations.h"
#include "model/trainer.h"
#include "tests/ablations/techniques/numbers.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <typeinfo>

namespace observe_test {

using namespace ablations;
using namespace model;

TEST(Observe, TellsActivationsFromWeights) {
  const auto activations = [](const TrainerOptions& options) {
    const TokenStream stream = numbers::text();
    Trainer trainer(preset("tiny"), {}, options, stream, step_parts());
    trainer.step();
    const MemoryParts memory = observe(trainer).memory;
    EXPECT_EQ(memory.weights, 4 * preset("tiny").parameters());
    EXPECT_EQ(memory.gradients, memory.weights);
    EXPECT_EQ(memory.optimizer, 2 * memory.weights);
    return static_cast<double>(memory.activations);
  };
  const double one = activations({.B = 2, .T = 32, .max_steps = 1 + observed_steps});
  // The logarithms of the probabilities alone: one float for each token and word of the vocabulary.
  EXPECT_GT(one, 2 * 32 * 50257 * 4);
  EXPECT_LT(one, 5 * 2 * 32 * 50257 * 4);
  EXPECT_NEAR(activations({.B = 4, .T = 32, .max_steps = 1 + observed_steps}) / one, 2.0, 0.02);
  EXPECT_NEAR(activations({.B = 2, .T = 32, .accumulation = 3, .max_steps = 1 + observed_steps}) / one, 1.0, 0.02);
}

// Under autocast a step without tokens would still leave the weights' 16-bit copies for backward: what two batch sizes
// show at B = 0 is what was counted apart.
TEST(Observe, TellsActivationsFromCopiesOfWeights) {
  struct Case {
    MemoryParts memory;
    int64_t copies;  // as counted from shapes
  };
  const auto memory_of = [](const Recipe& recipe, int64_t B) -> Case {
    const TokenStream stream = numbers::text();
    Trainer trainer(preset("tiny"), recipe, {.B = B, .T = 32, .max_steps = 1 + observed_steps}, stream, step_parts());
    trainer.step();
    const MemoryParts memory = observe(trainer).memory;
    int64_t in_products = 0, in_layer_norms = 0;  // parameters
    for (const Parameter& parameter : trainer.model().parameters()) {
      if (parameter.name.find("ln_") != std::string::npos)
        in_layer_norms += parameter.tensor.numel();
      else if (parameter.tensor.dim() == 2 && parameter.name != "wpe.weight")
        in_products += parameter.tensor.numel();
    }
    return {memory, 2 * (in_products + (recipe.residual == Residual::autocast ? in_layer_norms : 0))};
  };
  for (const Residual residual : {Residual::float32, Residual::autocast}) {
    const Recipe bf16{.autocast = Autocast::bf16, .residual = residual};
    const auto two = memory_of(bf16, 2), four = memory_of(bf16, 4);
    EXPECT_EQ(two.memory.weight_copies, two.copies);
    EXPECT_EQ(four.memory.weight_copies, two.copies);
    const auto activations = static_cast<double>(two.memory.activations), copies = static_cast<double>(two.copies);
    const auto of_four = static_cast<double>(four.memory.activations);
    EXPECT_NEAR(of_four / activations, 2.0, 0.02);
    const double at_zero = 2 * (activations + copies) - (of_four + copies);
    EXPECT_NEAR(at_zero / copies, 1.0, 0.02);
  }
  EXPECT_EQ(memory_of({}, 2).memory.weight_copies, 0);
}

TEST(Observe, LeavesATrainerAsItWasWhereAStepFails) {
  const TokenStream stream = numbers::text();
  Trainer trainer(preset("tiny"), {}, {.B = 2, .T = 32, .max_steps = 1 + observed_steps}, stream, step_parts());
  trainer.ops().attention = [](const at::Tensor&, const at::Tensor&, const at::Tensor&) -> at::Tensor {
    throw std::runtime_error("planted");
  };
  const std::type_info& head = trainer.ops().head.target_type();
  const std::type_info& on_phase = trainer.on_phase.target_type();
  EXPECT_THROW((void)observe(trainer), std::runtime_error);
  EXPECT_TRUE(trainer.ops().head.target_type() == head);
  EXPECT_TRUE(trainer.on_phase.target_type() == on_phase);
}

void plant_peak(size_t bytes) {
  void* const block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, bytes);
  ::munmap(block, bytes);
}

TEST(PeakMemory, OfTheTimedStepsKnowsNothingOfEarlierOnes) {
  if (::access("/proc/self/clear_refs", W_OK) != 0) GTEST_SKIP() << "this kernel forgets no peak";
  constexpr int64_t mib = int64_t{1} << 20;
  reset_peak_memory({});  // other tests had theirs
  PeakWatch watch({});
  plant_peak(512 * mib);
  watch.begin_window();
  plant_peak(256 * mib);
  const PeakMemory found = watch.peak();
  EXPECT_NEAR(static_cast<double>(found.run_peak_bytes.value() - found.peak_bytes), 256 * mib, 56 * mib);
  reset_peak_memory({});
  EXPECT_LT(peak_memory({}).peak_bytes, found.peak_bytes - 200 * mib);
}

}  // namespace observe_test
