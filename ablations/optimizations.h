// The registry: every optimization that a ladder may name. To add one: give the recipe a field or a value
// (model/recipe.h), have the trainer act on it, prove the value (proof.cpp), and enter it here.
#pragma once

#include "harness/environment.h"
#include "model/recipe.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

namespace ablations {

struct Optimization {
  std::string name;                   // in ladder files: "bf16"
  std::string title;                  // in tables: "bf16 autocast"
  std::string summary;                // two sentences for a newcomer
  std::vector<std::string> needs;     // optimizations that must come before
  std::vector<std::string> excludes;  // optimizations that must not have come before
  double loss_tolerance;              // nats per token by which it may move a step's loss
  std::function<void(model::Recipe&, const harness::Machine&)> edit;
  // Why it cannot be had on this machine on top of this recipe; empty where it can.
  std::function<std::string(const model::Recipe&, const harness::Machine&)> obstacle;

  // Whether the recipe has what this optimization gives.
  [[nodiscard]] bool is_on(const model::Recipe& recipe, const harness::Machine& machine) const;
};

const std::vector<Optimization>& registry();

// nullptr for an unknown name.
const Optimization* find_optimization(const std::string& name);

// What a rung is to be called after its proof: the name of an optimization whose effect depends on the machine follows
// the numerical fingerprint. `observations` of one of its runs.
std::string title_after_proof(const Optimization& optimization, const nlohmann::json& observations);

}  // namespace ablations
