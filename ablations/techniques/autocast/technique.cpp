// Matrix products and attention in 16 bits.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fingerprint.h"
#include "ablations/techniques/fused.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>

namespace ablations {

using harness::Machine;
using namespace model;

namespace {

Text text_of_bf16();
Text text_of_fp16();
std::vector<Claim> claims_of_bf16();
std::vector<Claim> claims_of_fp16();

// Faster than float32 only where the processor multiplies bfloat16.
std::string bf16_is_pointless(const Recipe& recipe, const Machine& machine) {
  if (recipe.device == Device::cuda || machine.cpu.has("avx512_bf16") || machine.cpu.has("amx_bf16")) return "";
  return "this CPU has neither avx512_bf16 nor amx_bf16";
}

std::string autocast_obstacle(const Recipe& recipe, const Machine& machine) {
  if (recipe.device == Device::cpu || recipe.autocast != Autocast::bf16) return "";
  if (machine.gpu->compute_capability >= 80) return "";
  return fmt::format("autocast bf16 needs compute capability 8.0, {} has {:.1f}", machine.gpu->name,
                     machine.gpu->compute_capability / 10.0);
}

// Measured: the bfloat16 rungs in results/evidence differ by 0.0003 nats at most from float32.
double autocast_tolerance(const Recipe& recipe) { return recipe.autocast == Autocast::off ? 0 : 1e-2; }

int64_t low_precision_products(const Counts& products) {
  int64_t sum = 0;
  for (const auto& [name, calls] : products) {
    for (const std::string_view prefix :
         {"onednn matmul bf16", "onednn matmul f16", "onednn inner_product bf16", "mkl gemm_bf16", "packed bf16"}) {
      if (name.starts_with(prefix)) sum += calls;
    }
  }
  return sum;
}

Proof prove_autocast(const Recipe& recipe, const RunFacts& facts) {
  const Observations& seen = facts.observations;
  const std::string &precision = seen.fingerprint.autocast.precision, &dtype = seen.logits.dtype;
  const int64_t low = low_precision_products(seen.matrix_products.value_or(Counts()));
  std::string observed =
      fmt::format("logits {}; product under autocast: {}", dtype, in_words(seen.fingerprint.autocast));
  if (seen.matrix_products) observed += fmt::format("; {} low-precision products in a step", low);
  switch (recipe.autocast) {
    case Autocast::off:
      return {"autocast", dtype == "Float" && low == 0, "logits Float; no low-precision product in a step", observed};
    case Autocast::bf16:
      return {"autocast", dtype == "BFloat16" && precision == "bfloat16" && (!seen.matrix_products || low > 0),
              "logits BFloat16; a product under autocast has bfloat16's error; a step makes low-precision products",
              observed};
    case Autocast::fp16:
      return {"autocast", dtype == "Half" && precision == "tf32 or float16",
              "logits Half; a product under autocast has float16's error", observed};
  }
  return {"autocast", false, "", observed};
}

}  // namespace

Technique autocast() {
  return {
      .field = "autocast",
      .optimizations =
          {{.name = "bf16",
            .title = "bf16 autocast",
            .summary = "Matrix products and attention read and write bfloat16: half the bytes and faster arithmetic. "
                       "Weights, loss and optimizer stay float32; a step copies the weights to bfloat16, which at "
                       "small batches takes more memory than the activations save.",
            .excludes = {"fp16"},
            .edit =
                [](Recipe& r, const Machine& machine) {
                  r.autocast = Autocast::bf16;
                  if (!packed_obstacle(r, machine).empty()) r.products = Products::aten;
                },
            .pointless = bf16_is_pointless,
            .text = text_of_bf16(),
            .claims = claims_of_bf16()},
           {.name = "fp16",
            .title = "fp16 autocast",
            .summary = "As bf16, with float16: more mantissa, less range. The loss is scaled so that small gradients "
                       "do not vanish, and a step whose gradients overflow is skipped.",
            .needs = {"gpu"},
            .excludes = {"bf16"},
            .edit = [](Recipe& r, const Machine&) { r.autocast = Autocast::fp16; },
            .text = text_of_fp16(),
            .claims = claims_of_fp16()}},
      .obstacle = autocast_obstacle,
      .tolerance = autocast_tolerance,
      .prove = prove_autocast,
  };
}

// ---- In words

namespace {

Text text_of_bf16() {
  return {
      .mechanism = R"(Autocast converts what goes into matmuls and attention to bfloat16. That is the first half
of a float32, rounded: its sign, its 8 bits of exponent and 7 bits of mantissa. So 1/3 becomes 0.33398438. The
multipliers add up in float32, and the result is rounded to bfloat16.

Weights stay float32. Each step makes a bfloat16 copy of those that enter matmuls: 123.6 million numbers, 247 MB for
GPT-2 124M. LayerNorm, the stream that the blocks add to, and the optimizer stay float32, and the gradients of the
weights are converted back before the update.)",
      .faster =
          R"(Activations between matmuls have half the bytes, and tensor cores are twice as fast in bfloat16 as in
TF32: NVIDIA's data sheet for the A100 gives 312 TFLOP/s and 156. Some CPUs multiply bfloat16, too (avx512_bf16,
AMX).)",
      .costs = R"(Accuracy: a matmul of normal matrices is off by 3e-3 of its size, and the guard allows the losses
0.01 nats. No loss scale is needed, because the range is float32's. The copies take 2 bytes a weight until the backward
pass has used them, which at small batches is more than the activations save. A GPU needs compute capability 8.0.)",
      .no_help =
          R"(It is slower on a CPU that has neither avx512_bf16 nor amx_bf16, and on some that have: on the Intel
