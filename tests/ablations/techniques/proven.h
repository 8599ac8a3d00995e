// What a run of a small model is seen to do, and what is proven of it.
#pragma once

#include "ablations/gpt2/observe.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/techniques.h"
#include "model/trainer.h"
#include "tests/ablations/techniques/numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace proven {

using namespace ablations;
using namespace model;

// `sabotage` comes between making the trainer and its steps.
using Sabotage = std::function<void(Trainer&)>;

inline Observed seen(const Recipe& recipe, const Sabotage& sabotage = nullptr, int64_t micro_steps = 2) {
  const TokenStream stream = numbers::text();
  Trainer trainer(preset("tiny"), recipe,
                  {.B = 2, .T = 32, .accumulation = micro_steps, .max_steps = 1 + observed_steps}, stream,
                  step_parts());
  if (sabotage) sabotage(trainer);
  trainer.step();
  return observe(trainer);
}

inline RunFacts facts_of(const Observations& observations, int64_t micro_steps = 2) {
  return {.observations = observations,
          .page_faults_per_step = 0,
          .peak_bytes = int64_t{1} << 30,
          .attentions = 2 * micro_steps};
}

inline RunFacts facts(const Recipe& recipe, const Sabotage& sabotage = nullptr, int64_t micro_steps = 2) {
  return facts_of(seen(recipe, sabotage, micro_steps).observations, micro_steps);
}

inline Proof proof(const std::string& field, const Recipe& claimed, const RunFacts& run) {
  const std::vector<Proof> all = prove(claimed, run);
  const auto found = std::ranges::find(all, field, &Proof::field);
  if (found == all.end()) throw std::runtime_error("no proof of " + field);
  return *found;
}

inline bool passes(const std::string& field, const Recipe& claimed, const RunFacts& run) {
  return proof(field, claimed, run).passed;
}

// Each of the recipes is proven by its own run, and by no other's.
inline void expect_told_apart(const std::string& field, const std::vector<Recipe>& recipes) {
  for (const Recipe& really : recipes) {
    const RunFacts run = facts(really);
    for (const Recipe& claimed : recipes) {
      const Proof found = proof(field, claimed, run);
      EXPECT_EQ(found.passed, claimed == really)
          << field << ": expected " << found.expected << "; observed " << found.observed;
    }
  }
}

// But for the host's memory, of which the process decides.
inline void expect_all_proven(const Recipe& recipe, const RunFacts& run) {
  for (const Proof& one : prove(recipe, run)) {
    EXPECT_TRUE(one.passed || one.field == "host_memory") << one.field << ": " << one.observed;
  }
}

// An operation that is `one` and `other` by turns.
template <class Operation>
Operation by_turns(const Operation& one, const Operation& other) {
  return [one, other, n = 0](auto&&... arguments) mutable {
    return n++ % 2 == 0 ? one(arguments...) : other(arguments...);
  };
}

}  // namespace proven
