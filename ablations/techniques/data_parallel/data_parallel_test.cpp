// Data parallel training, of a single rank: seen to be on and off, and the same steps. tests/program/test_ranks.py
// has more ranks.
#include "model/data_parallel.h"

#include "tests/ablations/techniques/proven.h"

#include <gtest/gtest.h>

namespace data_parallel_test {

using namespace proven;

const Recipe separate, master{.cross_entropy = CrossEntropy::fused,
                              .norm = Norm::fused,
                              .mlp = Mlp::fused,
                              .optimizer = Optimizer::fused,
                              .weights = Weights::master};

Recipe with(Parallel parallel, Recipe recipe) {
  recipe.data_parallel = parallel;
  return recipe;
}

// What was seen, and the losses.
std::pair<RunFacts, std::vector<double>> steps_of(const Recipe& recipe) {
  const TokenStream stream = numbers::text();
  Trainer trainer(preset("tiny"), recipe, {.B = 2, .T = 32, .accumulation = 2, .max_steps = 3 + observed_steps}, stream,
                  step_parts());
  trainer.step();
  trainer.step_alone();  // of one rank: the same step
  trainer.step();
  RunFacts run = facts_of(observe(trainer).observations);
  return {run, trainer.losses()};
}

TEST(DataParallelTechnique, IsProvenByWhatIsReduced) {
  for (const Recipe& recipe : {separate, master}) {
    const Recipe none = with(Parallel::none, recipe), ddp = with(Parallel::ddp, recipe);
    const auto [of_off, losses_off] = steps_of(none);
    const auto [of_on, losses_on] = steps_of(ddp);
    EXPECT_TRUE(passes("data_parallel", none, of_off) && passes("data_parallel", ddp, of_on));
    EXPECT_FALSE(passes("data_parallel", none, of_on) || passes("data_parallel", ddp, of_off));
    EXPECT_TRUE(passes("weights", ddp, of_on));
    EXPECT_EQ(losses_on, losses_off) << "the mean over one rank changes nothing";
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
  const Recipe ddp = with(Parallel::ddp, separate);
  const RunFacts on = steps_of(ddp).first;
  for (const double times : {0.5, 2.0}) {
    RunFacts other = on;
    int64_t& bytes = other.observations.all_reduces->bytes;
    bytes = static_cast<int64_t>(times * static_cast<double>(bytes));
    EXPECT_FALSE(passes("data_parallel", ddp, other)) << times;
  }
  RunFacts unwatched = on;
  unwatched.observations.all_reduces.reset();
  EXPECT_FALSE(passes("data_parallel", ddp, unwatched) || passes("data_parallel", separate, unwatched));
}

}  // namespace data_parallel_test
