#include "model/step_memory.h"

#include <algorithm>
#include <vector>

namespace model {
namespace {

constexpr double gibibyte = 1LL << 30;
constexpr double float_bytes = 4;

// What the parts are made of. Functions give bytes.
struct Sizes {
  const Recipe& recipe;
  bool on_cpu, casts, split;  // split: master weights of two parts
  double low, stream;         // of a number in the products' type, and in the residual stream
  double layers;
  // Numbers: all weights; those of matrices and biases that autocast copies; logits with padding columns; the T x T
  // matrices of one layer.
  double weights = 0, matrices = 0, biases = 0, BTC = 0, logits = 0, scores = 0;
  double embedding = 0;  // bytes of its gradient

  Sizes(const Config& config, const Recipe& of, int64_t batch, int64_t context)
      : recipe(of),
        on_cpu(of.device == Device::cpu),
        casts(of.autocast != Autocast::off),
        split(of.weights == Weights::master && of.autocast == Autocast::bf16),
        low(casts ? 2 : float_bytes),
        stream(of.residual == Residual::autocast ? low : float_bytes),
        layers(static_cast<double>(config.n_layer)) {
    const auto B = static_cast<double>(batch), T = static_cast<double>(context), C = static_cast<double>(config.n_embd);
    const auto rows = static_cast<double>(of.vocabulary_rows);
    weights = static_cast<double>(config.parameters()) + (rows - static_cast<double>(config.vocabulary)) * C;
    matrices = layers * 12 * C * C + rows * C;
    biases = layers * 9 * C;
    embedding = float_bytes * rows * C;
    BTC = B * T * C;
    logits = B * T * rows;
    scores = B * static_cast<double>(config.n_head) * T * T;
  }

  [[nodiscard]] bool separate() const { return recipe.weights == Weights::separate; }
  [[nodiscard]] bool written_out() const {
    return recipe.attention == Attention::manual || recipe.attention == Attention::math;
  }

  // What one layer keeps, without T x T matrices: what both LayerNorms read (the stream), what the four products read
  // (C, C, C and 4 C numbers a token), q, k and v, and what GELU reads (4 C). What GELU makes is made once more by the
  // fused MLP of a CPU. Three products each convert their input for themselves, where it is not of the low type.
  [[nodiscard]] double layer() const {
    const double hidden = recipe.mlp == Mlp::fused && on_cpu ? 4 * low : 0;
    const bool converts = recipe.qkv_products == QkvProducts::three && recipe.norm == Norm::aten && stream > low;
    return BTC * (2 * stream + 14 * low - hidden + (converts ? 2 * low : 0));
  }

  // Then what ln_f and head read.
  [[nodiscard]] double activations() const { return layers * layer() + BTC * (stream + low); }

  // CUDA's autocast computes softmax in float32 and makes a copy for the product; the CPU's stays in the low type.
  [[nodiscard]] double attention() const {
    return written_out() ? layers * scores * (casts && !on_cpu ? float_bytes + low : low) : 0;
  }

  // Three T x T matrices, or the gradients of GELU's argument and result, 4 C numbers a token each.
  [[nodiscard]] double in_layer() const { return std::max(written_out() ? 3 * scores * low : 0, 8 * BTC * low); }

  // What forward leaves of them. The fused loss leaves gradients instead, and that of its input takes the input's
  // place.
  [[nodiscard]] double log_probabilities() const {
    switch (recipe.cross_entropy) {
      case CrossEntropy::aten:
        return logits * (float_bytes + (casts && !on_cpu ? low : 0));
      case CrossEntropy::in_place:
        return logits * (on_cpu ? float_bytes : low);
      case CrossEntropy::fused:
        break;
    }
    return 0;
  }

  // Beside the log-probabilities. ATen's loss: zeros with one entry in each row, and the gradient through softmax,
  // which CUDA's autocast makes when the converted log-probabilities are gone. In place: the logits, on a CPU their
  // conversion, too.
  [[nodiscard]] double in_loss() const {
    switch (recipe.cross_entropy) {
      case CrossEntropy::aten:
        return logits * float_bytes * (casts && !on_cpu ? 1 : 2);
      case CrossEntropy::in_place:
        return logits * (low + (on_cpu && casts ? float_bytes : 0));
      case CrossEntropy::fused:
        break;
    }
    return std::min(logits * low, static_cast<double>(on_cpu ? head_loss_chunk_bytes : cuda_head_loss_chunk_bytes));
  }

