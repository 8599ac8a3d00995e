// The costs of a step as JSON, for test_costs.py: `costs_dump MODEL ROWS B T ACCUMULATION`.
#include "ablations/techniques/step_table.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: costs_dump MODEL ROWS B T ACCUMULATION\n";
    return 2;
  }
  model::Recipe recipe;
  recipe.vocabulary_rows = std::stoll(argv[2]);
  nlohmann::json costs = nlohmann::json::array();
  for (const ablations::Cost& cost : ablations::step_costs(model::preset(argv[1]), recipe, std::stoll(argv[3]),
                                                           std::stoll(argv[4]), std::stoll(argv[5]))) {
    costs.push_back({{"phase", cost.phase}, {"op", cost.op}, {"part", cost.part}, {"flops", cost.flops}});
  }
  std::cout << costs << "\n";
}
