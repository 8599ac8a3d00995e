#include "ablations/techniques/costs.h"

#include <algorithm>

namespace model {
namespace {

constexpr double f32 = 4, i64 = 8;  // bytes

// One call of an operation in one micro-step.
struct Call {
  std::string op, part;
  int64_t times;                         // per micro-step
  double flops;                          // of forward
  double forward_bytes, backward_bytes;  // without gradients of weights
  double gradients;                      // of weights: how many numbers
  bool is_backward_too = false;          // forward makes the gradients, and `flops` are of both
};

}  // namespace

std::vector<Cost> step_costs(const Config& config, const Recipe& recipe, int64_t batch, int64_t context,
                             int64_t accumulation) {
  const auto B = static_cast<double>(batch), T = static_cast<double>(context), C = static_cast<double>(config.n_embd);
  const auto rows = static_cast<double>(recipe.vocabulary_rows), P = static_cast<double>(config.n_positions);
  const int64_t L = config.n_layer;
  const double low = recipe.autocast == Autocast::off ? f32 : 2;
  const double stream = recipe.residual == Residual::autocast ? low : f32;  // bytes of one of its numbers
  // Bytes of a weight as products and the embedding read it. This is all that master weights change here, because the
  // rest is counted at its least in any case: no copies to 16 bits, no dense gradient of the embedding, no gradient
  // written back by the update. The norm of all gradients must be known before the first weight changes, so clip and
  // update both read them. A split weight has 2 + 2 bytes for the update, as many as a float32 one.
  const double held = recipe.weights == Weights::master ? low : f32;
  const double BT = B * T, BTC = BT * C;

  // x (BT, in) in x_type, weight (out, in), bias (out) or none -> y (BT, out).
  // Backward: dx = dy W and dW = dy^T x. Reads dy, x and W, writes dx, dW and db.
  const auto product = [&](const char* op, const char* part, int64_t times, double in, double out, double x_type,
                           double bias) -> Call {
    const double x = BT * in * x_type, y = BT * out * low, weight = in * out, flops = product_flops(BT, out, in);
    return {op, part, times, flops, x + held * weight + f32 * bias + y, y + x + held * weight + x, weight + bias};
  };
  const auto linear = [&](const char* part, double in, double out, double x_type) {
    return product("linear", part, L, in, out, x_type, /*bias=*/out);
  };

  const double gathered = std::min(BT, rows) * C;  // rows of wte: no more than there are
  // Reads x, weight and bias, writes y; backward reads dy, x and weight, writes dx, dweight, dbias.
  const auto layer_norm = [&](const char* part, int64_t times) -> Call {
    return {"layer_norm", part, times, 0, stream * 2 * BTC + f32 * 2 * C, stream * 3 * BTC + f32 * C, 2 * C};
  };
  // Reads the stream, what is added to it, weight and bias, writes the sum and, in the products' type, the normalized
  // rows. Backward reads the sum and both gradients, writes the stream's, and once more in the type of what was added,
  // where that is another. The first of a step has nothing to add.
  const auto add_norm = [&](const char* part, int64_t times, int64_t first) -> Call {
    const double added = static_cast<double>(times - first) / static_cast<double>(times);
    return {"add_norm",
            part,
            times,
            0,
            BTC * (stream + low + added * (stream + low)) + f32 * 2 * C,
            BTC * (2 * stream + low + added * (stream + (low == stream ? 0 : low))) + f32 * C,
            2 * C};
  };
  // Reads x and what is added, writes the sum. Backward adds the gradient that comes by the other way, through
  // LayerNorm, to the one that comes along the stream: reads two, writes one, and hands the second on to what was
  // added, converted where that has another type.
  const Call residual{
      "residual", "residual", 2 * L, 0, BTC * (2 * stream + low), BTC * (3 * stream + (low == stream ? 0 : low)), 0};
  const bool one_norm = recipe.norm == Norm::fused;
  const double normed = one_norm ? low : stream;  // bytes of a number that LayerNorm makes

  std::vector<Call> calls{
      // Reads tokens, a row of wte for each and T rows of wpe. Backward adds to the gradient of wte, which is the
      // head's, row by row, and writes that of wpe whole.
      {"embed", "embed", 1, 0, i64 * BT + held * gathered + f32 * T * C + stream * BTC,
       i64 * BT + stream * BTC + f32 * 2 * gathered, P * C},
      one_norm ? add_norm("ln_1", L, /*first=*/1) : layer_norm("ln_1", L),
      product("qkv", "c_attn", L, C, 3 * C, normed, /*bias=*/3 * C),
      // Backward: dv, dp, dq, dk (Dao et al. 2022, FlashAttention, algorithm 4, without the second q k^T); it reads q,
      // k, v, o and do, writes dq, dk and dv.
      {"attention", "attention", L, attention_flops(B, T, C), 4 * BTC * low, 8 * BTC * low, 0},
      linear("attn_proj", C, C, low),
      one_norm ? add_norm("ln_2", L, /*first=*/0) : layer_norm("ln_2", L),
  };
  const Call fc = linear("c_fc", C, 4 * C, normed), proj = linear("mlp_proj", 4 * C, C, low);
  const Call gelu{"gelu", "gelu", L, 0, 2 * 4 * BTC * low, 3 * 4 * BTC * low, 0};
  if (recipe.mlp == Mlp::fused) {
    // On a CPU GELU's result is written once more in backward. On a GPU the first product writes it beside GELU's
    // argument, which is not read again, and the second product's backward writes GELU's gradient at once, where
    // otherwise that of its result is written and read.
    const bool on_cpu = recipe.device == Device::cpu;
    const double pass = 4 * BTC * low, forward = on_cpu ? 0 : -pass, backward = on_cpu ? pass : -2 * pass;
    calls.push_back(
        {"mlp", "mlp", L, fc.flops + proj.flops, fc.forward_bytes + gelu.forward_bytes + proj.forward_bytes + forward,
         fc.backward_bytes + gelu.backward_bytes + proj.backward_bytes + backward, fc.gradients + proj.gradients});
  } else {
    calls.insert(calls.end(), {fc, gelu, proj});
  }
  if (!one_norm) calls.push_back(residual);
  calls.push_back(one_norm ? add_norm("ln_f", 1, /*first=*/0) : layer_norm("ln_f", 1));
  const Call head = product("head", "head", 1, C, rows, normed, /*bias=*/0);
  if (recipe.cross_entropy == CrossEntropy::fused) {
    // Reads x, wte and targets, writes the loss and, in the same pass, the gradients of x and wte.
    calls.push_back({"head_loss", "head_loss", 1, head.flops + backward_flops(head.flops),
                     2 * BTC * normed + held * rows * C + i64 * BT + f32, 0, rows * C, /*is_backward_too=*/true});
  } else {
    calls.push_back(head);
    // Reads logits and targets, writes the loss; backward reads them again and writes dlogits.
    calls.push_back({"cross_entropy", "cross_entropy", 1, 0, BT * rows * low + i64 * BT + f32,
                     2 * BT * rows * low + i64 * BT + f32, 0});
  }

  std::vector<Cost> costs;
  const auto steps = static_cast<double>(accumulation);
  for (const bool forward : {true, false}) {
    for (const Call& call : calls) {
      const auto times = static_cast<double>(call.times);
      // Gradients of weights are written by each micro-step, in the pass that makes them, and read by all but the
      // first.
      const double written = forward == call.is_backward_too ? steps : 0, read = forward ? 0 : steps - 1;
      costs.push_back({.phase = forward ? "forward" : "backward",
                       .op = call.op,
                       .part = call.part,
                       .calls = call.times * accumulation,
                       .flops = times * steps *
                                (forward                ? call.flops
                                 : call.is_backward_too ? 0
                                                        : backward_flops(call.flops)),
                       .bytes = times * (steps * (forward ? call.forward_bytes : call.backward_bytes) +
                                         (written + read) * f32 * call.gradients)});
    }
  }
  const double parameters =
      static_cast<double>(config.parameters()) + (rows - static_cast<double>(config.vocabulary)) * C;
  // The norm reads every gradient. Scaling by it can be part of the update, and is where that is fused.
  costs.push_back({"clip", "clip", "", 1, 0, f32 * parameters});
  // Reads weight, gradient and two moments, writes weight and moments (Loshchilov and Hutter 2019, algorithm 2).
  costs.push_back({"update", "adamw", "", 1, 0, 7 * f32 * parameters});
  return costs;
}

}  // namespace model
