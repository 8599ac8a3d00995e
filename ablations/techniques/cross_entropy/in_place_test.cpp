// The loss whose gradient is written in place, against ATen's: values, gradients, types, and what it may not hide.
#include "ablations/techniques/cross_entropy/head_loss.h"
#include "ablations/techniques/operations.h"
#include "model/ops.h"
#include "model/precision.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace cross_entropy_test {

using at::Tensor;
using namespace model;

constexpr int64_t B = 3, T = 7, V = 50;

Tensor targets() { return at::arange(B * T).mul(37).remainder(V).view({B, T}); }

Tensor random_logits(at::ScalarType type) {
  at::manual_seed(5);
  return (3 * at::randn({B, T, V}, at::kDouble)).to(type);
}

struct Pass {
  Tensor loss, gradient;
};

// `upstream` is what the loss is multiplied by: a scaler's factor, one over the accumulation.
Pass pass(CrossEntropy kind, const Tensor& values, double upstream = 1.0, Autocast autocast = Autocast::off) {
  const Tensor logits = values.detach().clone().requires_grad_(true);
  Tensor loss;
  {
    const AutocastScope scope(at::kCPU, autocast);
    loss = ops_for({.cross_entropy = kind}).cross_entropy(logits, targets());
  }
  (loss * upstream).backward();
  return {loss.detach(), logits.grad()};
}

double relative_error(const Tensor& found, const Tensor& expected) {
  return ((found.to(at::kDouble) - expected.to(at::kDouble)).norm() / expected.to(at::kDouble).norm()).item<double>();
}

TEST(CrossEntropy, InPlaceItIsAtensOwn) {
  for (const auto& [type, most] : {std::pair{at::kDouble, 1e-14}, std::pair{at::kFloat, 1e-6}}) {
    const Tensor logits = random_logits(type);
    for (const double upstream : {1.0, 65536.0, 1.0 / 3.0}) {
      const Pass expected = pass(CrossEntropy::aten, logits, upstream);
      const Pass found = pass(CrossEntropy::in_place, logits, upstream);
      EXPECT_LT(relative_error(found.loss, expected.loss), most);
      EXPECT_LT(relative_error(found.gradient, expected.gradient), most);
      EXPECT_EQ(found.gradient.scalar_type(), type);
      // Each row's sum is 0: what the targets lose, the others gain.
      EXPECT_LT(found.gradient.sum(-1).abs().max().item<double>(), most * upstream);
    }
  }
}

TEST(CrossEntropy, ItsTypesUnderAutocastAreAtens) {
  const Tensor logits = random_logits(at::kBFloat16);
  const Pass expected = pass(CrossEntropy::aten, logits, 1.0, Autocast::bf16);
  const Pass found = pass(CrossEntropy::in_place, logits, 1.0, Autocast::bf16);
  EXPECT_EQ(found.loss.scalar_type(), at::kFloat);
  EXPECT_EQ(found.loss.scalar_type(), expected.loss.scalar_type());
  EXPECT_EQ(found.gradient.scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_error(found.loss, expected.loss), 1e-6);  // as float32 on a CPU, not as what bfloat16 leaves of it
  EXPECT_LT(relative_error(found.gradient, expected.gradient), 4e-3);
}

// A scaler skips a step by what it finds in the gradients.
TEST(CrossEntropy, ALogitThatIsNoNumberIsSeenInTheGradient) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Tensor logits = random_logits(at::kFloat);
    logits[1][2][3] = bad;
    const Pass found = pass(CrossEntropy::in_place, logits);
    EXPECT_TRUE(std::isnan(found.loss.item<double>()));
    // By its product with any embedding, too, whose other rows are finite.
    EXPECT_TRUE(at::matmul(found.gradient[1][2], at::ones({V, 1})).isnan().all().item<bool>());
  }
}

TEST(CrossEntropy, ASecondBackwardPassIsAnErrorAndNotAWrongGradient) {
  const Tensor logits = random_logits(at::kFloat).requires_grad_(true);
  const Tensor loss = in_place_cross_entropy()(logits, targets());
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), std::exception);
}

// What follows autograd finds the backward node by a number that an operation of the forward pass has told.
TEST(CrossEntropy, ItsBackwardNodeCanBeTracedToItsForwardPass) {
  static int64_t forward = -1, backward = -2;
  forward = -1, backward = -2;
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        const std::string name = function.name();
        if (name == "model::in_place_cross_entropy") forward = function.seqNr();
        if (function.scope() == at::RecordScope::BACKWARD_FUNCTION &&
            name.find("InPlaceCrossEntropy") != std::string::npos) {
          backward = function.seqNr();
        }
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  (void)pass(CrossEntropy::in_place, random_logits(at::kFloat));
  at::removeCallback(handle);
  EXPECT_GE(forward, 0);
  EXPECT_EQ(forward, backward);
}

}  // namespace cross_entropy_test
