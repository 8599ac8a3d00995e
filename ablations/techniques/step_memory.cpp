#include "ablations/techniques/step_memory.h"

#include "ablations/techniques/step_table.h"

#include <algorithm>
#include <vector>

namespace ablations {

using namespace model;
namespace {

constexpr double gibibyte = 1LL << 30;

// What rows of the table add up to, in bytes.
struct Sums {
  double activations = 0, attention = 0;  // all layers, and what ln_f and head read
  double layer = 0, in_layer = 0;         // activations of one layer, and the most that is beside them in backward
  double log_probabilities = 0, in_loss = 0;

  explicit Sums(const StepTable& table) {
    for (const StepRow& row : table.rows) {
      const auto times = static_cast<double>(row.times);
      const bool of_loss = row.op == "cross_entropy" || row.op == "head_loss";
      const bool of_layer = !of_loss && row.op != "embed" && row.part != "ln_f" && row.part != "head";
      activations += times * row.kept;
      (of_loss ? log_probabilities : attention) += times * row.matrices;
      if (of_layer) layer += row.kept;
      double& working = of_loss ? in_loss : in_layer;
      working = std::max(working, row.working);
    }
  }
};

// Between the tensors of a step whose passes need so much beside the weights. step_memory.h says what is fitted.
double between_tensors(const StepSizes& s, const Sums& sums, double forward, double backward) {
  const CrossEntropy loss = s.recipe.cross_entropy;
  if (!s.on_cpu) {
    const double one_more = loss == CrossEntropy::aten ? f32 : loss == CrossEntropy::in_place ? s.low : 0;
    return s.BT * s.rows * one_more + 0.2 * gibibyte;
  }
  const double cut_up = 0.4 * std::min(forward, backward);
  if (s.recipe.host_memory == HostMemory::release || s.recipe.weights == Weights::master) return cut_up;
  const double gap = sums.attention > 0 ? std::max(0.0, 2 * s.squares * s.low - sums.layer) : 0;
  const double chunk = loss == CrossEntropy::fused ? sums.in_loss : 0;
  return cut_up + s.low * s.parameters + static_cast<double>(s.layers) * gap + chunk / 2;
}

double of_process(const StepSizes& s) {
  if (!s.on_cpu) return gibibyte;
  return (s.recipe.host_memory == HostMemory::keep ? 0.48 : 0.4) * gibibyte;
}

}  // namespace

double StepMemory::Parts::tensors() const {
  Parts only = *this;
  only.allocator = only.process = 0;
  return only.total();
}

double StepMemory::Parts::total() const {
  double sum = 0;
  visit_parts(*this, [&](const char*, double bytes, const char*) { sum += bytes; });
  return sum;
}

Moment StepMemory::peak() const {
  return *std::ranges::max_element(all_moments, {}, [&](Moment moment) { return at(moment).total(); });
}

StepMemory::Parts StepMemory::largest() const {
  Parts most;
  for (const Parts& one : parts) {
    std::vector<double> sizes;
    visit_parts(one, [&](const char*, double bytes, const char*) { sizes.push_back(bytes); });
    auto size = sizes.begin();
    visit_parts(most, [&](const char*, double& bytes, const char*) { bytes = std::max(bytes, *size++); });
  }
  return most;
}

StepMemory step_memory(const Config& config, const Recipe& recipe, int64_t B, int64_t T, int64_t accumulation) {
  const StepSizes size(config, recipe, B, T);
  const StepTable table = step_table(size);
  const Sums sums(table);
  const bool separate = recipe.weights == Weights::separate, split = !separate && recipe.autocast == Autocast::bf16;
  const bool fused_loss = recipe.cross_entropy == CrossEntropy::fused;
  const auto layers = static_cast<double>(size.layers);
  // Numbers of the matrices and biases that autocast copies.
  const double head = size.rows * size.C, matrices = layers * 12 * size.C * size.C + head, biases = layers * 9 * size.C;
  const double gradients = f32 * size.parameters;
  // From one micro-step to the next they stay, and gradients of master weights always do.
  const double held = !separate || accumulation > 1 ? gradients : 0;
  const double of_head = separate ? f32 * head : 0;  // the first gradient that backward makes

  StepMemory::Parts always;
  always.remainders = split ? 2 * (matrices + (size.on_cpu ? 0 : biases)) : 0;
  always.weights = f32 * size.parameters - always.remainders;
  always.optimizer = 2 * f32 * size.parameters;
  always.weight_copies = table.copies;

  // The fused loss makes the gradient of the embedding in its forward pass, and keeps no copy of the head's matrix.
  StepMemory::Parts loss = always;
  loss.gradients = held + (fused_loss ? of_head : 0);
  const double copied = matrices - (fused_loss ? head : 0) + biases;
  loss.weight_copies += size.casts && separate ? size.low * copied : 0;
  loss.activations = sums.activations;
  loss.attention = sums.attention;
  loss.logits = sums.log_probabilities + sums.in_loss;

  StepMemory::Parts backward_begin = loss;
  backward_begin.gradients = held + of_head;
  backward_begin.logits = 0;
  backward_begin.working = sums.in_layer;

  // The embedding's own gradient is a dense matrix that is added to the head's. Both are apart from what earlier
  // micro-steps have left.
  StepMemory::Parts backward_end = always;
  backward_end.gradients = gradients;
  backward_end.working = of_head * (accumulation > 1 ? 2 : 1);

  StepMemory::Parts update = always;
  update.gradients = gradients;
  update.working = table.update.working;

  StepMemory memory{
      .parts = {{loss, backward_begin, backward_end, update}},
      .left_by_forward = loss.activations + loss.attention + sums.log_probabilities + loss.gradients - held};
  const double lasting = always.tensors() + (separate ? 0 : gradients);
  const double allocator = between_tensors(size, sums, std::max(loss.tensors(), backward_begin.tensors()) - lasting,
                                           std::max(backward_end.tensors(), update.tensors()) - lasting);
  for (StepMemory::Parts& parts : memory.parts) {
    parts.allocator = allocator;
    parts.process = of_process(size);
  }
  const double others = loss.weights + loss.optimizer + loss.activations;
  memory.is_least = size.on_cpu && recipe.host_memory == HostMemory::keep &&
                    (loss.attention > others || (!fused_loss && loss.logits > others));
  return memory;
}

int64_t largest_batch(const Config& config, const Recipe& recipe, int64_t T, int64_t accumulation, double bytes) {
  const auto fits = [&](int64_t B) { return step_memory(config, recipe, B, T, accumulation).total() <= bytes; };
  int64_t fitting = 0, too_large = (1 << 16) + 1;  // no part shrinks with B
  while (too_large - fitting > 1) {
    const int64_t middle = (fitting + too_large) / 2;
    (fits(middle) ? fitting : too_large) = middle;
  }
  return fitting;
}

}  // namespace ablations
