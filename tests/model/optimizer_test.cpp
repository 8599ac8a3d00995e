// AdamW against its formula, one kind against another, clipping, and skipped steps; master weights, with the loops of
// every instruction set that this machine has.
#include "model/optimizer.h"

#include "ablations/techniques/cpu/kernels.h"
#include "ablations/techniques/weights/master_adamw.h"
#include "model/gradients.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

namespace optimizer_test {

using at::Tensor;
using namespace model;

std::vector<Parameter> two_parameters() {
  at::manual_seed(3);
  return {{"matrix", at::randn({4, 5}).requires_grad_(true)}, {"bias", at::randn({7}).requires_grad_(true)}};
}

void set_gradients(const std::vector<Parameter>& parameters, double scale) {
  at::manual_seed(11);
  for (const Parameter& p : parameters) p.tensor.mutable_grad() = at::randn(p.tensor.sizes()) * scale;
}

// As eager steps set it, or as captured ones do.
void set_learning_rate(AdamW& optimizer, double learning_rate, bool on_device) {
  on_device ? optimizer.set_learning_rate(at::full({1}, learning_rate)) : optimizer.set_learning_rate(learning_rate);
}

std::vector<std::pair<Optimizer, bool>> every_kind_and_form() {
  return {{Optimizer::loop, false},   {Optimizer::loop, true},   {Optimizer::foreach, false},
          {Optimizer::foreach, true}, {Optimizer::fused, false}, {Optimizer::fused, true}};
}

TEST(AdamW, FollowsTheFormula) {
  for (const Optimizer kind : {Optimizer::loop, Optimizer::foreach, Optimizer::fused}) {
    const auto parameters = two_parameters();
    AdamW optimizer(parameters, kind, {.weight_decay = 0.3});
    // One element of each, followed by hand in double precision.
    std::vector<double> value, m{0, 0}, v{0, 0};
    for (const Parameter& p : parameters) value.push_back(p.tensor.flatten()[2].item<double>());
    for (int step = 1; step <= 5; ++step) {
      set_gradients(parameters, 0.01 * step);  // norm below 1: no clipping
      const double lr = 0.01 * step;
      for (size_t i = 0; i < 2; ++i) {
        const double g = parameters[i].tensor.grad().flatten()[2].item<double>();
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.95 * v[i] + 0.05 * g * g;
        value[i] *= 1 - lr * (i == 0 ? 0.3 : 0.0);  // only the matrix decays
        const double m_hat = m[i] / (1 - std::pow(0.9, step)), v_hat = v[i] / (1 - std::pow(0.95, step));
        value[i] -= lr * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
      optimizer.set_learning_rate(lr);
      optimizer.step(optimizer.clip().coefficient);
    }
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(parameters[i].tensor.flatten()[2].item<double>(), value[i], 2e-6)
          << static_cast<int>(kind) << " " << i;
    }
  }
}

TEST(AdamW, ALearningRateOnTheDeviceDoesTheSame) {
  for (const Optimizer kind : {Optimizer::loop, Optimizer::foreach, Optimizer::fused}) {
    std::vector<Tensor> results;
    for (const bool on_device : {false, true}) {
      const auto parameters = two_parameters();
      AdamW optimizer(parameters, kind);
      for (int step = 1; step <= 4; ++step) {
        set_gradients(parameters, step);
        set_learning_rate(optimizer, 0.01 / step, on_device);
        optimizer.step(optimizer.clip().coefficient);
      }
      results.push_back(at::cat({parameters[0].tensor.detach().flatten(), parameters[1].tensor.detach()}));
    }
    EXPECT_LT((results[0] - results[1]).abs().max().item<double>(), 1e-6) << static_cast<int>(kind);
    EXPECT_TRUE(kind != Optimizer::fused || at::equal(results[0], results[1]));
  }
}

TEST(AdamW, ALearningRateOfZeroChangesNothing) {
  for (const auto& [kind, on_device] : every_kind_and_form()) {
    const auto parameters = two_parameters();
    const Tensor before = parameters[0].tensor.detach().clone();
    AdamW optimizer(parameters, kind);
    set_gradients(parameters, 1.0);
    parameters[0].tensor.mutable_grad().zero_();  // neither moment moves: 0 / 0 must not get in
    set_learning_rate(optimizer, 0.0, on_device);
    optimizer.step(optimizer.clip().coefficient);
    EXPECT_TRUE(at::equal(parameters[0].tensor, before)) << static_cast<int>(kind) << " " << on_device;
  }
}

TEST(AdamW, RefusesAStepWithoutALearningRateAndAnotherSide) {
  const auto parameters = two_parameters();
  AdamW optimizer(parameters, Optimizer::loop);
  set_gradients(parameters, 1.0);
  EXPECT_THROW(optimizer.step(optimizer.clip().coefficient), std::logic_error);
  set_learning_rate(optimizer, 0.1, /*on_device=*/true);
  optimizer.step(optimizer.clip().coefficient);
  EXPECT_THROW(optimizer.step(optimizer.clip().coefficient), std::logic_error);  // it held for one step
  set_learning_rate(optimizer, 0.1, /*on_device=*/false);
  EXPECT_THROW(optimizer.step(optimizer.clip().coefficient), std::logic_error);  // would begin at step 1 again
}

TEST(AdamW, ClipsToTheNorm) {
  const auto parameters = two_parameters();
  set_gradients(parameters, 10.0);
  double sum = 0;
  for (const Parameter& p : parameters) sum += p.tensor.grad().pow(2).sum().item<double>();
  const AdamW optimizer(parameters, Optimizer::loop), wider(parameters, Optimizer::loop, {.max_norm = 2.0}),
      unlimited(parameters, Optimizer::loop, {.max_norm = INFINITY});
  EXPECT_NEAR(optimizer.clip().norm.item<double>() / std::sqrt(sum), 1, 1e-6);
  EXPECT_NEAR(optimizer.clip().coefficient.item<double>(), 1.0 / (std::sqrt(sum) + 1e-6), 1e-7);
  EXPECT_NEAR(wider.clip().coefficient.item<double>(), 2.0 / (std::sqrt(sum) + 1e-6), 1e-7);
  EXPECT_EQ(unlimited.clip().coefficient.item<double>(), 1.0);
  set_gradients(parameters, 1e-3);
  EXPECT_EQ(optimizer.clip().coefficient.item<double>(), 1.0);

  // All kinds apply it: first steps are scale-free in AdamW, so the second one shows it.
  std::vector<Tensor> results;
  for (const Optimizer kind : {Optimizer::loop, Optimizer::foreach, Optimizer::fused}) {
    const auto fresh = two_parameters();
    AdamW one(fresh, kind);
    one.set_learning_rate(0.1);
    for (const double scale : {0.01, 100.0}) {
      set_gradients(fresh, scale);
      one.step(one.clip().coefficient);
    }
    results.push_back(fresh[0].tensor.detach());
  }
  EXPECT_LT((results[0] - results[1]).abs().max().item<double>(), 1e-6);
  EXPECT_LT((results[0] - results[2]).abs().max().item<double>(), 1e-6);
}

TEST(AdamW, SkipsAStepWhoseGradientsOverflowed) {
  for (const auto& [kind, on_device] : every_kind_and_form()) {
    const auto parameters = two_parameters();
    parameters[1].tensor.data().zero_();  // as biases are at the start: 0 / 0 must not get in
    const Tensor before = parameters[0].tensor.detach().clone();
    AdamW optimizer(parameters, kind);
    set_learning_rate(optimizer, 0.1, on_device);
    Tensor found_inf = at::zeros({1});
    set_gradients(parameters, 1.0);
    parameters[1].tensor.mutable_grad()[3] = INFINITY;
    optimizer.unscale(at::full({1}, 0.5), found_inf);
    EXPECT_EQ(found_inf.item<float>(), 1.0F);
    optimizer.step(optimizer.clip().coefficient, found_inf);
    EXPECT_TRUE(at::equal(parameters[0].tensor, before)) << static_cast<int>(kind);
    EXPECT_TRUE(at::equal(parameters[1].tensor, at::zeros({7}))) << static_cast<int>(kind);
    // The skipped step is not counted: the next one is the first.
    found_inf.zero_();
    set_gradients(parameters, 1e-3);
    set_learning_rate(optimizer, 0.1, on_device);
    optimizer.step(optimizer.clip().coefficient, found_inf);
    const double moved = (parameters[0].tensor - before * (1 - 0.1 * 0.1)).abs().max().item<double>();
    EXPECT_NEAR(moved, 0.1, 1e-3) << static_cast<int>(kind);  // a first step moves by the learning rate
  }
}

// A matrix of more than one part, sizes that are no multiples of a vector's.
std::vector<Parameter> odd_parameters(bool split) {
  at::manual_seed(3);
  std::vector<Parameter> parameters{
      {"matrix", at::randn({37, 1031})}, {"bias", at::randn({7})}, {"one", at::randn({1})}};
  if (split) {
    const Tensor weight = parameters[0].tensor;
    parameters[0].tensor = at::empty(weight.sizes(), at::kBFloat16);
    parameters[0].remainder = at::empty(weight.sizes(), at::kShort);
    split_weight(parameters[0], weight);
  }
  return parameters;
}

TEST(MasterAdamW, FollowsTheFusedKind) {
  const std::vector<Parameter> fused = odd_parameters(false), whole = odd_parameters(false),
                               split = odd_parameters(true);
  const Gradients of_whole(whole), of_split(split);
  AdamW reference(fused, Optimizer::fused), one(whole, Optimizer::fused, {}, master_adamw),
      two(split, Optimizer::fused, {}, master_adamw);
  EXPECT_EQ(two.state_bytes(), reference.state_bytes());
  for (int step = 1; step <= 5; ++step) {
    for (size_t i = 0; i < fused.size(); ++i) {
      const Tensor gradient =
          at::randn(fused[i].tensor.sizes()) * (step % 2 == 0 ? 10.0 : 1e-3);  // clipped, not clipped
      fused[i].tensor.mutable_grad() = gradient.clone();
      whole[i].tensor.grad().copy_(gradient);
      split[i].tensor.grad().copy_(gradient);
    }
    const auto [norm, clip] = reference.clip();
    EXPECT_EQ(clip.item<double>() < 1, step % 2 == 0);
    EXPECT_NEAR(one.clip().coefficient.item<double>() / clip.item<double>(), 1, 1e-6);
    EXPECT_NEAR(one.clip().norm.item<double>() / norm.item<double>(), 1, 1e-6);
    for (AdamW* optimizer : {&reference, &one, &two}) {
      optimizer->set_learning_rate(0.01 * step);
      optimizer->step(optimizer->clip().coefficient);
    }
    for (size_t i = 0; i < fused.size(); ++i) {
      // 5 units in the last place; of weights near 0, of what was added to them.
      EXPECT_TRUE(at::allclose(whole[i].tensor, fused[i].tensor, 6e-7, 1e-7)) << fused[i].name << " in step " << step;
      EXPECT_TRUE(at::equal(whole_weight(split[i]), whole[i].tensor)) << fused[i].name << " in step " << step;
    }
    EXPECT_TRUE(at::allclose(split[0].tensor.to(at::kFloat), whole[0].tensor, 1.0 / 256, 0)) << step;
    one.drop_gradients();
    EXPECT_TRUE(whole[0].tensor.grad().defined());
  }
}

TEST(MasterAdamW, NoNumberStaysNone) {
  const std::vector<Parameter> parameters = odd_parameters(true);
  const Gradients gradients(parameters);
  AdamW optimizer(parameters, Optimizer::fused, {}, master_adamw);
  parameters[1].tensor.grad()[3] = NAN;
  EXPECT_TRUE(std::isnan(optimizer.clip().coefficient.item<float>()));
  optimizer.set_learning_rate(0.1);
  optimizer.step(optimizer.clip().coefficient);
  for (const Parameter& parameter : parameters) EXPECT_TRUE(whole_weight(parameter).isnan().all().item<bool>());
}

TEST(MasterAdamW, TakesItsLearningRateFromTheHost) {
  const std::vector<Parameter> parameters = odd_parameters(false);
  const Gradients gradients(parameters);
  AdamW optimizer(parameters, Optimizer::fused, {}, master_adamw);
  set_learning_rate(optimizer, 0.1, /*on_device=*/true);
  EXPECT_THROW(optimizer.step(optimizer.clip().coefficient), std::logic_error);
  set_learning_rate(optimizer, 0.1, /*on_device=*/false);
  EXPECT_THROW(optimizer.step(optimizer.clip().coefficient, at::zeros({1})), std::logic_error);
}

// The loops of each instruction set, called as they are.
class UpdateLoops : public testing::TestWithParam<std::pair<const char*, const cpu::Kernels*>> {};
TEST_P(UpdateLoops, FollowFloat64) {
  const auto [name, kernels] = GetParam();
  const std::array sets{&cpu::plain_kernels, &cpu::avx2_kernels, &cpu::avx512_kernels};  // each includes those before
  if (std::ranges::find(sets, kernels) > std::ranges::find(sets, &cpu::kernels())) {
    GTEST_SKIP() << "this machine has no " << name;
  }
  at::manual_seed(7);
  const int64_t n = 2500, begin = 3, end = n - 5;
  const Tensor w = at::randn({n}), g = at::randn({n}), m = at::randn({n}), v = at::rand({n});
  EXPECT_NEAR(kernels->squares(g.const_data_ptr<float>(), n), g.to(at::kDouble).square().sum().item<double>(), 1e-3);

  const Tensor g64 = g.to(at::kDouble) * 0.5, m64 = 0.9 * m.to(at::kDouble) + 0.1 * g64,
               v64 = 0.95 * v.to(at::kDouble) + 0.05 * g64 * g64;
  const Tensor w64 = w.to(at::kDouble) * 0.99 - 0.02 * m64 / (v64.sqrt() / 0.25 + 1e-8);
  const Parameter parts{"split", at::empty({n}, at::kBFloat16), at::empty({n}, at::kShort)};
  split_weight(parts, w);
  for (const bool split : {false, true}) {
    const Tensor weight = split ? parts.tensor : w.clone(), first = m.clone(), second = v.clone();
    kernels->adamw({.type = split ? cpu::Number::bf16 : cpu::Number::f32,
                    .weight = weight.mutable_data_ptr(),
                    .remainder = split ? parts.remainder.mutable_data_ptr<int16_t>() : nullptr,
                    .gradient = g.const_data_ptr<float>(),
                    .first_moment = first.mutable_data_ptr<float>(),
                    .second_moment = second.mutable_data_ptr<float>(),
                    .coefficient = 0.5F,
                    .one_minus_beta1 = 0.1F,
                    .beta2 = 0.95F,
                    .one_minus_beta2 = 0.05F,
                    .eps = 1e-8F,
                    .kept = 0.99F,
                    .step_size = 0.02F,
                    .root_correction = 0.25F},
                   begin, end);
    const auto expect = [&](const Tensor& seen, const Tensor& before, const Tensor& after) {
      EXPECT_TRUE(at::allclose(seen.slice(0, begin, end).to(at::kDouble), after.slice(0, begin, end), 1e-5, 1e-5));
      EXPECT_TRUE(at::equal(seen.slice(0, 0, begin), before.slice(0, 0, begin)));  // others' share
      EXPECT_TRUE(at::equal(seen.slice(0, end, n), before.slice(0, end, n)));
    };
    expect(split ? whole_weight(parts) : weight, w, w64);
    expect(first, m, m64);
    expect(second, v, v64);
  }

  const Tensor rows = at::randn({6, 19}), sums = at::randn({5, 19}), expected = sums.clone();
  const Tensor tokens = at::tensor({4, 0, 4, 4, 1, 0}, at::kLong);
  expected.slice(1, 2, 17).index_add_(0, tokens, rows.slice(1, 2, 17));
  kernels->add_rows({.rows = rows.const_data_ptr<float>(),
                     .tokens = tokens.const_data_ptr<int64_t>(),
                     .sum = sums.mutable_data_ptr<float>(),
                     .count = 6,
                     .C = 19},
                    2, 17);
  EXPECT_TRUE(at::allclose(sums, expected, 1e-6, 1e-6));
  EXPECT_TRUE(at::equal(sums.select(1, 17), expected.select(1, 17)));
}
INSTANTIATE_TEST_SUITE_P(Sets, UpdateLoops,
                         testing::Values(std::pair{"plain", &cpu::plain_kernels}, std::pair{"avx2", &cpu::avx2_kernels},
                                         std::pair{"avx512", &cpu::avx512_kernels}),
                         [](const auto& test) { return test.param.first; });

TEST(AdamW, ASkippedStepInTheMiddleLeavesNoTrace) {
  for (const auto& [kind, on_device] : every_kind_and_form()) {
    std::vector<Tensor> results;
    for (const bool with_overflow : {false, true}) {
      const auto parameters = two_parameters();
      AdamW optimizer(parameters, kind);
      Tensor found_inf = at::zeros({1});
      const auto step = [&, on_device = on_device](double scale) {
        set_gradients(parameters, scale);
        set_learning_rate(optimizer, 0.01, on_device);
        optimizer.step(optimizer.clip().coefficient, found_inf);
      };
      step(0.1);
      if (with_overflow) {
        found_inf.fill_(1);
        step(INFINITY);
        found_inf.zero_();
      }
      step(0.2);
      results.push_back(at::cat({parameters[0].tensor.detach().flatten(), parameters[1].tensor.detach()}));
    }
    EXPECT_TRUE(at::equal(results[0], results[1])) << static_cast<int>(kind) << " " << on_device;
  }
}

}  // namespace optimizer_test
