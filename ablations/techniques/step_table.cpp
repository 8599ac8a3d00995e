#include "ablations/techniques/step_table.h"

#include "ablations/techniques/techniques.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ablations {

using namespace model;

StepSizes::StepSizes(const Config& config, const Recipe& of, int64_t batch, int64_t context)
    : recipe(of),
      on_cpu(of.device == Device::cpu),
      casts(of.autocast != Autocast::off),
      layers(config.n_layer),
      T(static_cast<double>(context)),
      C(static_cast<double>(config.n_embd)),
      BT(static_cast<double>(batch) * T),
      BTC(BT * C),
      heads(static_cast<double>(config.n_head)),
      rows(static_cast<double>(of.vocabulary_rows)),
      positions(static_cast<double>(config.n_positions)),
      parameters(static_cast<double>(config.parameters()) + (rows - static_cast<double>(config.vocabulary)) * C),
      squares(BT * heads * T),
      low(casts ? 2 : f32),
      stream(of.residual == Residual::autocast ? low : f32),
      normed(of.norm == Norm::fused ? low : stream),
      held(of.weights == Weights::master ? low : f32) {}

StepRow& StepTable::at(const std::string& part) {
  const auto row = std::ranges::find(rows, part, &StepRow::part);
  if (row == rows.end()) throw std::out_of_range("a step has no part " + part);
  return *row;
}

void StepTable::fuse(const std::vector<std::string>& parts, StepRow row) {
  at(parts.front()) = std::move(row);
  const auto is_other = [&](const StepRow& one) {
    return std::ranges::find(parts.begin() + 1, parts.end(), one.part) != parts.end();
  };
  std::erase_if(rows, is_other);
}

namespace {

// The reference's operations with the recipe's number formats.
StepTable reference_table(const StepSizes& s) {
  const int64_t L = s.layers;
  const double C = s.C, BTC = s.BTC;

  // x (BT, in) in x_type, weight (out, in), bias (out) or none -> y (BT, out).
  // Backward: dx = dy W and dW = dy^T x. Reads dy, x and W, writes dx, dW and db. Keeps x, converted.
  const auto product = [&](const char* op, const char* part, int64_t times, double in, double out, double x_type,
                           double bias) -> StepRow {
    const double x = s.BT * in * x_type, y = s.BT * out * s.low, weight = in * out;
    return {.op = op,
            .part = part,
            .times = times,
            .flops = product_flops(s.BT, out, in),
            .forward_bytes = x + s.held * weight + (s.on_cpu ? f32 : s.held) * bias + y,
            .backward_bytes = y + x + s.held * weight + x,
            .gradients = weight + bias,
            .kept = s.BT * in * s.low};
  };
  const auto linear = [&](const char* part, double in, double out, double x_type) {
    return product("linear", part, L, in, out, x_type, /*bias=*/out);
  };
  // Reads x, weight and bias, writes y; backward reads dy, x and weight, writes dx, dweight, dbias. Keeps x and two
  // float32 numbers of each token: its mean, and one over its deviation.
  const auto layer_norm = [&](const char* part, int64_t times) -> StepRow {
    return {.op = "layer_norm",
            .part = part,
            .times = times,
            .forward_bytes = s.stream * 2 * BTC + f32 * 2 * C,
            .backward_bytes = s.stream * 3 * BTC + f32 * C,
            .gradients = 2 * C,
            .kept = s.stream * BTC + 2 * f32 * s.BT};
  };
  const double gathered = std::min(s.BT, s.rows) * C;  // rows of wte: no more than there are
  const double logits = s.BT * s.rows, four = 4 * BTC * s.low;
  return {
      .rows =
          {
              // Reads tokens, a row of wte for each and T rows of wpe. Backward adds to the gradient of wte, which is
              // the head's, row by row. It writes the whole gradient of wpe.
              {.op = "embed",
               .part = "embed",
               .forward_bytes = i64 * s.BT + s.held * gathered + f32 * s.T * C + s.stream * BTC,
               .backward_bytes = i64 * s.BT + s.stream * BTC + f32 * 2 * gathered,
               .gradients = s.positions * C},
              layer_norm("ln_1", L),
              product("qkv", "c_attn", L, C, 3 * C, s.normed, /*bias=*/3 * C),
              // Backward makes dv, dp, dq, dk (Dao et al. 2022, FlashAttention, algorithm 4, without the second q k^T).
              // It reads q, k, v, o and do, writes dq, dk and dv. Keeps q, k, v and its softmax. CUDA's autocast
              // computes the softmax in float32 and makes a copy for the product; the CPU's stays in the low type.
              {.op = "attention",
               .part = "attention",
               .times = L,
               .flops = attention_flops(s.BT / s.T, s.T, C),
               .forward_bytes = 4 * BTC * s.low,
               .backward_bytes = 8 * BTC * s.low,
               .kept = 3 * BTC * s.low,
               .matrices = s.squares * (s.casts && !s.on_cpu ? f32 + s.low : s.low),
               .working = 3 * s.squares * s.low},
              linear("attn_proj", C, C, s.low),
              layer_norm("ln_2", L),
              linear("c_fc", C, 4 * C, s.normed),
              {.op = "gelu",
               .part = "gelu",
               .times = L,
               .forward_bytes = 2 * four,
               .backward_bytes = 3 * four,
               .kept = four,
               .working = 2 * four},  // the gradients of its argument and its result
              linear("mlp_proj", 4 * C, C, s.low),
              // Reads x and what is added, writes the sum. Backward reads the gradient along the stream and the one
              // through LayerNorm, and writes their sum. It hands that on to what was added, converted if it has
              // another type.
              {.op = "residual",
               .part = "residual",
               .times = 2 * L,
               .forward_bytes = BTC * (2 * s.stream + s.low),
               .backward_bytes = BTC * (3 * s.stream + (s.low == s.stream ? 0 : s.low))},
              layer_norm("ln_f", 1),
              product("head", "head", 1, C, s.rows, s.normed, /*bias=*/0),
              // Reads logits and targets, writes the loss. Backward reads them again and writes dlogits. ATen's loss
              // keeps log-probabilities, under CUDA's autocast in both types. It also makes zeros with one entry in
              // each row, and the gradient through softmax. CUDA's autocast makes that one when the converted
              // log-probabilities are gone.
              {.op = "cross_entropy",
               .part = "cross_entropy",
               .forward_bytes = logits * s.low + i64 * s.BT + f32,
               .backward_bytes = 2 * logits * s.low + i64 * s.BT + f32,
               .matrices = logits * (f32 + (s.casts && !s.on_cpu ? s.low : 0)),
               .working = logits * f32 * (s.casts && !s.on_cpu ? 1 : 2)},
          },
      // The norm reads every gradient. Scaling by it can be part of the update, and is where that is fused.
      .clip = {.op = "clip", .forward_bytes = f32 * s.parameters},
      // Reads weight, gradient and two moments, writes weight and moments (Loshchilov and Hutter 2019, algorithm
      // 2). A split weight has 2 + 2 bytes for the update, as many as a float32 one.
      .update = {.op = "adamw", .forward_bytes = 7 * f32 * s.parameters}};
}

}  // namespace

