// Which matrix products are made in fp8.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/fused.h"

#include <fmt/format.h>

#include <array>

namespace ablations {

using namespace model;

namespace {

Text head_text();
Text all_text();
std::vector<Claim> head_claims();
std::vector<Claim> all_claims();

constexpr std::array layers_in_fp8{"c_attn", "c_fc", "mlp_proj"};

std::string fp8_obstacle(const Recipe& recipe, const harness::Machine& machine) {
  if (recipe.fp8 == Fp8::off) return "";
  if (recipe.weights != Weights::master || recipe.autocast != Autocast::bf16) {
    return "fp8 needs autocast bf16 and weights master";
  }
  if (recipe.vocabulary_rows % 16 != 0) {
    return fmt::format("fp8 needs vocabulary_rows that are a multiple of 16, not {}", recipe.vocabulary_rows);
  }
  if (recipe.device == Device::cpu) {
    return recipe.products == Products::aten ? "" : "on a CPU fp8 is emulated, which needs products aten";
  }
  constexpr int least = 89;  // Ada; Hopper has 9.0
  if (machine.gpu && machine.gpu->compute_capability < least) {
    return fmt::format("fp8 needs compute capability 8.9, {} has {:.1f}", machine.gpu->name,
                       machine.gpu->compute_capability / 10.0);
  }
  if (recipe.fp8 == Fp8::all && recipe.qkv_gradient != QkvGradient::joined) return "fp8 all needs qkv_gradient joined";
  if (recipe.deterministic) return "fp8 products are not known to add in the same order in every run";
  return fused_obstacle(recipe, machine);
}

Proof prove_fp8(const Recipe& recipe, const RunFacts& facts) {
  const Counts products = facts.observations.fp8_products.value_or(Counts());
  std::string observed;
  int64_t in_fp8 = 0, other = 0;
  for (const auto& [name, calls] : products) {
    observed += fmt::format("{}{} {}", observed.empty() ? "" : ", ", calls, name);
    (name.ends_with("bf16") ? other : in_fp8) += calls;
  }
  if (observed.empty()) observed = "no fp8 product";
  if (recipe.fp8 == Fp8::off) return {"fp8", products.empty(), "no fp8 product", observed};
  const int64_t head = count(products, "head forward e4m3"), expected = facts.attentions;
  bool all = head > 0 && count(products, "head dgrad e5m2") == head && other == 0;
  int64_t products_expected = 2 * head;
  if (recipe.fp8 == Fp8::all) {
    for (const char* layer : layers_in_fp8) {
      all = all && count(products, fmt::format("{} forward e4m3", layer)) == expected &&
            count(products, fmt::format("{} dgrad e4m3", layer)) == expected;
    }
    products_expected += 2 * static_cast<int64_t>(layers_in_fp8.size()) * expected;
  }
  return {"fp8", all && in_fp8 == products_expected,
          recipe.fp8 == Fp8::head
              ? "the head's products in fp8, none in bf16"
              : fmt::format("the head's products and {} forward and dgrad of each of {} layers in fp8, none in bf16",
                            expected, layers_in_fp8.size()),
          observed};
}

std::string emulated_title(const char* title, const Observations& seen) {
  return seen.parameters_device == "cpu" ? fmt::format("{}, emulated", title) : "";
}

// Weights have two copies of a byte for each number. What is multiplied has one while the product is made; the chunk of
// logits has one of its gradient.
void amend_fp8(const StepSizes& s, StepTable& table) {
  if (s.recipe.fp8 == Fp8::off || s.on_cpu) return;
  const double C = s.C, head = s.rows * C;
  table.copies += 2 * head;
  StepRow& loss = table.at("head_loss");
  loss.working += loss.working / s.low;
  if (s.recipe.fp8 != Fp8::all) return;
  table.copies += 2 * static_cast<double>(s.layers) * (3 + 4 + 4) * C * C;
  table.at("mlp").working += 4 * s.BTC;
}

}  // namespace

Technique fp8() {
  return {
      .field = "fp8",
      .optimizations =
          {{.name = "fp8_head",
            .title = "fp8 head",
            .summary = "The head's products multiply 8-bit numbers: the logits, and the gradient of what they are made "
                       "of. The gradient of the embedding stays a bf16 product.",
            .needs = {"master_weights"},
            .edit = [](Recipe& r, const harness::Machine&) { r.fp8 = Fp8::head; },
            .title_seen = [](const Observations& seen) { return emulated_title("fp8 head", seen); },
            .text = head_text(),
            .claims = head_claims()},
           {.name = "fp8",
            .title = "fp8 products",
            .summary = "The large products multiply 8-bit numbers, forward and for the gradient of their input: head, "
                       "both of the MLP, and query, key, value. Gradients of weights stay bf16 products.",
            .needs = {"master_weights"},
            .edit = [](Recipe& r, const harness::Machine&) { r.fp8 = Fp8::all; },
            .title_seen = [](const Observations& seen) { return emulated_title("fp8 products", seen); },
            .text = all_text(),
            .claims = all_claims()}},
      .obstacle = fp8_obstacle,
      .tolerance = [](const Recipe& recipe) { return recipe.fp8 == Fp8::off ? 0.0 : 2e-2; },
      .amend = amend_fp8,
      .prove = prove_fp8,
  };
}

// ---- In words

namespace {

Text head_text() {
  return {
      .mechanism = R"(An fp8 number has 8 bits. Tensor cores multiply twice as many of them in a second as of bf16's 16,
and half as many bytes are read. There are two kinds:

            exponent  mantissa   largest    smallest normal   rounding error
    e4m3       4         3           448        0.016             6 %
    e5m2       5         2        57,344        0.00006          13 %

So few exponents need a scale: a matrix is divided by a number that brings its largest to the type's largest, and the
result is multiplied by it again. Here no scale is taken from an earlier step, and none can be too small:

    LayerNorm's result      sqrt(C - 1) max|weight| + max|bias|: no number can be greater
    weights                 the matrix's largest number, once a step
    gradient of logits      1 / tokens: a probability less 0 or 1

The gradient of the logits is mostly tiny, and is written in e5m2. The others are e4m3. A kernel that computes a matrix
writes its fp8 copy beside it. On Hopper tensor cores add up only fp8 numbers that lie side by side. Forward that is so.
For the gradient of the input, the weight's transpose is kept as a second copy.)",
      .faster =
          R"(The head's three matmuls are 31 % of all multiplications with weights, 30 % of the matmuls' time on an
H200 in bf16. There its forward matmul takes 0.58 of bf16's time, and its input's gradient 0.55.)",
      .costs = R"(Each number is rounded to 3 bits of mantissa, so a matmul is off by 4 %. The loss may end higher: a
time to loss says more than tokens per second. Two bytes for each weight of the head, and half of a chunk of logits.)",
      .no_help = R"(GPUs before Ada and Hopper have no such tensor cores. A small matmul gains little.)",
      .pytorch = R"(y = torch._scaled_mm(x8, w8.t(), scale_a=sx, scale_b=sw, out_dtype=torch.bfloat16)
# torchao: convert_to_float8_training(model))",
      .proven = R"(Each matmul is counted where cuBLASLt is called: the head's forward and its input's gradient in fp8,
in each chunk, and none of them in bf16.)",
      .alone = R"(ladder run --ladder gpt2 --rung joined_qkv_gradient
ladder run --ladder gpt2 --rung fp8_head)"};
}

