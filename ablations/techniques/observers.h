// How a run observes fields of the recipe. Only the program that trains has this.
#pragma once

#include "results/observations.h"

#include <vector>

namespace model {
class Trainer;
struct Ops;
}  // namespace model

namespace ablations {

// Of one field. Neither looks at what the recipe asks for.
struct Observer {
  // Wraps the operations of a step before it runs.
  void (*watch)(model::Ops&, Observations&) = nullptr;
  // Reads the process after the timed steps, outside of any step.
  void (*observe)(model::Trainer&, Observations&) = nullptr;
};

// In the order of techniques(). Other facts are counted for several fields (ablations/gpt2/observe.h).
const std::vector<Observer>& observers();

}  // namespace ablations
