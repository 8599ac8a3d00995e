// Whether a run did what its recipe says: each field of the recipe against what was observed. A flag that was set
// proves nothing; what counts is the error of a product, the node that attention left in the autograd graph, the
// operations and library calls that were made, the page faults that were not.
#pragma once

#include "model/recipe.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace ablations {

struct Proof {
  std::string field;  // of the recipe
  bool passed;
  std::string expected;  // in words
  std::string observed;
};

struct RunFacts {
  nlohmann::json observations;      // of observe()
  double page_faults_per_step = 0;  // median of the timed steps
  int64_t peak_bytes = 0;
  int64_t attentions = 0;  // in a step: one for each layer and micro-step
};

// One proof for each field of the recipe, the plain values of a baseline included. Throws nlohmann::json::exception
// where an observation is missing.
std::vector<Proof> prove(const model::Recipe& recipe, const RunFacts& facts);

nlohmann::json to_json(const std::vector<Proof>& proofs);

}  // namespace ablations
