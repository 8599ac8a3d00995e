// Data parallel training, of a single rank: seen to be on and off, and the same steps. tests/program/test_ranks.py
// has more ranks.
#include "model/data_parallel.h"

#include "ablations/gpt2/observe.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/techniques.h"
#include "model/trainer.h"
#include "tests/ablations/techniques/numbers.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace data_parallel_test {

using namespace ablations;
using namespace model;

constexpr int64_t accumulation = 2;

const Recipe separate, master{.cross_entropy = CrossEntropy::fused,
                              .norm = Norm::fused,
                              .mlp = Mlp::fused,
                              .optimizer = Optimizer::fused,
                              .weights = Weights::master};

Recipe with(Parallel parallel, Recipe recipe) {
  recipe.data_parallel = parallel;
  return recipe;
}

struct Steps {
  Observed observed;
  std::vector<double> losses;
};

Steps steps_of(const Recipe& recipe) {
  const TokenStream stream = numbers::text();
  Trainer trainer(preset("tiny"), recipe,
                  {.B = 2, .T = 32, .accumulation = accumulation, .max_steps = 3 + observed_steps}, stream,
                  step_parts());
  trainer.step();
  trainer.step_alone();  // of one rank: the same step
  trainer.step();
  Observed observed = observe(trainer);
  return {std::move(observed), trainer.losses()};
}

bool passes(const Recipe& claimed, const Observations& observations, const char* field = "data_parallel") {
  const std::vector<Proof> all = prove(claimed, {.observations = observations, .attentions = 2 * accumulation});
  return std::ranges::find(all, field, &Proof::field)->passed;
}

TEST(DataParallelTechnique, IsProvenByWhatIsReduced) {
  for (const Recipe& recipe : {separate, master}) {
    const Recipe none = with(Parallel::none, recipe), ddp = with(Parallel::ddp, recipe);
    const Steps off = steps_of(none), on = steps_of(ddp);
    const Observations &of_off = off.observed.observations, &of_on = on.observed.observations;
    EXPECT_TRUE(passes(none, of_off));
    EXPECT_TRUE(passes(ddp, of_on));
    EXPECT_FALSE(passes(none, of_on));
    EXPECT_FALSE(passes(ddp, of_off));
    EXPECT_TRUE(passes(ddp, of_on, "weights"));
    EXPECT_EQ(on.losses, off.losses) << "the mean over one rank changes nothing";
  }
}

// On a CPU the answer comes with the next step.
TEST(DataParallel, AnInterruptTravelsWithTheGradients) {
  const TokenStream stream = numbers::text();
  for (const Recipe& recipe : {separate, master}) {
    Trainer trainer(preset("tiny"), with(Parallel::ddp, recipe), {.B = 1, .T = 8, .max_steps = 4}, stream,
                    step_parts());
    std::vector<bool> answers;
    for (const bool interrupted : {false, true, false, false}) {
      trainer.step();
      answers.push_back(trainer.on_any_rank(interrupted));
    }
    EXPECT_EQ(answers, (std::vector<bool>{false, false, true, true}));
  }
}

TEST(DataParallelTechnique, AGradientThatIsLeftOutOrReducedTwiceIsFound) {
  const Observations on = steps_of(with(Parallel::ddp, separate)).observed.observations;
  for (const double times : {0.5, 2.0}) {
    Observations other = on;
    other.all_reduces->bytes = static_cast<int64_t>(times * static_cast<double>(on.all_reduces->bytes));
    EXPECT_FALSE(passes(with(Parallel::ddp, separate), other)) << times;
  }
  Observations unwatched = on;
  unwatched.all_reduces.reset();
  EXPECT_FALSE(passes(with(Parallel::ddp, separate), unwatched));
  EXPECT_FALSE(passes(separate, unwatched));
}

}  // namespace data_parallel_test
