// What a step costs, against counts made by hand and against MFU's formula.
#include "ablations/techniques/step_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace step_costs_test {

using namespace ablations;
using namespace model;

Recipe recipe(Autocast autocast = Autocast::off, int64_t rows = 50257) {
  Recipe result;
  result.autocast = autocast;
  result.vocabulary_rows = rows;
  return result;
}

// Over a phase, or all of them.
double sum(const std::vector<Cost>& costs, const std::string& phase, double Cost::*what) {
  double result = 0;
  for (const Cost& cost : costs) result += phase.empty() || cost.phase == phase ? cost.*what : 0;
  return result;
}

// By part; by operation where the trainer's have none.
Cost find(const std::vector<Cost>& costs, const std::string& phase, const std::string& name) {
  for (const Cost& cost : costs) {
    if (cost.phase == phase && (cost.part.empty() ? cost.op : cost.part) == name) return cost;
  }
  ADD_FAILURE() << phase << " " << name << " is not there";
  return {};
}

void expect(const Cost& cost, int64_t calls, double flops, double bytes) {
  EXPECT_EQ(cost.calls, calls) << cost.phase << " " << cost.op << " " << cost.part;
  EXPECT_DOUBLE_EQ(cost.flops, flops) << cost.phase << " " << cost.op << " " << cost.part;
  EXPECT_DOUBLE_EQ(cost.bytes, bytes) << cost.phase << " " << cost.op << " " << cost.part;
}

// tiny: 2 layers, 2 heads, C=32, 64 positions. B=3, T=8: 24 tokens, 768 numbers in a (B, T, C).
TEST(Costs, Float32ByHand) {
  const auto costs = step_costs(preset("tiny"), recipe(), 3, 8, 1);
  // 24 tokens of 8 bytes; 24 rows of wte, 8 of wpe and 24 written, of 32 floats.
  expect(find(costs, "forward", "embed"), 1, 0, 24 * 8 + 4 * 32 * (24 + 8 + 24));
  // dx, and 24 rows of wte's gradient both ways; 64 rows of wpe's.
  expect(find(costs, "backward", "embed"), 1, 0, 24 * 8 + 4 * 32 * (24 + 2 * 24 + 64));
  for (const auto& [part, calls] : std::map<std::string, int64_t>{{"ln_1", 2}, {"ln_2", 2}, {"ln_f", 1}}) {
    expect(find(costs, "forward", part), calls, 0, static_cast<double>(calls * 4 * (768 + 64 + 768)));
    expect(find(costs, "backward", part), calls, 0, static_cast<double>(calls * 4 * (768 + 768 + 32 + 768 + 64)));
    EXPECT_EQ(find(costs, "forward", part).op, "layer_norm");
  }
  // (24, 32) x (32, 96): 2 * 24 * 32 * 96 = 147,456 in each of 2 layers.
  expect(find(costs, "forward", "c_attn"), 2, 2 * 147456, 2 * 4 * (768 + 32 * 96 + 96 + 24 * 96));
  expect(find(costs, "backward", "c_attn"), 2, 4 * 147456, 2 * 4 * (24 * 96 + 768 + 32 * 96 + 768 + 32 * 96 + 96));
  expect(find(costs, "forward", "attn_proj"), 2, 2 * 2 * 24 * 32 * 32, 2 * 4 * (768 + 1024 + 32 + 768));
  expect(find(costs, "forward", "c_fc"), 2, 2 * 2 * 24 * 32 * 128, 2 * 4 * (768 + 4096 + 128 + 3072));
  expect(find(costs, "forward", "mlp_proj"), 2, 2 * 2 * 24 * 32 * 128, 2 * 4 * (3072 + 4096 + 32 + 768));
  // For each of 3 sequences and 2 heads, q k^T and p v are 2 * 8 * 8 * 16 each; half of both is 2048. 2 layers.
  expect(find(costs, "forward", "attention"), 2, 2 * 3 * 2 * 2048, 2 * 4 * 4 * 768);
  expect(find(costs, "backward", "attention"), 2, 2 * 2 * 3 * 2 * 2048, 2 * 8 * 4 * 768);
  expect(find(costs, "forward", "gelu"), 2, 0, 2 * 2 * 4 * 3072);
  expect(find(costs, "backward", "gelu"), 2, 0, 2 * 3 * 4 * 3072);
  expect(find(costs, "forward", "residual"), 4, 0, 4 * 3 * 4 * 768);
  expect(find(costs, "backward", "residual"), 4, 0, 4 * 3 * 4 * 768);
  EXPECT_EQ(find(costs, "forward", "mlp_proj").op, "linear");
  const double V = 50257;
  expect(find(costs, "forward", "head"), 1, 2 * 24 * 32 * V, 4 * (768 + 32 * V + 24 * V));
  expect(find(costs, "backward", "head"), 1, 4 * 24 * 32 * V, 4 * (24 * V + 768 + 32 * V + 768 + 32 * V));
  expect(find(costs, "forward", "cross_entropy"), 1, 0, 4 * 24 * V + 24 * 8 + 4);
  expect(find(costs, "backward", "cross_entropy"), 1, 0, 2 * 4 * 24 * V + 24 * 8 + 4);
  const double N = V * 32 + 64 * 32 + 2 * (4 * 32 + 32 * 96 + 96 + 1024 + 32 + 4096 + 128 + 4096 + 32) + 64;
  expect(find(costs, "clip", "clip"), 1, 0, 4 * N);
  expect(find(costs, "update", "adamw"), 1, 0, 28 * N);
  EXPECT_EQ(costs.size(), 2 * 13U + 2);
}