Text all_text() {
  return {
      .mechanism = R"(As fp8 head does, also in each layer: query, key and value, and both matmuls of the MLP. Where no
bound is known, a row has a scale of its own, its largest number over 448:

                    forward reads              gradient of the input reads
    c_attn          LayerNorm's, one scale     dq, dk, dv, by rows
    c_fc            LayerNorm's, one scale     GELU's gradient, by rows
    mlp_proj        GELU's result, by rows     the stream's gradient, by rows
    head            LayerNorm's, one scale     the logits', one scale

A row's kernel holds the whole row, so its scale costs no pass. On an H200 scales by rows cost a matmul 18 % where 768
numbers are added up, and nothing where 2,304 or more are. Gradients of weights stay in bf16, because they would need
transposes; so does attention's projection, whose input nothing writes in fp8.)",
      .faster = R"(On an H200 these matmuls take 0.54 to 0.81 of bf16's time, and fp8 about 0.55 of its energy. At the
power limit that lets the clock rise for the rest of the step.)",
      .costs = R"(Rounding, as for the head, in each layer and in the gradients. Two bytes for each weight, 0.2 GiB for
GPT-2 124M. GELU takes a kernel of its own; in bf16 it can be the matmul's epilogue.)",
      .no_help =
          R"(Small matmuls gain little, and scales and copies in passes of their own can cost more than fp8 saves. On a
CPU fp8 is emulated, to ask what it does to the loss; that is slower.)",
      .pytorch = R"(from torchao.float8 import convert_to_float8_training
convert_to_float8_training(model)    # and torch.compile)",
      .proven = R"(Each matmul is counted where cuBLASLt is called: forward and gradient of the input of three matmuls
in each layer, and the head's, and none of them in bf16.)",
      .alone = R"(ladder run --ladder gpt2 --rung fp8_head
ladder run --ladder gpt2 --rung fp8)"};
}

const ClaimSource modded{"modded-nanogpt's records, a variant of GPT-2 124M on H100s",
                         "https://github.com/KellerJordan/modded-nanogpt"};

std::vector<Claim> head_claims() {
  return {{.claim = "the head's matmuls with static scales: 16.95 -> 10.31 ms",
           .source = {"nanochat's log, depth 12, H100", "https://github.com/karpathy/nanochat"},
           .shown =
               "NVIDIA H200, B=16 T=1024, these matmuls alone (results/evidence/nvidia-h200-products-2026-11-26): "
               "1.85x; 1.64x is claimed, and 1.38x with scales that are measured in each step. End to end there 1 %."}};
}

std::vector<Claim> all_claims() {
  return {
      {.claim = "c_fc forward in fp8: 57.18 -> 56.47 ms per step",
       .source = modded,
       .note = "The loss is 0.0008 higher after as many steps. The head was in fp8 before."},
      {.claim = "25 % more tokens per second with one scale for a matrix, 10 % with scales by rows",
       .source = {"torchao's documentation, Llama 3 8B on 8 H100s", "https://github.com/pytorch/ao"},
       .about = Claim::About::step,
       .least = 1.1,
       .most = 1.25,
       .note = "Matmuls there add up 4,096 numbers and more."},
      {.claim = "matmuls of a layer 1.90x as fast, and 1.58x with scales and copies computed",
       .source = {"TransformerEngine's example, hidden size 4,096, H200 NVL",
                  "https://github.com/NVIDIA/TransformerEngine"},
       .shown = "NVIDIA H200, B=16 T=1024, width 768 (results/evidence/nvidia-h200-products-2026-11-26): 1.80x, and "
                "1.53x with scales by rows, without computing scales and copies. The matmuls alone, not the step."}};
}

}  // namespace

}  // namespace ablations
