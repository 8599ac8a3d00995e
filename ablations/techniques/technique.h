// A technique is one field of the recipe and all that there is to say of it: which optimizations edit it, what stands
// in their way, how it is observed and proven, how far losses may differ under it, and its text. Each has a file of its
// own in this folder. To add one: the field in model/recipe.h, what it does in model/, its file here, its name in
// techniques.cpp, a test.
#pragma once

#include "ablations/documents/common.h"
#include "ablations/documents/observations.h"
#include "ablations/techniques/text.h"
#include "harness/measure/environment.h"
#include "model/recipe.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace model {
class Trainer;
struct Ops;
}  // namespace model

namespace ablations {

// A named edit of the recipe, which ladders put on one after another.
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
  // What a rung is to be called after its proof, where that depends on the machine. nullptr, or empty: as its title.
  std::function<std::string(const Observations&)> title_seen = nullptr;
  Text text = {};
  std::vector<Claim> claims = {};

  // Why it cannot be had on this machine on top of this recipe: pointless, or what recipe_obstacle says of the recipe
  // it makes. Empty where it can.
  [[nodiscard]] std::string obstacle(const model::Recipe& recipe, const harness::Machine& machine) const;

  // Whether the recipe has what this optimization gives.
  [[nodiscard]] bool is_on(const model::Recipe& recipe, const harness::Machine& machine) const;
};

// What a proof goes by.
struct RunFacts {
  Observations observations;
  double page_faults_per_step = 0;  // median of the timed steps
  int64_t peak_bytes = 0;
  int64_t attentions = 0;  // in a step: one for each layer and micro-step
};

struct Technique {
  std::string field;  // of the recipe: "attention"
  std::vector<Optimization> optimizations = {};
  Text text = {};  // where no optimization edits the field

  // Why a step cannot be executed with the recipe's value of the field on this machine; empty: it can. Of a recipe for
  // a GPU it is asked only where there is one.
  std::function<std::string(const model::Recipe&, const harness::Machine&)> obstacle = nullptr;

  // By how much the field's value alone may make the losses of two right programs differ, in nats.
  std::function<double(const model::Recipe&)> tolerance = nullptr;

  // What the field's value adds to the loss of a right program over that of the reference, in nats, at most.
  std::function<double(const model::Recipe&, const model::Recipe& reference)> known_offset = nullptr;

  // Reads off what shows the field's value: from the process, after the timed steps and outside of any step; and from a
  // step, whose operations `watch` wraps before it. Neither asks the recipe what it wanted.
  std::function<void(model::Trainer&, Observations&)> observe = nullptr;
  std::function<void(model::Ops&, Observations&)> watch = nullptr;

  // Whether the run did what the field says, its plain value included; none where the field has no meaning for the
  // recipe's device.
  std::function<std::optional<Proof>(const model::Recipe&, const RunFacts&)> prove;
};

}  // namespace ablations