// Two bytes for what products, attention and gelu make; weights, LayerNorm, the residual stream and the loss keep four.
TEST(Costs, AutocastByHand) {
  const auto costs = step_costs(preset("tiny"), recipe(Autocast::bf16, 50304), 3, 8, 1);
  const double V = 50304;
  expect(find(costs, "forward", "ln_1"), 2, 0, 2 * 4 * (768 + 64 + 768));
  expect(find(costs, "forward", "c_attn"), 2, 2 * 147456, 2 * (4 * (768 + 32 * 96 + 96) + 2 * 24 * 96));
  expect(find(costs, "forward", "mlp_proj"), 2, 2 * 2 * 24 * 32 * 128, 2 * (2 * 3072 + 4 * (4096 + 32) + 2 * 768));
  expect(find(costs, "backward", "mlp_proj"), 2, 2 * 4 * 24 * 32 * 128,
         2 * (2 * 768 + 2 * 3072 + 4 * 4096 + 2 * 3072 + 4 * (4096 + 32)));
  expect(find(costs, "forward", "attention"), 2, 2 * 3 * 2 * 2048, 2 * 4 * 2 * 768);
  expect(find(costs, "forward", "residual"), 4, 0, 4 * (4 * 768 + 2 * 768 + 4 * 768));
  expect(find(costs, "backward", "residual"), 4, 0, 4 * (3 * 4 * 768 + 2 * 768));
  expect(find(costs, "forward", "head"), 1, 2 * 24 * 32 * V, 4 * (768 + 32 * V) + 2 * 24 * V);
  expect(find(costs, "backward", "cross_entropy"), 1, 0, 2 * 2 * 24 * V + 24 * 8 + 4);
  const auto half = step_costs(preset("tiny"), recipe(Autocast::fp16, 50304), 3, 8, 1);
  for (size_t i = 0; i < costs.size(); ++i) EXPECT_EQ(half[i].bytes, costs[i].bytes) << costs[i].op;
}

