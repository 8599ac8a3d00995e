#include "ablations/techniques/techniques.h"

#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace ablations {

using harness::Machine;
using model::Recipe;

// Each in its own file.
Technique device();
Technique host_memory();
Technique batches();
Technique matmul_precision();
Technique autocast();
Technique qkv_products();
Technique qkv_gradient();
Technique attention();
Technique cross_entropy();
Technique residual();
Technique products();
Technique norm();
Technique mlp();
Technique execution();
Technique vocabulary_rows();
Technique optimizer();
Technique weights();
Technique fp8();
Technique data_parallel();
Technique determinism();

const std::vector<Technique>& techniques() {
  static const std::vector<Technique> all{device(),        host_memory(),  batches(),         matmul_precision(),
                                          autocast(),      qkv_products(), qkv_gradient(),    attention(),
                                          cross_entropy(), residual(),     products(),        norm(),
                                          mlp(),           execution(),    vocabulary_rows(), optimizer(),
                                          weights(),       fp8(),          data_parallel(),   determinism()};
  return all;
}

const std::vector<Optimization>& optimizations() {
  static const std::vector<Optimization> all = [] {
    std::vector<Optimization> found;
    for (const Technique& technique : techniques()) {
      found.insert(found.end(), technique.optimizations.begin(), technique.optimizations.end());
    }
    return found;
  }();
  return all;
}

const Optimization* find_optimization(const std::string& name) {
  const auto found = std::ranges::find(optimizations(), name, &Optimization::name);
  return found == optimizations().end() ? nullptr : &*found;
}

std::string text_file(const std::string& name) {
  for (const Technique& technique : techniques()) {
    const auto& own = technique.optimizations;
    const bool has =
        own.empty() ? name == technique.field : std::ranges::find(own, name, &Optimization::name) != own.end();
    if (has) return fmt::format("ablations/techniques/{}/{}.md", technique.field, name);
  }
  throw std::invalid_argument(fmt::format("no technique has the name {}", name));
}

bool matches_name(const std::string& typed, const std::string& name, const std::string& title) {
  const auto words_of = [](const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) {
      for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
      if (word != "+") words.push_back(word);
    }
    return words;
  };
  const std::vector<std::string> given = words_of(typed), wanted = words_of(title);
  if (given == words_of(name)) return true;
  return !given.empty() && !wanted.empty() && given.front() == wanted.front() &&
         std::ranges::all_of(wanted,
                             [&](const std::string& word) { return std::ranges::find(given, word) != given.end(); });
}

std::string title_after_proof(const Optimization& optimization, const Observations& observations) {
  const std::string seen = optimization.title_seen ? optimization.title_seen(observations) : "";
  return seen.empty() ? optimization.title : seen;
}

std::string Optimization::obstacle(const Recipe& recipe, const Machine& machine) const {
  if (std::string reason = pointless ? pointless(recipe, machine) : ""; !reason.empty()) return reason;
  for (const std::string& need : needs) {
    if (find_optimization(need)->is_on(recipe, machine)) continue;
    return need == "gpu" && !machine.gpu ? machine.no_gpu_reason : fmt::format("needs \"{}\"", need);
  }
  Recipe edited = recipe;
  edit(edited, machine);
  return recipe_obstacle(edited, machine);
}

bool Optimization::is_on(const Recipe& recipe, const Machine& machine) const {
  Recipe edited = recipe;
  edit(edited, machine);
  return edited == recipe;
}

std::string recipe_obstacle(const Recipe& recipe, const Machine& machine) {
  if (recipe.device == model::Device::cuda && !machine.gpu) return machine.no_gpu_reason;
  for (const Technique& technique : techniques()) {
    if (!technique.obstacle) continue;
    if (std::string reason = technique.obstacle(recipe, machine); !reason.empty()) return reason;
  }
  return "";
}

ExpectedLosses expected_losses(const Recipe& recipe, bool of_peer) {
  ExpectedLosses expected{.tolerance = 1e-3};  // float32, another order of sums
  for (const Technique& technique : techniques()) {
    if (technique.tolerance) expected.tolerance = std::max(expected.tolerance, technique.tolerance(recipe));
  }
  const double words = static_cast<double>(model::Config().vocabulary);
  const bool skips_padding = recipe.cross_entropy == model::CrossEntropy::fused && !of_peer;
  if (!skips_padding) expected.offset = std::log(static_cast<double>(recipe.vocabulary_rows) / words);
  return expected;
}

std::vector<Proof> prove(const Recipe& recipe, const RunFacts& facts) {
  std::vector<Proof> proofs;
  for (const Technique& technique : techniques()) {
    if (std::optional<Proof> proof = technique.prove(recipe, facts)) proofs.push_back(std::move(*proof));
  }
  return proofs;
}

}  // namespace ablations
