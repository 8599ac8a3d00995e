// Sketches of a training's first steps, as client/look/ladder_sketch.py writes them, and how exact its numbers are.
#pragma once

#include "files/json_file.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace study {

// The norm of a parameter's numbers, and eight sums of them with random signs.
using Sums = std::array<double, 9>;

// What an optimizer is set to for a parameter: {"betas": {0.9, 0.95}}, and its class.
struct OptimizerSettings {
  std::string optimizer;
  std::map<std::string, std::vector<double>> numbers;
};

struct SketchedParameter {
  std::string name;            // empty: of no module
  std::vector<int64_t> shape;  // a scalar has none
  std::string type;            // "float32"
  OptimizerSettings settings;  // at the first step
  Sums weights{};              // before the first step
  // One for each of the first steps; none: it takes no part. What a step changed has the weights' norm after it.
  std::vector<Sums> gradients, changes;
};

struct Sketch {
  std::vector<SketchedParameter> parameters;
  int64_t skipped_steps = 0;  // by a gradient scaler
  bool has_dropout = false;   // only a look with rounding tells
};

// Throws std::invalid_argument if it is no such JSON.
Sketch sketch_of(const files::Json& sketch);

// What storing a number of this type may change of it, relative to it. 1 where that is not known.
double unit_roundoff(const std::string& type);

// A number type whose unit roundoff is 2^-bits.
struct NumberType {
  std::string name;  // "bfloat16"
  int bits = 0;
};

// The least exact type that either look's matrix products or parameters have. None: one has a type of which no roundoff
// is known here.
std::optional<NumberType> least_exact_type(const files::Json& look, const files::Json& other);

}  // namespace study