// Two bytes for the residual stream, too, and for what LayerNorm hands on; weights and their gradients keep four.
TEST(Costs, AStreamOf16BitsByHand) {
  Recipe low = recipe(Autocast::bf16);
  low.residual = Residual::autocast;
  const auto costs = step_costs(preset("tiny"), low, 3, 8, 1);
  expect(find(costs, "forward", "embed"), 1, 0, 24 * 8 + 4 * (768 + 8 * 32) + 2 * 768);
  expect(find(costs, "backward", "embed"), 1, 0, 24 * 8 + 2 * 768 + 4 * 2 * 768 + 4 * 64 * 32);
  expect(find(costs, "forward", "ln_1"), 2, 0, 2 * (2 * 2 * 768 + 4 * 64));
  expect(find(costs, "backward", "ln_1"), 2, 0, 2 * (2 * 3 * 768 + 4 * 32 + 4 * 64));
  expect(find(costs, "forward", "c_attn"), 2, 2 * 147456, 2 * (2 * 768 + 4 * (32 * 96 + 96) + 2 * 24 * 96));
  expect(find(costs, "forward", "residual"), 4, 0, 4 * 3 * 2 * 768);
  expect(find(costs, "backward", "residual"), 4, 0, 4 * 3 * 2 * 768);
}

// Products and the embedding read two bytes of a master weight; the update moves as many as of a float32 one.
TEST(Costs, MasterWeightsByHand) {
  Recipe fused = recipe(Autocast::bf16, 50304);
  fused.norm = Norm::fused;
  fused.mlp = Mlp::fused;
  fused.cross_entropy = CrossEntropy::fused;
  fused.optimizer = Optimizer::fused;
  Recipe master = fused;
  master.weights = Weights::master;
  const auto costs = step_costs(preset("tiny"), master, 3, 8, 1), before = step_costs(preset("tiny"), fused, 3, 8, 1);
  const double V = 50304;
  expect(find(costs, "forward", "embed"), 1, 0, 24 * 8 + 2 * 768 + 4 * (8 * 32 + 768));
  expect(find(costs, "forward", "c_attn"), 2, 2 * 147456, 2 * (2 * 768 + 2 * 32 * 96 + 4 * 96 + 2 * 24 * 96));
  expect(find(costs, "backward", "c_attn"), 2, 4 * 147456,
         2 * (2 * 24 * 96 + 2 * 768 + 2 * 32 * 96 + 2 * 768 + 4 * (32 * 96 + 96)));
  expect(find(costs, "forward", "head_loss"), 1, 6 * 24 * 32 * V, 2 * 2 * 768 + 2 * V * 32 + 24 * 8 + 4 + 4 * V * 32);
  for (const char* phase : {"clip", "update"}) {
    const char* name = std::string(phase) == "clip" ? "clip" : "adamw";
    EXPECT_DOUBLE_EQ(find(costs, phase, name).bytes, find(before, phase, name).bytes);
  }
  // Two bytes of each of the products' weights, forward and, but for the head, backward; and of the gathered rows.
  const double layers = 2 * (32 * 96 + 32 * 32 + 2 * 32 * 128);
  EXPECT_DOUBLE_EQ(sum(before, "", &Cost::bytes) - sum(costs, "", &Cost::bytes), 2 * (2 * layers + V * 32 + 768));
  master.device = Device::cuda;  // whose products read two bytes of a bias, too
  expect(find(step_costs(preset("tiny"), master, 3, 8, 1), "forward", "c_attn"), 2, 2 * 147456,
         2 * 2 * (768 + 32 * 96 + 96 + 24 * 96));
}

// Passes over B x T x 4C numbers, which are 3072 here, in each of two layers.
TEST(Costs, TheFusedMlpSavesPassesOnAGpuAndWritesOneMoreOnACpu) {
  for (const Device device : {Device::cpu, Device::cuda}) {
    Recipe plain = recipe(Autocast::bf16);
    plain.device = device;
    Recipe fused = plain;
    fused.mlp = Mlp::fused;
    const auto saved = [&](const char* phase) {
      const auto of = [phase](const Recipe& one) {
        return sum(step_costs(preset("tiny"), one, 3, 8, 1), phase, &Cost::bytes);
      };
      return of(plain) - of(fused);
    };
    EXPECT_DOUBLE_EQ(saved("forward"), device == Device::cpu ? 0 : 2 * 2 * 3072);
    EXPECT_DOUBLE_EQ(saved("backward"), device == Device::cpu ? -2 * 2 * 3072 : 0);
  }
}