  // AdamW's denominators, of the largest tensor or of all of them; where its factors are on the device as many
  // numerators.
  [[nodiscard]] double in_update() const {
    const bool on_device = recipe.execution == Execution::graph || recipe.autocast == Autocast::fp16;
    switch (recipe.optimizer) {
      case Optimizer::loop:
        return embedding * (on_device ? 2 : 1);
      case Optimizer::foreach:
        return float_bytes * weights * (on_device ? 2 : 1);
      case Optimizer::fused:
        break;
    }
    return 0;
  }

  // Between the tensors of a step whose passes need so much beside the weights.
  [[nodiscard]] double between_tensors(double forward, double backward) const {
    if (!on_cpu) {
      const double one_more = recipe.cross_entropy == CrossEntropy::aten       ? float_bytes
                              : recipe.cross_entropy == CrossEntropy::in_place ? low
                                                                               : 0;
      return logits * one_more + 0.2 * gibibyte;
    }
    const double cut_up = 0.4 * std::min(forward, backward);
    if (recipe.host_memory == HostMemory::release || !separate()) return cut_up;
    const double gap = written_out() ? std::max(0.0, 2 * scores * low - layer()) : 0;
    return cut_up + low * weights + layers * gap;
  }

  [[nodiscard]] double process() const {
    if (!on_cpu) return gibibyte;
    return (recipe.host_memory == HostMemory::keep ? 0.48 : 0.4) * gibibyte;
  }
};

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
  const Sizes size(config, recipe, B, T);
  const double gradients = float_bytes * size.weights;
  // From one micro-step to the next they stay, and gradients of master weights always do.
  const double held = !size.separate() || accumulation > 1 ? gradients : 0;
  const double of_head = size.separate() ? size.embedding : 0;  // the first gradient that backward makes

  StepMemory::Parts always;
  always.remainders = size.split ? 2 * size.matrices : 0;
  always.weights = float_bytes * size.weights - always.remainders;
  always.optimizer = 2 * float_bytes * size.weights;

  // The fused loss makes the gradient of the embedding in its forward pass.
  StepMemory::Parts loss = always;
  loss.gradients = held + (recipe.cross_entropy == CrossEntropy::fused ? of_head : 0);
  // Nor does it keep a copy of the head's matrix.
  const double copied = size.matrices - (recipe.cross_entropy == CrossEntropy::fused ? of_head / sizeof(float) : 0);
  loss.weight_copies = size.casts && size.separate() ? size.low * (copied + size.biases) : 0;
  loss.activations = size.activations();
  loss.attention = size.attention();
  loss.logits = size.log_probabilities() + size.in_loss();

  StepMemory::Parts backward_begin = loss;
  backward_begin.gradients = held + of_head;
  backward_begin.logits = 0;
  backward_begin.working = size.in_layer();

  // The embedding's own gradient is a dense matrix that is added to the head's. Both are apart from what earlier
  // micro-steps have left.
  StepMemory::Parts backward_end = always;
  backward_end.gradients = gradients;
  backward_end.working = of_head * (accumulation > 1 ? 2 : 1);

  StepMemory::Parts update = always;
  update.gradients = gradients;
  update.working = size.separate() ? size.in_update() : 0;

  StepMemory memory{
      .parts = {{loss, backward_begin, backward_end, update}},
      .left_by_forward = loss.activations + loss.attention + size.log_probabilities() + loss.gradients - held};
  const double lasting = always.tensors() + (size.separate() ? 0 : gradients);
  const double allocator = size.between_tensors(std::max(loss.tensors(), backward_begin.tensors()) - lasting,
                                                std::max(backward_end.tensors(), update.tensors()) - lasting);
  for (StepMemory::Parts& parts : memory.parts) {
    parts.allocator = allocator;
    parts.process = size.process();
  }
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

}  // namespace model
