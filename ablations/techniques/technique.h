// A technique is one field of the recipe with everything about it. It knows the optimizations that edit it, what can
// prevent them, its proof, how far losses may differ under it, and its text. A run observes the field as observers.h
// says. To add one: the field in model/recipe.h, its effect in model/, its folder here, its name in techniques.cpp, a
// test.
#pragma once

#include "ablations/techniques/step_table.h"
#include "harness/machine/machine.h"
#include "model/recipe.h"
#include "results/common.h"
#include "results/observations.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ablations {

// A named edit of the recipe. A ladder applies one after another. Its text for new readers is the file NAME.md in the
// folder of its field.
struct Optimization {
  std::string name;                        // in ladder files: "bf16"
  std::string title;                       // in tables: "bf16 autocast"
  std::string summary;                     // two sentences for a newcomer
  std::vector<std::string> needs = {};     // optimizations that must come before
  std::vector<std::string> excludes = {};  // optimizations that must not have come before
  std::function<void(model::Recipe&, const harness::Machine&)> edit;
  // Why it is of no use on this machine on top of this recipe, although the resulting recipe may be possible. Null: it
  // is useful everywhere.
  std::function<std::string(const model::Recipe&, const harness::Machine&)> pointless = nullptr;
  // The title of a rung after its proof, if that depends on the machine. nullptr, or empty: `title`.
  std::function<std::string(const Observations&)> title_seen = nullptr;
  // The operations that it replaces (trace_run.h), and what its own are called. "mlp" and "fused" make mlp_fused among
  // the micro benchmarks.
  std::vector<std::string> replaces = {};
  std::string by = {};

  // Why it cannot be applied on this machine on top of this recipe: from `pointless`, or recipe_obstacle of the
  // resulting recipe. Empty if it can.
  [[nodiscard]] std::string obstacle(const model::Recipe& recipe, const harness::Machine& machine) const;

  // Whether this optimization is on in the recipe.
  [[nodiscard]] bool is_on(const model::Recipe& recipe, const harness::Machine& machine) const;
};

// The facts that a proof uses.
struct RunFacts {
  Observations observations;
  double page_faults_per_step = 0;  // median of the timed steps
  int64_t peak_bytes = 0;
  int64_t attentions = 0;  // in a step: one for each layer and micro-step
};

struct Technique {
  std::string field;  // of the recipe: "attention"
  std::vector<Optimization> optimizations = {};

  // Why a step cannot be executed with the recipe's value of the field on this machine; empty: it can. For a GPU's
  // recipe it is called only if there is a GPU.
  std::function<std::string(const model::Recipe&, const harness::Machine&)> obstacle = nullptr;

  // How far the losses of two correct programs may differ because of the field's value alone, in nats.
  std::function<double(const model::Recipe&)> tolerance = nullptr;

  // Changes what a step computes, moves and keeps in memory, as the recipe's value of the field does.
  std::function<void(const StepSizes&, StepTable&)> amend = nullptr;

  // Whether the run did what the field says, also for its plain value; none if the field has no meaning on the recipe's
  // device.
  std::function<std::optional<Proof>(const model::Recipe&, const RunFacts&)> prove;
};

}  // namespace ablations