machine in results/evidence bfloat16's matmuls take longer than float32's. At small batches converting all weights
weighs more. It saves no memory in attention that is written out on a GPU: softmax keeps its result in float32 and once
more in bfloat16, 6 bytes a number instead of 4.)",
      .pytorch = R"(with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
    logits, loss = model(x, y)
loss.backward()    # outside)",
      .proven = R"(The logits are bfloat16. A matmul under autocast has bfloat16's error against float64. On a CPU the
libraries log their calls, and a step must have called for low-precision matmuls.)"};
}

Text text_of_fp16() {
  return {
      .mechanism = R"(As bf16 autocast, with float16: 10 bits of mantissa, but 5 of exponent. Its largest number is
65,504. Below 6.1e-5 it loses one bit after another, and what is at most 3.0e-8 becomes 0. Gradients can be that small.

So the loss is multiplied by a scale, 65,536 at first, and with it every gradient. A gradient of 1e-8, which would
become 0, is 6.6e-4 on its way. Before the update the gradients, which are float32 by then, are divided by the scale. If
one of them is infinite or NaN, the step is skipped and the scale is halved; after 2,000 steps without that it is
doubled. All of this is decided on the GPU, and the processor reads nothing back.)",
      .faster =
          R"(As bf16: half the bytes between matmuls, and tensor cores at the same rate (312 TFLOP/s in both on an
A100).)",
      .costs = R"(One more pass over the gradients, which divides them and looks for infinite ones: 498 MB for GPT-2
124M. A skipped step learns nothing. A matmul of normal matrices is off by 3e-4 of its size.)",
      .no_help =
          R"(A GPU with bfloat16 (compute capability 8.0 or newer) does not need it: bfloat16 is as fast, and needs no
scale. float16 is for older GPUs, such as the V100 and the T4, whose tensor cores have no bfloat16.)",
      .pytorch = R"(with torch.autocast("cuda", dtype=torch.float16): loss = model(x, y)
scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()    # scaler = torch.amp.GradScaler("cuda"))",
      .proven =
          R"(The logits are float16. A matmul under autocast has float16's error against float64. The record holds
the loss scale and how many steps were skipped.)"};
}

std::vector<Claim> claims_of_bf16() {
  return {{.claim = "333 -> 300 ms per step, over TF32",
           .source = sources::lecture,
           .about = Claim::About::step,
           .least = 333.0 / 300,
           .most = 333.0 / 300}};
}

std::vector<Claim> claims_of_fp16() {
  return {{.claim = "1.5x to 2x", .source = sources::notes, .about = Claim::About::step, .least = 1.5, .most = 2},
          {.claim = "activations -50 %",
           .source = sources::notes,
           .about = Claim::About::activations,
           .least = 2,
           .most = 2,
           .note = "Here it cannot be half of all: what LayerNorm reads stays float32."},
          {.claim = "memory in all -24 %: 4.1 -> 3.1 GB",
           .source = sources::notes,
           .wrong = "Autocast keeps gradients in float32. With 536 MB of them, not 268, the same figures give -18 %."},
          {.claim = "a gradient of 1e-5 underflows to 0 in float16",
           .source = sources::notes,
           .wrong = "1e-5 is below the smallest normal number, 6.1e-5, but float16 has subnormal ones down to 6.0e-8. "
                    "1e-5 becomes 1.0014e-5. Only what is at most 3.0e-8 becomes 0."}};
}

}  // namespace

}  // namespace ablations
