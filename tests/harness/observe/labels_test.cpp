// Labels and traces of a small computation on the CPU, backward pass included.
#include "harness/observe/labels.h"

#include "harness/gpu/cupti.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace labels_test {

using harness::Activity;
using harness::Label;
using harness::Labels;
using harness::Trace;

// Two "layers", each one product and one exponential.
void forward_and_backward(Labels& labels, const at::Tensor& x) {
  labels.begin_phase("forward");
  at::Tensor y = x;
  for (int layer = 0; layer < 2; ++layer) {
    labels.begin_part(layer, "product");
    y = at::mm(y, y);
    labels.begin_part(layer, "exponential");
    y = at::exp(y);
  }
  const at::Tensor loss = y.sum();
  labels.begin_phase("backward");
  loss.backward();
  labels.begin_phase("update");
  const at::Tensor moved = x.detach() * 2;
  labels.begin_phase("");
}

at::Tensor input() { return at::full({8, 8}, 0.01).requires_grad_(true); }

TEST(Labels, KnowTheLayerOfABackwardOperation) {
  const at::Tensor x = input();
  Labels labels(/*follow_autograd=*/true);
  const Trace trace = harness::trace_operations(labels, 1, [&] { forward_and_backward(labels, x); });
  std::map<Label, std::multiset<std::string>> seen;
  for (const Activity& activity : trace.activities) seen[activity.label].insert(activity.name);

  EXPECT_EQ(seen[(Label{"forward", "product", 0})].count("aten::mm"), 1U);
  EXPECT_EQ(seen[(Label{"forward", "product", 1})].count("aten::mm"), 1U);
  EXPECT_EQ(seen[(Label{"forward", "exponential", 1})].count("aten::exp"), 1U);
  // The gradient of a product is two products, with its own layer's label; that of exp is one multiplication.
  EXPECT_EQ(seen[(Label{"backward", "product", 0})].count("aten::mm"), 2U);
  EXPECT_EQ(seen[(Label{"backward", "product", 1})].count("aten::mm"), 2U);
  EXPECT_EQ(seen[(Label{"backward", "exponential", 0})].count("aten::mul"), 1U);
  EXPECT_EQ(seen[(Label{"backward", "exponential", 1})].count("aten::mul"), 1U);
  EXPECT_EQ(seen[(Label{"update", "", -1})].count("aten::mul"), 1U);
  EXPECT_FALSE(seen.contains(Label{})) << "an operation without a label";
}

TEST(Labels, EndWithTheStep) {
  Labels labels(true);
  labels.begin_phase("forward");
  labels.begin_part(3, "product");
  EXPECT_EQ(labels.at(Labels::current()), (Label{"forward", "product", 3}));
  labels.begin_phase("update");
  EXPECT_EQ(labels.at(Labels::current()), (Label{"update", "", -1}));
  labels.begin_phase("");
  EXPECT_EQ(Labels::current(), 0);
  EXPECT_EQ(labels.at(0), Label{});
}

TEST(Labels, WithoutFollowingTheyOnlyShowRanges) {
  Labels labels(false);
  labels.begin_phase("forward");
  labels.begin_part(0, "product");
  EXPECT_EQ(Labels::current(), 0);
}

TEST(Labels, AreTheProcesss) {
  const Labels first(false);
  EXPECT_THROW(Labels(false), std::logic_error);
}

TEST(Trace, HoldsOutermostOperationsInOrderWithinTheWork) {
  Labels labels(true);
  const at::Tensor x = at::randn({4, 4}), w = at::randn({4, 4}), b = at::randn({4});
  const Trace trace = harness::trace_operations(labels, 1, [&] { (void)at::linear(x, w, b).exp(); });
  ASSERT_EQ(trace.activities.size(), 2U);  // linear is made of others, which do not count
  EXPECT_EQ(trace.activities[0].name, "aten::linear");
  EXPECT_EQ(trace.activities[1].name, "aten::exp");
  EXPECT_LE(trace.begin_ns, trace.activities[0].begin_ns);
  EXPECT_LE(trace.activities[0].end_ns, trace.activities[1].begin_ns);
  EXPECT_LE(trace.activities[1].end_ns, trace.end_ns);
  // And a second trace holds the second work alone.
  EXPECT_EQ(harness::trace_operations(labels, 1, [&] { (void)x.exp(); }).activities.size(), 1U);
}

}  // namespace labels_test
