// The operations GPT-2 is made of, as a table. The model (gpt2.cpp) calls through it and never asks which
// implementation it got. Here is the reference; ablations/techniques/operations.h replaces what a recipe says. B batch,
// T context, C channels, NH heads, HS = C / NH, V rows of the embedding.
//
// The table has two levels. The model calls the large operations: add_norm, self_attention, mlp, head_loss. Nothing can
// be fused between them without changing the model. The reference makes each of them of small ones, ATen's. A fused
// implementation replaces a large one and calls none of the small.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <functional>
#include <string_view>

namespace model {

// Of a LayerNorm: weight (C), bias (C). Of a linear layer: weight (out, in), bias (out).
struct Affine {
  at::Tensor weight, bias;
};

struct Ops {
  using Tensor = at::Tensor;

  // ---- Small operations
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
  // logits (B, T, V), targets (B, T) int64 -> mean negative log-likelihood, 0-dim float32. Under autocast
  // log-probabilities are float32 on a CPU. On a GPU they keep the logits' type: PyTorch leaves log_softmax with an
  // explicit dtype alone. So in bf16 one of about 11 is rounded to 1/16 nat, as in PyTorch itself.
  std::function<Tensor(const Tensor& logits, const Tensor& targets)> cross_entropy;

  // ---- Large operations. Each gets the table that it stands in, and announces its parts through on_part.

  // The residual stream x (B, T, C) and its LayerNorm (B, T, C).
  struct Normed {
    Tensor x, normalized;
  };
  // Where it stands: the LayerNorm's layer (-1 outside the blocks) and name, "ln_1", and the layer that y comes from,
  // with the bias that was added to y there.
  struct Place {
    int64_t layer;
    std::string_view part;
    int64_t added_from = -1;
    Tensor added_bias = {};
  };
  // x (B, T, C), y (B, T, C) or undefined -> {x + y, LayerNorm(x + y)}
  std::function<Normed(const Ops&, const Place&, const Tensor& x, const Tensor& y, const Affine& norm, double eps)>
      add_norm;
  // Whether add_norm's backward pass makes the gradient of `added_bias`: then its own layer gets it detached.
  bool add_norm_makes_bias_gradient = false;
  // x (B, T, C), c_attn (3C, C) -> (B, T, C), the heads' results side by side
  std::function<Tensor(const Ops&, int64_t layer, const Tensor& x, const Affine& c_attn, int64_t NH)> self_attention;
  // x (B, T, C), c_fc (4C, C), c_proj (C, 4C) -> (B, T, C)
  std::function<Tensor(const Ops&, int64_t layer, const Tensor& x, const Affine& c_fc, const Affine& c_proj)> mlp;
  // x (B, T, C), wte (V, C), targets (B, T) int64 -> the loss of cross_entropy. Rows of wte from `vocabulary` on are
  // padding.
  std::function<Tensor(const Ops&, const Tensor& x, const Tensor& wte, const Tensor& targets, int64_t vocabulary)>
      head_loss;

  // Called before each step, outside of its capture. It puts right what a replay takes for granted of the weights.
  std::function<void()> before_step = [] {};
  // Called before each part of a step with its place in the model: the layer (-1 outside the blocks) and the part's
  // name, "c_fc". It computes nothing.
  std::function<void(int64_t layer, std::string_view part)> on_part = [](int64_t, std::string_view) {};
};

// Plain ATen operations only. Query, key and value are one product; attention has its T x T matrix in memory.
Ops reference_ops();

// With its T x T matrix in memory. There may be fewer queries than keys; the queries are the last ones.
// It keeps its mask from call to call.
decltype(Ops::attention) manual_attention();

// qkv as one product: the result of `linear` is cut into three.
decltype(Ops::qkv) qkv_in_one_product(const decltype(Ops::linear)& linear);

}  // namespace model