StepTable step_table(const StepSizes& sizes) {
  StepTable table = reference_table(sizes);
  for (const Technique& technique : techniques()) {
    if (technique.amend) technique.amend(sizes, table);
  }
  return table;
}

using namespace model;

std::vector<Cost> step_costs(const Config& config, const Recipe& recipe, int64_t B, int64_t T, int64_t accumulation) {
  const StepTable table = step_table({config, recipe, B, T});
  std::vector<Cost> costs;
  const auto steps = static_cast<double>(accumulation);
  for (const bool forward : {true, false}) {
    for (const StepRow& row : table.rows) {
      const auto times = static_cast<double>(row.times);
      // Gradients of weights are written by each micro-step, in the pass that makes them, and read by all but the
      // first.
      const double written = forward == row.is_backward_too ? steps : 0, read = forward ? 0 : steps - 1;
      const double flops = forward ? row.flops : row.is_backward_too ? 0 : backward_flops(row.flops);
      costs.push_back({.phase = forward ? "forward" : "backward",
                       .op = row.op,
                       .part = row.part,
                       .calls = row.times * accumulation,
                       .flops = times * steps * flops,
                       .bytes = times * (steps * (forward ? row.forward_bytes : row.backward_bytes) +
                                         (written + read) * f32 * row.gradients)});
    }
  }
  costs.push_back({"clip", "clip", "", 1, 0, table.clip.forward_bytes});
  costs.push_back({"update", "adamw", "", 1, 0, table.update.forward_bytes});
  return costs;
}

harness::NumberType multiplied_in(const Recipe& recipe) {
  switch (recipe.autocast) {
    case Autocast::bf16:
      return harness::NumberType::bf16;
    case Autocast::fp16:
      return harness::NumberType::fp16;
    case Autocast::off:
      break;
  }
  const bool may_round = recipe.matmul_precision != MatmulPrecision::highest;
  return recipe.device == Device::cuda && may_round ? harness::NumberType::tf32 : harness::NumberType::fp32;
}

std::string rate_of(const Recipe& recipe) {
  if (recipe.device == Device::cpu && recipe.autocast == Autocast::bf16 && recipe.products == Products::packed) {
    return "packed bf16";
  }
  if (recipe.device == Device::cpu && recipe.autocast == Autocast::off) {
    if (recipe.products == Products::packed) return "packed";
    if (recipe.matmul_precision == MatmulPrecision::medium) return "oneDNN";
  }
  if (recipe.device == Device::cuda && recipe.fp8 == Fp8::all) return "fp8";
  return std::string(name_of(multiplied_in(recipe)));
}

}  // namespace ablations
