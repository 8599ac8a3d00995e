// A step of a small GPT-2 by the techniques' operations for a GPU, on a CPU, and in float64.
#pragma once

#include "ablations/techniques/cross_entropy/head_loss.h"
#include "ablations/techniques/mlp/mlp.h"
#include "ablations/techniques/norm/norm.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/products/strips.h"
#include "ablations/techniques/weights/embedding_gradient.h"
#include "model/gpt2.h"
#include "model/gradients.h"
#include "model/ops.h"
#include "model/precision.h"

#include <string>
#include <utility>
#include <vector>

namespace small_step {

using at::Tensor;
using namespace model;

// Multiples of nothing where the kernels allow it: V and T; C is one of 16 bytes, or not.
struct Sizes {
  int64_t C, V = 101, rows = 107, B = 2, T = 13;
};

struct Step {
  std::vector<std::string> names;
  std::vector<Tensor> results;  // of each micro-step the loss, then the gradients
};

inline GPT2 model_of(const Sizes& sizes) {
  return {{.name = "test", .n_layer = 2, .n_head = 2, .n_embd = sizes.C, .n_positions = 16, .vocabulary = sizes.V},
          sizes.rows,
          7,
          at::kCPU};
}

inline Step step(const GPT2& gpt2, const Ops& ops, const Sizes& sizes, Autocast autocast, int64_t micro_steps,
                 Gradients* gradients = nullptr) {
  const auto [C, V, rows, B, T] = sizes;
  Step result;
  for (int64_t i = 0; i < micro_steps; ++i) {
    const Tensor tokens = (at::arange(B * (T + 1), at::kLong) * 7919 + 31 * i).remainder(V).view({B, T + 1});
    Tensor loss;
    {
      const AutocastScope scope(at::kCPU, autocast);
      loss = gpt2.loss(ops, tokens.narrow(1, 0, T), tokens.narrow(1, 1, T));
    }
    result.names.push_back("loss");
    result.results.push_back(loss.detach());
    (loss * (1.0 / static_cast<double>(micro_steps))).backward();
    if (gradients != nullptr) add_up_left(*gradients);
  }
  for (const Parameter& p : gpt2.parameters()) {
    result.names.push_back(p.name);
    result.results.push_back(p.tensor.grad());
  }
  return result;
}

inline Step step(const Ops& ops, const Sizes& sizes, at::ScalarType weights = at::kFloat,
                 Autocast autocast = Autocast::off, int64_t micro_steps = 1) {
  const GPT2 gpt2 = model_of(sizes);
  for (const Parameter& p : gpt2.parameters()) p.tensor.set_data(p.tensor.to(weights));
  return step(gpt2, ops, sizes, autocast, micro_steps);
}

// By the reference, which the padding rows of the embedding would be words for.
inline Step exact(const Sizes& sizes, int64_t micro_steps = 1) {
  Ops ops = reference_ops();
  ops.head = [head = ops.head, V = sizes.V](const Tensor& x, const Tensor& wte) {
    return head(x, wte.narrow(0, 0, V));
  };
  return step(ops, sizes, at::kDouble, Autocast::off, micro_steps);
}

// As steps with master weights have them. chunk_bytes: of the head's chunks.
inline Ops with_cuda_into(Gradients& gradients, const Recipe& recipe, int64_t chunk_bytes) {
  Ops ops = ops_for(recipe);
  const bool low = recipe.residual == Residual::autocast;
  ops.embed = embed_into(gradients, cuda_embedding_gradient, cuda_embedding(low ? at::kBFloat16 : at::kFloat));
  ops.linear = own_linear(cuda_products, &gradients);
  ops.qkv = qkv_in_one_product(ops.linear);
  ops.add_norm = fused_add_norm(add_norm_on_cuda, &gradients);
  ops.add_norm_makes_bias_gradient = true;
  ops.mlp = fused_mlp(mlp_on_cuda, cuda_products, &gradients);
  ops.head_loss = fused_head_loss(head_loss_on_cuda, cuda_products, chunk_bytes, &gradients);
  return ops;
}

// By norm.
inline double error_of(const Tensor& found, const Tensor& expected) {
  return (found.to(at::kDouble) - expected).norm().item<double>() / expected.norm().item<double>();
}

// The worst of all results, and which it is.
inline std::pair<double, std::string> worst_error(const Step& found, const Step& expected) {
  std::pair<double, std::string> worst{0, "none"};
  for (size_t i = 0; i < expected.results.size(); ++i) {
    const double error = error_of(found.results[i], expected.results[i]);
    if (!(error <= worst.first)) worst = {error, expected.names[i]};  // NaN is the worst of all
  }
  return worst;
}

}  // namespace small_step
