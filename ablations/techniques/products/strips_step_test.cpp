// When sums over strips are added up.
#include "ablations/techniques/products/strips.h"

#include <gtest/gtest.h>

#include <vector>

namespace strips_step_test {

using at::Tensor;
using namespace model;

// Before the parts leave L2. What is small waits for the others.
TEST(AddUp, WaitsForNoMoreThanL2Holds) {
  const Tensor small = at::randn({8}).requires_grad_(true), large = at::randn({2048}).requires_grad_(true);
  Gradients gradients(std::vector<Parameter>{{"small", small}, {"large", large}});
  gradients.begin_step();
  add_up(&gradients, at::ones({3, 8}), gradients.place_of(small));
  EXPECT_EQ(gradients.left_bytes(), 96U);
  add_up(&gradients, at::ones({4096, 2048}), gradients.place_of(large));
  EXPECT_EQ(gradients.left_bytes(), 0U);
  EXPECT_TRUE(gradients.take_left().empty());
  EXPECT_TRUE(small.grad().eq(3).all().item<bool>());
  EXPECT_TRUE(large.grad().eq(4096).all().item<bool>());
}

}  // namespace strips_step_test
