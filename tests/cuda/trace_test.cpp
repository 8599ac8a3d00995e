// A trace of real steps, eager and replayed: every kernel knows its phase, those of a captured graph and of the
// backward pass too, and what is summed up agrees with what CUPTI's callbacks count.
#include "ablations/profile/trace_summary.h"
#include "ablations/techniques/operations.h"
#include "harness/gpu/cuda_calls.h"
#include "harness/gpu/cupti.h"
#include "harness/process/unfit.h"
#include "tests/cuda/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <set>

namespace cuda_trace_test {

using namespace device_tests;
using namespace model;
using harness::Activity;
using harness::Trace;

// One test, because a process has one tracing session.
TEST(DeviceTrace, LabelsEagerKernelsAndGraphNodes) {
  if (rehearsal()) GTEST_SKIP() << "a CPU has no kernels to trace";
  const TrainerOptions options{.B = 2, .T = 128, .max_steps = 12};
  Recipe recipe{.device = Device::cuda, .optimizer = Optimizer::fused};
  Trainer eager(small(), recipe, options, tokens(), step_parts());
  eager.synchronize();  // the next trainer's stream, which both run on from now, knows nothing of this one's
  recipe.execution = Execution::graph;
  Trainer replayed(small(), recipe, options, tokens(), step_parts());
  for (int i = 0; i < 5; ++i) {
    eager.step();
    replayed.step();
  }
  harness::Labels labels(/*follow_autograd=*/true);
  for (Trainer* trainer : {&eager, &replayed}) {
    trainer->on_phase = [&](std::string_view phase) { labels.begin_phase(phase); };
    trainer->ops().on_part = [&](int64_t layer, std::string_view part) { labels.begin_part(layer, part); };
  }
  Trace trace;
  try {
    trace = harness::trace_device(
        labels,
        [&] {
          replayed.recapture();
          replayed.step();
          replayed.synchronize();
        },
        1,
        [&] {
          eager.step();
          eager.synchronize();  // else the two run beside each other
          replayed.step();
          replayed.synchronize();
        });
  } catch (const harness::Unfit& error) {
    GTEST_SKIP() << "no tracing here: " << error.what();
  }
  int64_t eager_kernels = 0;
  for (const bool in_graph : {false, true}) {
    SCOPED_TRACE(in_graph ? "replayed" : "eager");
    std::set<std::string> parts;
    int64_t kernels = 0, without = 0;
    for (const Activity& activity : trace.activities) {
      if (activity.kind != Activity::Kind::kernel || activity.in_graph != in_graph) continue;
      ++kernels;
      without += static_cast<int64_t>(activity.label.phase.empty());
      parts.insert(activity.label.phase + " " + activity.label.part);
      EXPECT_LT(activity.begin_ns, activity.end_ns);
    }
    if (!in_graph) eager_kernels = kernels;
    SCOPED_TRACE(fmt::format("{}", fmt::join(parts, "; ")));
    EXPECT_GT(kernels, 100);
    EXPECT_EQ(without, 0);
    for (const char* part : {"forward c_fc", "backward c_fc", "forward attention", "backward attention",
                             "backward head", "clip ", "update "}) {
      EXPECT_TRUE(parts.contains(part)) << part;
    }
  }
  const auto summary = ablations::summarize(trace, 1);
  EXPECT_EQ(summary.graph_launches, 1);
  double phases_ms = 0;
  for (const auto& row : summary.by_phase) phases_ms += row.ms;
  EXPECT_GE(phases_ms, summary.busy_ms * (1 - 1e-9));
  EXPECT_LT(phases_ms,
            summary.busy_ms * 1.5);  // a copy may run beside a kernel, and both last longer beside other tests
  const auto calls = harness::cuda_calls([&] { eager.step(); });
  EXPECT_EQ(calls.unavailable, "");
  EXPECT_EQ(harness::sum(calls.kernel_launches()), eager_kernels);
}

}  // namespace cuda_trace_test
