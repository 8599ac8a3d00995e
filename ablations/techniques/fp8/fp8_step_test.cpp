// A step with fp8 products, by the kernels' own sources on a CPU: against float64, against the CPU's emulation, and
// with faults.
#include "ablations/techniques/fp8/copies.h"
#include "ablations/techniques/fp8/weights.h"
#include "ablations/techniques/qkv_gradient/qkv_gradient.h"
#include "ablations/techniques/weights/master_adamw.h"
#include "ablations/techniques/weights/tensors.h"
#include "tests/ablations/techniques/cuda/small_step.h"

#include <ATen/ceil_div.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fp8_step_test {

using namespace small_step;
using Products = std::map<std::string, int64_t>;

constexpr Sizes sizes{.C = 48, .rows = 112};
constexpr int64_t layers = 2, chunk_bytes = int64_t{10} * sizes.rows * 2;  // 26 rows are 3 chunks

Ops ops_of(const Recipe& recipe, Gradients& gradients) {
  Ops ops = with_cuda_into(gradients, {.autocast = Autocast::bf16, .residual = Residual::autocast}, chunk_bytes);
  ops.qkv = [linear = ops.linear, gradients = &gradients](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return joined_thirds(linear(x, weight, bias.detach()), bias, fp8::weight_of(weight).has_value(), gradients);
  };
  if (recipe.fp8 == Fp8::off) return ops;
  const auto copy = cuda_weight_copies(fp8_parameters(gradients.parameters(), recipe.fp8)).copy;
  ops.embed = [embed = ops.embed, copy](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
    copy();
    return embed(tokens, wte, wpe);
  };
  return ops;
}

// `fault` is planted when the weights' copies are made. products: how many were made.
Step step(Fp8 fp8, const std::function<void(const GPT2&)>& fault = nullptr, Products* products = nullptr) {
  GPT2 gpt2 = model_of(sizes);
  gpt2.split_weights(/*biases=*/true);
  Gradients gradients(gpt2.parameters());
  gradients.begin_step();
  Ops ops = ops_of({.fp8 = fp8}, gradients);
  if (fault) {
    ops.embed = [embed = ops.embed, &gpt2, fault](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
      Tensor x = embed(tokens, wte, wpe);
      fault(gpt2);
      return x;
    };
  }
  const Products before = fp8::counts();
  Step step = small_step::step(gpt2, ops, sizes, Autocast::bf16, 1, &gradients);
  if (products == nullptr) return step;
  *products = fp8::counts();
  for (const auto& [name, calls] : before) (*products)[name] -= calls;
  std::erase_if(*products, [](const auto& one) { return one.second == 0; });
  return step;
}

// What a gradient and a loss lose by fp8's rounding in this model: 0.09 and 2e-4 were seen.
constexpr double rounded = 0.2, rounded_loss = 1e-3;

TEST(Fp8Step, FollowsFloat64WithinFp8sRounding) {
  const Step expected = exact(sizes);
  for (const Fp8 which : {Fp8::head, Fp8::all}) {
    const Step found = step(which);
    for (size_t i = 0; i < expected.results.size(); ++i) {
      EXPECT_LT(error_of(found.results[i], expected.results[i]), i == 0 ? rounded_loss : rounded) << found.names[i];
    }
    EXPECT_GT(worst_error(found, expected).first, 2 * worst_error(step(Fp8::off), expected).first) << "not rounded";
  }
}

TEST(Fp8Step, MakesEachProductInFp8) {
  const auto made = [](Fp8 which) {
    Products products;
    (void)step(which, nullptr, &products);
    return products;
  };
  const Products head{{"head forward e4m3", 3}, {"head dgrad e5m2", 3}};
  EXPECT_EQ(made(Fp8::off), Products());
  EXPECT_EQ(made(Fp8::head), head);
  Products all = head;
  for (const char* name : {"c_attn", "c_fc", "mlp_proj"}) {
    for (const char* direction : {" forward e4m3", " dgrad e4m3"}) all[std::string(name) + direction] = layers;
  }
  EXPECT_EQ(made(Fp8::all), all);
}

// Each of them is off by more than rounding.
TEST(Fp8Step, WhatIsWrongIsOffByMore) {
  const Step expected = exact(sizes);
  const auto with = [&](const char* end, const std::function<void(Fp8Weight&)>& edit) {
    const auto fault = [&](const GPT2& gpt2) {
      for (const Parameter& p : gpt2.parameters()) {
        if (!p.name.ends_with(end)) continue;
        Fp8Weight copy = fp8::weight_of(p.tensor).value();
        edit(copy);
        fp8::put_weight(p.tensor, copy);
      }
    };
    return worst_error(step(Fp8::all, fault), expected).first;
  };
  const auto scaled = [](double factor) { return [factor](Fp8Weight& w) { w.rows.scales = w.rows.scales * factor; }; };
  EXPECT_GT(with("h.1.mlp.c_fc.weight", scaled(2)), 2 * rounded) << "a scale twice as large, in one product";
  EXPECT_GT(with("h.1.mlp.c_fc.weight", [](Fp8Weight& w) { w.rows.scales = 1 / w.rows.scales; }), 2 * rounded)
      << "a scale that is not inverted";
  const auto transposed = [](Fp8Weight& w) { w.columns.values = w.rows.values.view({4 * sizes.C, sizes.C}); };
  EXPECT_GT(with("h.0.mlp.c_proj.weight", transposed), 2 * rounded) << "the weight for its transpose";
  const auto rolled = [](Fp8Weight& w) {
    w.rows.values = w.rows.values.view(at::kByte).roll(1, 0).view(at::kFloat8_e4m3fn);
  };
  EXPECT_GT(with("h.0.attn.c_attn.weight", rolled), 2 * rounded) << "each row is the one before";
}

