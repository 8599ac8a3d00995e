// AdamW against its formula, one kind against another, clipping, and skipped steps; master weights, which
// tests/CMakeLists.txt tries with the loops of lower instruction sets, too.
#include "model/optimizer.h"

#include "ablations/techniques/weights/master_adamw.h"
#include "model/gradients.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

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
  for (const auto& [kind, on_device] : every_kind_and_form()) {
    const auto parameters = two_parameters();
    AdamW optimizer(parameters, kind, {.weight_decay = 0.3});
    // One element of each, followed by hand in double precision.
    std::vector<double> value, m{0, 0}, v{0, 0};
    for (const Parameter& p : parameters) value.push_back(p.tensor.flatten()[2].item<double>());
    for (int step = 1; step <= 5; ++step) {
      set_gradients(parameters, step == 4 ? 10 : 0.01 * step);  // a norm above 1: clipping, else below
      const Clip clip = optimizer.clip();
      const double lr = 0.01 * step;
      for (size_t i = 0; i < 2; ++i) {
        const double g = clip.coefficient.item<double>() * parameters[i].tensor.grad().flatten()[2].item<double>();
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.95 * v[i] + 0.05 * g * g;
        value[i] *= 1 - lr * (i == 0 ? 0.3 : 0.0);  // only the matrix decays
        const double m_hat = m[i] / (1 - std::pow(0.9, step)), v_hat = v[i] / (1 - std::pow(0.95, step));
        value[i] -= lr * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
      set_learning_rate(optimizer, lr, on_device);
      optimizer.step(clip.coefficient);
    }
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(parameters[i].tensor.flatten()[2].item<double>(), value[i], 2e-6)
          << static_cast<int>(kind) << " " << on_device << " " << i;
    }
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

TEST(AdamW, ASkippedStepInTheMiddleLeavesNoTrace) {
  std::vector<Tensor> fused;  // by a learning rate of the host's, and by one of the device's
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
    if (kind == Optimizer::fused) fused.push_back(results[0]);
  }
  EXPECT_TRUE(at::equal(fused.at(0), fused.at(1)));
}

}  // namespace optimizer_test
