// GPT-2, written once against ops.h: pre-LayerNorm blocks, learned positions, embedding and head tied.
//
// Weights are held as torch's linear layers hold them, (out, in); Hugging Face's files hold them transposed
// (checkpoint.h).
#pragma once

#include "model/config.h"
#include "model/ops.h"

#include <ATen/ATen.h>

#include <string>
#include <vector>

namespace model {

struct Parameter {
  std::string name;  // Hugging Face's: "h.0.attn.c_attn.weight"
  at::Tensor tensor;
  at::Tensor remainder = {};  // int16, of a bf16 tensor: the bits that it lacks (weights/split_weight.h)
};

// The float32 weight: the tensor itself, or joined with its remainder into a new one.
at::Tensor whole_weight(const Parameter& parameter);
// Splits a float32 weight of the same shape into the parameter's tensor and its remainder.
void split_weight(const Parameter& parameter, const at::Tensor& weight);

class GPT2 {
 public:
  // Weights drawn on the CPU from `seed` alone, so that they do not depend on device or padding, then moved. Normal(0,
  // 0.02); projections back into the residual stream Normal(0, 0.02 / sqrt(2 n_layer)); biases 0, LayerNorm weights 1.
  // vocabulary_rows >= config.vocabulary. Throws std::invalid_argument.
  GPT2(const Config& config, int64_t vocabulary_rows, uint64_t seed, at::Device device);

  // tokens (B, T) int64 -> (B, T, vocabulary_rows) in the autocast dtype
  [[nodiscard]] at::Tensor logits(const Ops& ops, const at::Tensor& tokens) const;

  // tokens, targets (B, T) int64 -> mean loss per token, 0-dim float32
  [[nodiscard]] at::Tensor loss(const Ops& ops, const at::Tensor& tokens, const at::Tensor& targets) const;

  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] int64_t vocabulary_rows() const { return wte_.size(0); }
  // The order is fixed: embeddings, then block by block, then the last LayerNorm. They are float32 leaves that require
  // gradients; for others see split_weights() and gradients.h.
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }

  // From now on the matrices that products read are bf16, and a remainder beside each keeps the rest. So are the biases
  // of linear layers where the device reads them in bf16.
  void split_weights(bool biases = false);

 private:
  struct Block {
    Affine ln_1, c_attn, attn_proj, ln_2, c_fc, mlp_proj;
  };

  at::Tensor add(const std::string& name, const at::Tensor& initial, at::Device device);
  // (B, T, C), the last LayerNorm's
  [[nodiscard]] at::Tensor features(const Ops& ops, const at::Tensor& tokens) const;

  Config config_;
  std::vector<Parameter> parameters_;
  at::Tensor wte_, wpe_;
  std::vector<Block> blocks_;
  Affine ln_f_;
};

}  // namespace model