// A training in fp8: its weights, how they are updated, and what copies them.
struct Training {
  GPT2 gpt2 = model_of(sizes);
  std::unique_ptr<Gradients> gradients;
  std::vector<Tensor> copied;  // weights that have copies
  std::unique_ptr<const MasterUpdate> update;
  Ops ops;
  int steps = 0;

  // Where the update is made first, it learns of no maxima. Then they are found anew for each copy.
  explicit Training(bool keeps_maxima) {
    gpt2.split_weights(/*biases=*/true);
    gradients = std::make_unique<Gradients>(gpt2.parameters());
    if (!keeps_maxima) make_update();
    ops = ops_of({.fp8 = Fp8::all}, *gradients);
    if (keeps_maxima) make_update();
    for (const Parameter& p : gpt2.parameters()) {
      if (fp8::weight_of(p.tensor)) copied.push_back(p.tensor);
    }
  }

  void make_update() {
    std::vector<MasterWeight> weights;
    for (const auto& [name, tensor, remainder] : gpt2.parameters()) {
      weights.push_back({.weight = tensor,
                         .remainder = remainder,
                         .gradient = tensor.grad(),
                         .first_moment = at::zeros(tensor.sizes()),
                         .second_moment = at::zeros(tensor.sizes()),
                         .weight_decay = 5});  // so that a weight's greatest number grows and shrinks
    }
    update = cuda_master_adamw(weights);
  }

  // Losses and gradients.
  std::vector<Tensor> step() {
    gradients->begin_step();
    std::vector<Tensor> results;
    for (const Tensor& one : small_step::step(gpt2, ops, sizes, Autocast::bf16, 1, gradients.get()).results)
      results.push_back(one.clone());
    ++steps;
    update->step({.learning_rate = 0.02, .count = steps, .count_on_device = at::full({}, steps, at::kFloat)},
                 update->clip(1).coefficient);
    return results;
  }
};

// Of each chunk, by ATen. NaN counts for nothing.
Tensor maxima_of(const Tensor& weight) {
  std::vector<Tensor> maxima;
  for (const Tensor& chunk : weight.flatten().split(kernels::chunk_elements))
    maxima.push_back(chunk.nan_to_num(0, INFINITY, -INFINITY).abs().amax());
  return at::stack(maxima).to(at::kFloat);
}

TEST(Fp8Step, TheUpdateKeepsTheMaximaAndNothingChanges) {
  Training kept(true), anew(false);
  constexpr int last = 4;
  for (int number = 0; number <= last; ++number) {
    SCOPED_TRACE(number);
    for (const Training* training : {&kept, &anew}) {  // others change weights
      if (number == 2) at::_foreach_mul_(training->copied, 0.5);
      if (number == last) training->copied.front()[0][0] = INFINITY;
    }
    const std::vector<Tensor> found = kept.step(), expected = anew.step();
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(at::equal(found[i], expected[i]) || number == last) << i;  // all is NaN at last
    for (size_t i = 0; i < kept.copied.size(); ++i) {
      const Fp8Weight ours = fp8::weight_of(kept.copied[i]).value(), theirs = fp8::weight_of(anew.copied[i]).value();
      EXPECT_TRUE(ours.are_maxima_kept && !theirs.are_maxima_kept);
      EXPECT_TRUE(at::equal(ours.rows.values.view(at::kByte), theirs.rows.values.view(at::kByte))) << ours.name;
      EXPECT_TRUE(at::equal(ours.rows.scales, theirs.rows.scales)) << ours.name;
      EXPECT_TRUE(at::equal(ours.maxima, maxima_of(kept.copied[i]))) << ours.name;
    }
  }
}

TEST(Fp8Step, MaximaAreFoundOnlyWhereOthersHaveChangedAWeight) {
  Training training(true);
  const Tensor weight = training.copied.front();
  const Tensor maxima = fp8::weight_of(weight)->maxima;
  const auto scale = [&] { return fp8::weight_of(weight)->rows.scales[0].item<float>(); };
  (void)training.step();
  const float exact = maxima_of(weight).max().item<float>();
  maxima.fill_(2 * exact);  // nothing puts it right
  (void)training.step();
  EXPECT_EQ(scale(), 1 / (448 / (2 * exact)));
  maxima.fill_(2 * exact);
  weight[0].zero_();
  const float changed = maxima_of(weight).max().item<float>();
  (void)training.step();
  EXPECT_EQ(scale(), 1 / (448 / changed));
}

TEST(Fp8Step, ACopyIsTakenOnceAndForgottenWithItsOriginal) {
  const auto copy = [](int64_t n) -> Fp8Matrix { return {at::empty({n, 4}, at::kByte), at::ones({n})}; };
  {
    const Tensor x = at::zeros({6, 4}, at::kBFloat16);
    fp8::put(x, copy(6));
    EXPECT_EQ(fp8::take(x.narrow(0, 0, 4))->scales.size(0), 4);
    EXPECT_EQ(fp8::take(x.narrow(0, 4, 2))->values.size(0), 2);
    EXPECT_FALSE(fp8::take(x).has_value());
    fp8::put(x, copy(6));
    EXPECT_TRUE(fp8::take(x.view({6, 4})).has_value());
    fp8::put(x, copy(6));
  }
  EXPECT_FALSE(fp8::take(at::zeros({6, 4}, at::kBFloat16)).has_value());
}

}  // namespace fp8_step_test