TEST(Costs, AccumulationRepeatsTheMicroStepAndAddsToGradients) {
  const auto once = step_costs(preset("tiny"), recipe(), 3, 8, 1),
             thrice = step_costs(preset("tiny"), recipe(), 3, 8, 3);
  EXPECT_EQ(find(thrice, "forward", "gelu").calls, 6);
  EXPECT_DOUBLE_EQ(find(thrice, "forward", "head").bytes, 3 * find(once, "forward", "head").bytes);
  EXPECT_DOUBLE_EQ(find(thrice, "backward", "head").flops, 3 * find(once, "backward", "head").flops);
  // The second and the third micro-step read the gradient that they add to.
  EXPECT_DOUBLE_EQ(find(thrice, "backward", "head").bytes,
                   3 * find(once, "backward", "head").bytes + 2 * 4 * 50257 * 32);
  EXPECT_DOUBLE_EQ(find(thrice, "clip", "clip").bytes, find(once, "clip", "clip").bytes);
  EXPECT_DOUBLE_EQ(find(thrice, "update", "adamw").bytes, find(once, "update", "adamw").bytes);
}

TEST(Costs, AFusedLossMakesItsGradientsInForward) {
  Recipe fused = recipe();
  fused.cross_entropy = CrossEntropy::fused;
  const auto once = step_costs(preset("tiny"), fused, 3, 8, 1), thrice = step_costs(preset("tiny"), fused, 3, 8, 3);
  const double V = 50257;
  expect(find(once, "forward", "head_loss"), 1, 3 * 2 * 24 * 32 * V, 4 * (2 * 768 + 2 * 32 * V) + 8 * 24 + 4);
  expect(find(once, "backward", "head_loss"), 1, 0, 0);
  EXPECT_DOUBLE_EQ(find(thrice, "forward", "head_loss").bytes, 3 * find(once, "forward", "head_loss").bytes);
  EXPECT_DOUBLE_EQ(find(thrice, "backward", "head_loss").bytes, 2 * 4 * 32 * V);  // added to
}

// More tokens than rows: a row is read once.
TEST(Costs, NoMoreRowsAreGatheredThanThereAre) {
  const auto costs = step_costs(preset("tiny"), recipe(), 1024, 64, 1);
  EXPECT_DOUBLE_EQ(find(costs, "forward", "embed").bytes, 8.0 * 65536 + 4.0 * 32 * (50257 + 64 + 65536));
}

// 6 N + 6 L C T multiplies every parameter with every token. Positions, biases and LayerNorm's weights are in N and in
// no product; padding rows are in a product and not in N. Nothing else differs.
TEST(Costs, DifferFromMfusFormulaByWhatIsInNoProduct) {
  for (const char* name : {"tiny", "gpt2-124m", "gpt2-1558m"}) {
    for (const int64_t rows : {50257, 50304}) {
      const Config config = preset(name);
      const double tokens = 3 * 16 * 5, C = static_cast<double>(config.n_embd), L = static_cast<double>(config.n_layer);
      const auto costs = step_costs(config, recipe(Autocast::off, rows), 3, 16, 5);
      const double products = sum(costs, "", &Cost::flops);
      const double positions = static_cast<double>(config.n_positions) * C;
      const double biases = L * (3 + 1 + 4 + 1) * C, layer_norms = (2 * L + 1) * 2 * C;
      const double padding = static_cast<double>(rows - 50257) * C;
      EXPECT_DOUBLE_EQ(config.flops_per_token(16) * tokens - products,
                       6 * tokens * (positions + biases + layer_norms - padding))
          << name << " " << rows;
    }
  }
  // 907,776 of 124,439,808 parameters: 0.7 %.
  const double share = sum(step_costs(preset("gpt2-124m"), recipe(), 1, 1024, 1), "", &Cost::flops) /
                       (1024 * preset("gpt2-124m").flops_per_token(1024));
  EXPECT_NEAR(share, 0.993, 0.0005);
}

}  // namespace step_costs_test
