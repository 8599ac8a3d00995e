// The registry: every optimization that a ladder may name. To add one: give the recipe a field or a value
// (model/recipe.h), have the trainer act on it, prove the value (ablations/run/proof.cpp), and enter it here.
#pragma once

#include "harness/environment.h"
#include "model/recipe.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

namespace ablations {

struct Optimization {
  std::string name;                        // in ladder files: "bf16"
  std::string title;                       // in tables: "bf16 autocast"
  std::string summary;                     // two sentences for a newcomer
  std::vector<std::string> needs = {};     // optimizations that must come before
  std::vector<std::string> excludes = {};  // optimizations that must not have come before
  std::function<void(model::Recipe&, const harness::Machine&)> edit;
  // Why it is no optimization on this machine on top of this recipe, though the recipe it makes may be possible;
  // nullptr: it is one everywhere.
  std::function<std::string(const model::Recipe&, const harness::Machine&)> pointless = nullptr;

  // Why it cannot be had on this machine on top of this recipe: pointless, or what recipe_obstacle says of the recipe
  // it makes. Empty where it can.
  [[nodiscard]] std::string obstacle(const model::Recipe& recipe, const harness::Machine& machine) const;

  // Whether the recipe has what this optimization gives.
  [[nodiscard]] bool is_on(const model::Recipe& recipe, const harness::Machine& machine) const;
};

const std::vector<Optimization>& registry();

// Why a step cannot be executed as the recipe says on this machine; empty where it can. Asked before a run, so that
// nothing falls back to something else and nothing fails half-way.
std::string recipe_obstacle(const model::Recipe& recipe, const harness::Machine& machine);

// nullptr for an unknown name.
const Optimization* find_optimization(const std::string& name);

// Whether somebody who typed this means what has that name and title: in any case, with or without the "+ " of tables,
// and also by the title that a proof has made of it ("oneDNN float32 products" is meant for "oneDNN products").
bool is_meant(const std::string& typed, const std::string& name, const std::string& title);

// What a rung is to be called after its proof: the name of an optimization whose effect depends on the machine follows
// the numerical fingerprint. `observations` of one of its runs.
std::string title_after_proof(const Optimization& optimization, const nlohmann::json& observations);

}  // namespace ablations
