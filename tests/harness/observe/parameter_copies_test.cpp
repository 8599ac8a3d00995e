// Autocast's copies of parameters, from when they are made until nothing holds them.
#include "harness/observe/parameter_copies.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

namespace parameter_copies_test {

class Autocast {
 public:
  Autocast() {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;  // switches off once
  Autocast& operator=(const Autocast&) = delete;
};

TEST(ParameterCopies, CountAsLongAsTheyAreHeld) {
  const at::Tensor weight = at::randn({64, 32}).requires_grad_(true), bias = at::zeros({64}).requires_grad_(true);
  const at::Tensor input = at::randn({8, 32}).requires_grad_(true) * 2;
  const harness::ParameterCopies copies;
  at::Tensor loss;
  {
    const Autocast autocast;
    loss = at::linear(input, weight, bias).sum() + at::linear(input, weight, bias).sum();
    EXPECT_EQ(copies.live_bytes(), 2 * (64 * 32 + 64)) << "autocast keeps one of each until its scope ends";
  }
  EXPECT_EQ(copies.live_bytes(), 2 * 64 * 32) << "the gradient of the input needs the weight, and no bias";
  loss.backward();
  EXPECT_EQ(copies.live_bytes(), 0);
}

TEST(ParameterCopies, AreOfParametersOnly) {
  const at::Tensor weight = at::randn({64, 32}).requires_grad_(true), other = at::randn({64, 32});
  const harness::ParameterCopies copies;
  const at::Tensor kept[] = {other.to(at::kBFloat16), (weight * 2).to(at::kBFloat16), at::gelu(weight)};
  EXPECT_EQ(copies.live_bytes(), 0);
  EXPECT_THROW(harness::ParameterCopies(), std::logic_error);
}

}  // namespace parameter_copies_test
