// Operations, backward nodes and library calls as they are counted.
#include "harness/observe/operation_log.h"

#include "harness/gpu/cupti.h"
#include "harness/observe/labels.h"
#include "harness/observe/library_calls.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

namespace operation_log_test {

TEST(OperationLog, CountsByPhaseAndSeesBackwardNodes) {
  const at::Tensor x = at::randn({4, 4}).requires_grad_(true);
  harness::OperationLog log;
  log.begin_phase("forward");
  const at::Tensor y = at::gelu(x).sum();
  log.begin_phase("backward");
  y.backward();
  EXPECT_EQ(log.operations("forward").at("aten::gelu"), 1);
  EXPECT_GE(log.operations("forward").at("aten::sum"), 1);  // one overload calls another
  EXPECT_EQ(log.operations("forward").count("aten::gelu_backward"), 0U);
  EXPECT_EQ(log.operations("backward").at("aten::gelu_backward"), 1);
  EXPECT_EQ(log.backward_nodes().at("GeluBackward0"), 1);
  EXPECT_GT(log.total(), 3);
  EXPECT_THROW(harness::OperationLog(), std::logic_error);
}

TEST(OperationLog, StopsCountingWhenItEnds) {
  { const harness::OperationLog log; }
  (void)at::ones({2});
  const harness::OperationLog log;
  EXPECT_EQ(log.total(), 0);
}

TEST(LibraryCalls, AreCountedFromTheLog) {
  const auto calls = harness::count_library_calls(
      "MKL_VERBOSE oneMKL 2024.0 Update 2 Product build 20240605 for Intel(R) 64 architecture\n"
      "MKL_VERBOSE SGEMM(N,N,768,256,768,0x7ffc,0x7fc1,768) 2.62ms CNR:OFF\n"
      "onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2\n"
      "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16::blocked:ab::f0 "
      "wei:bf16::blocked:ba::f0 dst:bf16::blocked:ab::f0,attr-scratchpad:user,,256x768:768x768,0.97\n"
      "onednn_verbose,v1,primitive,create:cache_hit,cpu,matmul,x,undef,src:f32::,,,256x768:768x768,0.1\n"
      "a line of something else\n");
  EXPECT_EQ(calls, (std::map<std::string, int64_t>{{"mkl sgemm", 1},
                                                   {"onednn matmul bf16 (brg_matmul:avx512_core_bf16)", 1}}));
}

TEST(LibraryCalls, SeeARealProductAndNothingElse) {
  const at::Tensor a = at::randn({64, 64});
  const auto products = harness::library_calls([&] { (void)at::matmul(a, a); });
  int64_t count = 0;
  for (const auto& [name, calls] : products) {
    if (name.find("gemm") != std::string::npos || name.find("matmul") != std::string::npos) count += calls;
  }
  EXPECT_EQ(count, 1) << testing::PrintToString(products);
  EXPECT_TRUE(harness::library_calls([&] { (void)(a + a); }).empty());
}

TEST(LibraryCalls, GiveStandardOutputBackAlsoAfterAnException) {
  testing::internal::CaptureStdout();
  try {
    (void)harness::library_calls([] { throw std::runtime_error("in between"); });
  } catch (const std::runtime_error&) {
  }
  std::printf("heard\n");
  std::fflush(stdout);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("heard"), std::string::npos);
}

// Bytes are counted where operations are dispatched. That c10d's are seen is tested with a step
// (data_parallel_test.cpp).
TEST(AllReduces, AreNotSeenInOtherOperations) {
  const harness::AllReduces seen;
  (void)(at::ones({4}) + at::ones({4}));
  EXPECT_EQ(seen.calls(), 0);
  EXPECT_EQ(seen.bytes(), 0);
  EXPECT_THROW(harness::AllReduces(), std::logic_error);
}

}  // namespace operation_log_test

namespace memory_log_test {

// The memory log against tensors of known size.

TEST(MemoryLog, SeesWhatLivesOnItsDeviceUntilItEnds) {
  {
    const harness::MemoryLog log(c10::kCUDA);
    const at::Tensor on_cpu = at::zeros({1000});
    EXPECT_EQ(log.live_bytes(), 0);
  }
  EXPECT_FALSE(c10::memoryProfilingEnabled());
  const at::Tensor older = at::zeros({1000});
  harness::MemoryLog log(c10::kCPU);
  EXPECT_EQ(log.live_bytes(), 0);
  {
    const at::Tensor kept = at::zeros({1000});
    EXPECT_EQ(log.live_bytes(), 4000);
    { const at::Tensor passing = at::zeros({2000}); }
    EXPECT_EQ(log.live_bytes(), 4000);
  }
  EXPECT_EQ(log.live_bytes(), 0);
  const at::Tensor x = at::ones({5000}).requires_grad_(true);
  (x * 3).sum().backward();
  EXPECT_EQ(log.live_bytes(), 2 * 20000);  // its gradient stays
}

}  // namespace memory_log_test

namespace parameter_copies_test {

// Autocast's copies of parameters, from when they are made until nothing holds them.

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

// Labels and traces of a small computation on the CPU, backward pass included.
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
