// The operations GPT-2 is made of, as a table that a recipe fills: gpt2.cpp calls through it and never asks which
// implementation it got. B batch, T context, C channels, NH heads, HS = C / NH, V rows of the embedding.
#pragma once

#include "model/recipe.h"

#include <ATen/ATen.h>

#include <array>
#include <functional>
#include <string_view>

namespace model {

struct Ops {
  using Tensor = at::Tensor;
  // tokens (B, T) int64, wte (V, C), wpe (P, C) -> (B, T, C), the residual stream
  std::function<Tensor(const Tensor& tokens, const Tensor& wte, const Tensor& wpe)> embed;
  // x (..., C), weight (C), bias (C) -> (..., C)
  std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps)> layer_norm;
  // x (..., in), weight (out, in), bias (out) -> (..., out)
  std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)> linear;
  // x (B, T, C), weight (3C, C), bias (3C) -> query, key and value, (B, T, C) each
  std::function<std::array<Tensor, 3>(const Tensor& x, const Tensor& weight, const Tensor& bias)> qkv;
  // q, k, v (B, NH, T, HS) -> (B, NH, T, HS), causal, scaled by 1 / sqrt(HS)
  std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)> attention;
  // tanh approximation of GELU
  std::function<Tensor(const Tensor& x)> gelu;
  // x (..., C) + y (..., C)
  std::function<Tensor(const Tensor& x, const Tensor& y)> residual;
  // x (B, T, C), wte (V, C) -> (B, T, V)
  std::function<Tensor(const Tensor& x, const Tensor& wte)> head;
  // logits (B, T, V), targets (B, T) int64 -> mean negative log-likelihood, 0-dim float32. Under autocast PyTorch keeps
  // the log-probabilities in the logits' type on a GPU (log_softmax with an explicit dtype is left alone), in float32
  // on a CPU: in bf16 a token's is rounded to 1/16 nat where it is about 11, as in PyTorch itself.
  std::function<Tensor(const Tensor& logits, const Tensor& targets)> cross_entropy;

  // Called before each of the above with its place in the model: the layer (-1 outside the blocks) and the part's name,
  // "c_fc". For observers; computes nothing.
  std::function<void(int64_t layer, std::string_view part)> on_part = [](int64_t, std::string_view) {};
};

// Plain ATen operations only. Query, key and value are one product; attention has its T x T matrix in memory.
Ops reference_ops();

// The reference table with the operations that the recipe replaces.
Ops ops_for(const Recipe& recipe);

// attention.cpp. The first keeps its (T, T) mask from call to call.
decltype(Ops::attention) manual_attention();
decltype(Ops::attention) sdpa_attention();

// cross_entropy.cpp. The same loss and, but for the rounding of the targets' entries, the same gradient, with one
// matrix (B * T, V) from the forward pass to the end of the backward pass. Its backward pass can be made only once.
decltype(Ops::cross_entropy) in_place_cross_entropy();

}  // namespace model
