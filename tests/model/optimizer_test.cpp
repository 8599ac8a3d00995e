// AdamW against its formula, one kind against another, clipping, and skipped steps.
#include "model/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

namespace {

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
    AdamW optimizer(parameters, kind);
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
        value[i] *= 1 - lr * (i == 0 ? 0.1 : 0.0);  // only the matrix decays
        const double m_hat = m[i] / (1 - std::pow(0.9, step)), v_hat = v[i] / (1 - std::pow(0.95, step));
        value[i] -= lr * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
      optimizer.set_learning_rate(lr);
      optimizer.step(optimizer.clip_coefficient());
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
        optimizer.step(optimizer.clip_coefficient());
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
    optimizer.step(optimizer.clip_coefficient());
    EXPECT_TRUE(at::equal(parameters[0].tensor, before)) << static_cast<int>(kind) << " " << on_device;
  }
}

TEST(AdamW, RefusesAStepWithoutALearningRateAndAnotherSide) {
  const auto parameters = two_parameters();
  AdamW optimizer(parameters, Optimizer::loop);
  set_gradients(parameters, 1.0);
  EXPECT_THROW(optimizer.step(optimizer.clip_coefficient()), std::logic_error);
  set_learning_rate(optimizer, 0.1, /*on_device=*/true);
  optimizer.step(optimizer.clip_coefficient());
  EXPECT_THROW(optimizer.step(optimizer.clip_coefficient()), std::logic_error);  // it held for one step
  set_learning_rate(optimizer, 0.1, /*on_device=*/false);
  EXPECT_THROW(optimizer.step(optimizer.clip_coefficient()), std::logic_error);  // would begin at step 1 again
}

TEST(AdamW, ClipsToTheNorm) {
  const auto parameters = two_parameters();
  set_gradients(parameters, 10.0);
  double sum = 0;
  for (const Parameter& p : parameters) sum += p.tensor.grad().pow(2).sum().item<double>();
  AdamW optimizer(parameters, Optimizer::loop);
  EXPECT_NEAR(optimizer.clip_coefficient().item<double>(), 1.0 / (std::sqrt(sum) + 1e-6), 1e-7);
  set_gradients(parameters, 1e-3);
  EXPECT_EQ(optimizer.clip_coefficient().item<double>(), 1.0);

  // All kinds apply it: first steps are scale-free in AdamW, so the second one shows it.
  std::vector<Tensor> results;
  for (const Optimizer kind : {Optimizer::loop, Optimizer::foreach, Optimizer::fused}) {
    const auto fresh = two_parameters();
    AdamW one(fresh, kind);
    one.set_learning_rate(0.1);
    for (const double scale : {0.01, 100.0}) {
      set_gradients(fresh, scale);
      one.step(one.clip_coefficient());
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
    optimizer.step(optimizer.clip_coefficient(), found_inf);
    EXPECT_TRUE(at::equal(parameters[0].tensor, before)) << static_cast<int>(kind);
    EXPECT_TRUE(at::equal(parameters[1].tensor, at::zeros({7}))) << static_cast<int>(kind);
    // The skipped step is not counted: the next one is the first.
    found_inf.zero_();
    set_gradients(parameters, 1e-3);
    set_learning_rate(optimizer, 0.1, on_device);
    optimizer.step(optimizer.clip_coefficient(), found_inf);
    const double moved = (parameters[0].tensor - before * (1 - 0.1 * 0.1)).abs().max().item<double>();
    EXPECT_NEAR(moved, 0.1, 1e-3) << static_cast<int>(kind);  // a first step moves by the learning rate
  }
}

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
        optimizer.step(optimizer.clip_coefficient(), found_inf);
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

}  // namespace
