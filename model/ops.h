// The operations GPT-2 is made of, as a table that a recipe fills: gpt2.cpp calls through it and never asks which
// implementation it got. B batch, T context, C channels, NH heads, HS = C / NH, V rows of the embedding.
//
// The table is cut twice. The model calls the large operations, between which nothing can be fused without changing the
// model: add_norm, self_attention, mlp, head_loss. The reference makes each of them of small ones, ATen's. A fused
// implementation replaces a large one and calls none of the small.
#pragma once

#include "model/recipe.h"

#include <ATen/ATen.h>

#include <array>
#include <functional>
#include <string_view>
#include <vector>

namespace model {

// Of a LayerNorm: weight (C), bias (C). Of a linear layer: weight (out, in), bias (out).
struct Affine {
  at::Tensor weight, bias;
};

class Gradients;
struct TimedProduct;

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
  // logits (B, T, V), targets (B, T) int64 -> mean negative log-likelihood, 0-dim float32. Under autocast PyTorch keeps
  // the log-probabilities in the logits' type on a GPU (log_softmax with an explicit dtype is left alone), in float32
  // on a CPU: in bf16 a token's is rounded to 1/16 nat where it is about 11, as in PyTorch itself.
  std::function<Tensor(const Tensor& logits, const Tensor& targets)> cross_entropy;

  // ---- Large operations. Each gets the table that it stands in, and announces its parts through on_part.

  // The residual stream x (B, T, C) and its LayerNorm (B, T, C).
  struct Normed {
    Tensor x, normalized;
  };
  // Where it stands: the LayerNorm's layer (-1 outside the blocks) and name, "ln_1", and the layer that y comes from.
  struct Place {
    int64_t layer;
    std::string_view part;
    int64_t added_from = -1;
  };
  // x (B, T, C), y (B, T, C) or undefined -> {x + y, LayerNorm(x + y)}
  std::function<Normed(const Ops&, const Place&, const Tensor& x, const Tensor& y, const Affine& norm, double eps)>
      add_norm;
  // x (B, T, C), c_attn (3C, C) -> (B, T, C), the heads' results side by side
  std::function<Tensor(const Ops&, int64_t layer, const Tensor& x, const Affine& c_attn, int64_t NH)> self_attention;
  // x (B, T, C), c_fc (4C, C), c_proj (C, 4C) -> (B, T, C)
  std::function<Tensor(const Ops&, int64_t layer, const Tensor& x, const Affine& c_fc, const Affine& c_proj)> mlp;
  // x (B, T, C), wte (V, C), targets (B, T) int64 -> the loss of cross_entropy. Rows of wte from `vocabulary` on are
  // padding.
  std::function<Tensor(const Ops&, const Tensor& x, const Tensor& wte, const Tensor& targets, int64_t vocabulary)>
      head_loss;

  // Called before each part of a step with where in the model it stands: the layer (-1 outside the blocks) and the
  // part's name, "c_fc". For whoever watches; computes nothing.
  std::function<void(int64_t layer, std::string_view part)> on_part = [](int64_t, std::string_view) {};
};

// Plain ATen operations only. Query, key and value are one product; attention has its T x T matrix in memory.
Ops reference_ops();

// The reference table with the operations that the recipe replaces. With `gradients`, which must outlive the table,
// those of a training step write the weights' gradients there (gradients.h).
Ops ops_for(const Recipe& recipe, Gradients* gradients = nullptr);

// embedding.cpp. An EmbeddingGradient writes or adds what dx (B, T, C), contiguous, gives the two weights where
// `gradients` has places for them. embed_into() is `embed` with a backward pass that calls it.
using EmbeddingGradient = void(Gradients& gradients, const at::Tensor& dx, const at::Tensor& tokens,
                               const at::Tensor& wte, const at::Tensor& wpe);
EmbeddingGradient embedding_gradient;  // on a CPU
decltype(Ops::embed) embed_into(Gradients& gradients, EmbeddingGradient* write, const decltype(Ops::embed)& embed);

// attention.cpp. In the first queries may be fewer than keys: they are the last ones. It keeps its mask
// from call to call.
decltype(Ops::attention) manual_attention();
decltype(Ops::attention) sdpa_attention();

// cross_entropy.cpp. The same loss and, but for the rounding of the targets' entries, the same gradient, with one
// matrix (B * T, V) from the forward pass to the end of the backward pass. Its backward pass can be made only once.
decltype(Ops::cross_entropy) in_place_cross_entropy();

// products.cpp. Packed products: on a CPU, of float32, and of bfloat16 where has_packed_bf16().
decltype(Ops::linear) own_linear(Products products, Gradients* gradients);
decltype(Ops::head) packed_head();

// packed_attention.cpp: on a CPU in float32 and bfloat16, on a GPU in bfloat16 and float16.
decltype(Ops::self_attention) packed_self_attention();

// fused_norm.cpp, fused_mlp.cpp, fused_loss.cpp: on a CPU, in float32 and bfloat16.
decltype(Ops::add_norm) fused_add_norm(Gradients* gradients);
decltype(Ops::mlp) fused_mlp(Products products, Gradients* gradients);
// Its backward pass can be made only once.
decltype(Ops::head_loss) fused_head_loss(Products products, Gradients* gradients);

// The same by our own CUDA kernels: cuda/add_norm.cpp, cuda/mlp.cpp, cuda/head_loss.cpp, cuda/linear.cpp,
// cuda/embedding.cpp. Only where the program has them.
std::vector<TimedProduct> cuda_timed_products();
decltype(Ops::add_norm) cuda_add_norm(Gradients* gradients = nullptr);
decltype(Ops::mlp) cuda_mlp(Gradients* gradients = nullptr);
// Logits of no more than `chunk_bytes` exist at once. Its backward pass can be made only once. With `gradients` the
// loss must be multiplied by their loss_factor(), which is not checked: that would be a wait for the device.
decltype(Ops::head_loss) cuda_head_loss(int64_t chunk_bytes, Gradients* gradients = nullptr);
decltype(Ops::linear) cuda_linear(Gradients* gradients);
EmbeddingGradient cuda_embedding_gradient;

}  // namespace model
