// Data parallel training, of a single rank: seen to be on and off, and the same steps. tests/program/test_ranks.py
// has more ranks.
#include "model/data_parallel.h"

#include "ablations/run/observe.h"
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

struct Steps {
  Observed observed;
  std::vector<double> losses;
};

Steps steps_of(Parallel parallel) {
  const TokenStream stream = numbers::text();
  Recipe recipe;
  recipe.data_parallel = parallel;
  Trainer trainer(preset("tiny"), recipe,
                  {.B = 2, .T = 32, .accumulation = accumulation, .max_steps = 3 + observed_steps}, stream,
                  step_parts());
  trainer.step();
  trainer.step_alone();  // of one rank: the same step
  trainer.step();
  Observed observed = observe(trainer);
  return {std::move(observed), trainer.losses()};
}

std::vector<Proof> proofs(Parallel claimed, const Observations& observations) {
  Recipe recipe;
  recipe.data_parallel = claimed;
  return prove(recipe, {.observations = observations, .attentions = 2 * accumulation});
}

bool passes(Parallel claimed, const Observations& observations, const char* field = "data_parallel") {
  const std::vector<Proof> all = proofs(claimed, observations);
  return std::ranges::find(all, field, &Proof::field)->passed;
}

TEST(DataParallelTechnique, IsProvenByWhatIsReduced) {
  const Steps off = steps_of(Parallel::none), on = steps_of(Parallel::ddp);
  const Observations &of_off = off.observed.observations, &of_on = on.observed.observations;
  EXPECT_TRUE(passes(Parallel::none, of_off));
  EXPECT_TRUE(passes(Parallel::ddp, of_on));
  EXPECT_FALSE(passes(Parallel::none, of_on));
  EXPECT_FALSE(passes(Parallel::ddp, of_off));
  EXPECT_TRUE(passes(Parallel::ddp, of_on, "weights"));
  EXPECT_EQ(on.losses, off.losses) << "the mean over one rank changes nothing";
}

TEST(DataParallelTechnique, AGradientThatIsLeftOutOrReducedTwiceIsFound) {
  const Observations on = steps_of(Parallel::ddp).observed.observations;
  for (const double times : {0.5, 2.0}) {
    Observations other = on;
    other.all_reduces->bytes = static_cast<int64_t>(times * static_cast<double>(on.all_reduces->bytes));
    EXPECT_FALSE(passes(Parallel::ddp, other)) << times;
  }
  Observations unwatched = on;
  unwatched.all_reduces.reset();
  EXPECT_FALSE(passes(Parallel::ddp, unwatched));
  EXPECT_FALSE(passes(Parallel::none, unwatched));
}

TEST(DataParallelTechnique, RefusesWhatHasNoGradientsOfAutograd) {
  EXPECT_EQ(data_parallel_obstacle({.data_parallel = Parallel::ddp}), "");
  EXPECT_NE(data_parallel_obstacle({.weights = Weights::master, .data_parallel = Parallel::ddp}).find("weights master"),
            std::string::npos);
  EXPECT_NE(data_parallel_obstacle({.device = Device::cuda, .execution = Execution::graph}).find("eager"),
            std::string::npos);
}

}  // namespace data_parallel_test
