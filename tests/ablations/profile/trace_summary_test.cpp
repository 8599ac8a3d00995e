// Traces of known shape: two steps of a device with two streams, a gap that waits for the host and one that does not, a
// copy; what is computed from them, and the timeline.
#include "ablations/profile/trace_summary.h"

#include "ablations/profile/chrome_trace.h"
#include "study/trace/divided_step.h"
#include "study/trace/explain.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <tuple>

namespace trace_summary_test {

using namespace study;
using files::Json;
using harness::Activity;
using harness::Label;
using harness::Trace;
using Kind = Activity::Kind;

constexpr int64_t us = 1000;

Activity on_device(Kind kind, const std::string& name, const Label& label, int64_t begin, int64_t end, uint64_t stream,
                   uint64_t correlation, int64_t bytes = 0) {
  return {.kind = kind,
          .name = name,
          .label = label,
          .begin_ns = begin * us,
          .end_ns = end * us,
          .lane = stream,
          .correlation = correlation,
          .bytes = bytes};
}

Activity call(const std::string& name, int64_t begin, int64_t end, uint64_t correlation) {
  return {.kind = Kind::call,
          .name = name,
          .label = {},
          .begin_ns = begin * us,
          .end_ns = end * us,
          .lane = 77,
          .correlation = correlation};
}

// Times in us. Device: [100, 200) gemm, [150, 250) softmax on another stream, idle, [300, 400) gemm, whose launch ended
// at 280, idle, [450, 500) a copy that was asked for long before.
Trace eager() {
  const Label forward{"forward", "c_fc", 0}, backward{"backward", "c_fc", 1}, data{"data", "", -1};
  Trace trace{.activities = {call("cudaMemcpyAsync", 10, 20, 4), call("cudaLaunchKernel", 90, 95, 1),
                             call("cudaLaunchKernel", 100, 110, 2),
                             on_device(Kind::kernel, "void gemm<float>(float*)", forward, 100, 200, 7, 1),
                             on_device(Kind::kernel, "softmax", {"forward", "attention", 0}, 150, 250, 8, 2),
                             call("cudaLaunchKernel", 260, 280, 3),
                             on_device(Kind::kernel, "void gemm<float>(float*)", backward, 300, 400, 7, 3),
                             on_device(Kind::copy, "host to device", data, 450, 500, 7, 4, 4096)},
              .begin_ns = 0,
              .end_ns = 1000 * us};
  return trace;
}

// The rows by what they are of: &PhaseTime::phase, say.
template <class Row>
std::map<std::string, Row> by(const std::vector<Row>& rows, std::string Row::*key) {
  std::map<std::string, Row> result;
  for (const Row& row : rows) result[row.*key] = row;
  return result;
}

TEST(TraceSummary, CountsADevicesTime) {
  const TraceSummary summary = summarize(eager(), 0.5);
  // The step goes from the first activity to the trace's end. Busy: [100, 250), [300, 400), [450, 500). Of the first
  // gap, [250, 300), the host's launch took until 280; the second waited for nothing of the host's.
  for (const auto& [found, expected] :
       std::vector<std::pair<double, double>>{{summary.busy_ms, 0.3},
                                              {summary.busy_percent.value(), 60},
                                              {summary.idle_ms.value(), 0.2},
                                              {summary.traced_wall_ms, 0.9},
                                              {summary.gaps.ms, 0.6},
                                              {summary.gaps.largest_ms, 0.5},
                                              {summary.launch_bound_percent.value(), 100.0 * 30 / 900}}) {
    EXPECT_NEAR(found, expected, 1e-9);
  }
  EXPECT_EQ(std::tie(summary.kernels, summary.copies, summary.operations, summary.kernel_launches,
                     summary.graph_launches, summary.gaps.count),
            std::tuple(3, 1, 0, 3, 0, 3));

  const auto phases = by(summary.by_phase, &PhaseTime::phase);
  EXPECT_NEAR(phases.at("forward").ms, 0.2, 1e-9);
  EXPECT_NEAR(phases.at("backward").ms, 0.1, 1e-9);
  EXPECT_EQ(summary.by_phase[0].phase, "forward");  // the longest first
  const auto names = by(summary.by_name, &NameTime::name);
  EXPECT_NEAR(names.at("void gemm<float>(float*)").ms, 0.2, 1e-9);
  EXPECT_EQ(names.at("void gemm<float>(float*)").count, 2);
  EXPECT_EQ(summary.by_layer.size(), 2U);
  ASSERT_EQ(summary.transfers.size(), 1U);
  EXPECT_EQ(summary.transfers[0].kind, "host to device");
  EXPECT_EQ(summary.transfers[0].bytes, 4096);
}

TEST(TraceSummary, ACleanStepIsDividedAsTheTracedOne) {
  const DividedStep step = divided(summarize(eager(), 0.5), 1.1);
  // Forward 0.2, backward 0.1, a copy on another stream 0.05, idle 0.2.
  EXPECT_NEAR(step.traced_ms, 0.55, 1e-9);
  const auto phases = by(step.by_phase, &PhaseShare::phase);
  EXPECT_NEAR(phases.at("forward").ms, 0.4, 1e-9);
  EXPECT_NEAR(phases.at("backward").ms, 0.2, 1e-9);
  EXPECT_NEAR(step.idle_ms.value(), 0.4, 1e-9);
  // Where idle time is not known the phases fill the step.
  const DividedStep unknown = divided(summarize(eager(), 0.2), 0.7);
  EXPECT_FALSE(unknown.idle_ms);
  EXPECT_NEAR(by(unknown.by_phase, &PhaseShare::phase).at("forward").ms, 0.4, 1e-9);
}

TEST(TraceSummary, AGpuSlowerThanWithoutTracingIsTold) {
  EXPECT_EQ(slower_when_traced(summarize(eager(), 0.3)), "");
  const TraceSummary summary = summarize(eager(), 0.2);  // 0.3 ms of work
  EXPECT_FALSE(summary.busy_percent || summary.idle_ms);
  EXPECT_EQ(summarize(eager(), 0.299).busy_percent, 100);
  EXPECT_NE(slower_when_traced(summary).find("0.3 ms of work, a step without tracing takes 0.2 ms"), std::string::npos);
}

// Three steps of a CPU, the second of which was disturbed: 100 us more in one operation.
Trace three_steps(int64_t product_us = 50) {
  Trace trace{.activities = {}, .steps = 3, .begin_ns = 0, .end_ns = 0};
  int64_t now = 0;
  const auto operation = [&](const char* name, const char* phase, int64_t length, int64_t step) {
    trace.activities.push_back({.kind = Kind::operation,
                                .name = name,
                                .label = {phase, "c_fc", 0},
                                .begin_ns = now * us,
                                .end_ns = (now + length) * us,
                                .lane = 1,
                                .step = step});
    now += length + 10;
  };
  for (int64_t step = 0; step < 3; ++step) {
    operation("aten::mm", "forward", product_us + step, step);
    operation("aten::embedding_backward", "backward", step == 1 ? 120 : 20, step);
  }
  trace.end_ns = now * us;
  return trace;
}

TEST(TraceSummary, IsOfTheStepOfMedianLength) {
  const TraceSummary summary = summarize(three_steps(), 0.1);
  EXPECT_EQ(summary.steps, 3);
  EXPECT_EQ(summary.operations, 2);
  // Steps of 90, 191 and 92 us, each with 10 us between and 10 us after its operations.
  EXPECT_NEAR(summary.traced_wall_ms, 0.092, 1e-9);
  EXPECT_NEAR(summary.busy_ms, 0.072, 1e-9);
  EXPECT_NEAR(summary.least_busy_ms, 0.070, 1e-9);
  EXPECT_NEAR(summary.most_busy_ms, 0.171, 1e-9);
  EXPECT_EQ(summary.gaps.count, 2);
  // Of the traced step: 0.1 ms is what another step took, without the tracer's own time in every operation.
  EXPECT_NEAR(summary.busy_percent.value(), 100.0 * 72 / 92, 1e-9);
  EXPECT_NEAR(summary.idle_ms.value(), 0.020, 1e-9);
  EXPECT_EQ(slower_when_traced(summarize(three_steps(), 0.01)), "");
  TraceSummary of_earlier_version = summary;
  of_earlier_version.busy_percent = 72;
  EXPECT_NEAR(busy_of(of_earlier_version).percent.value(), 100.0 * 72 / 92, 1e-9);
  const NameTime row = by(summary.by_name, &NameTime::name).at("aten::embedding_backward");
  EXPECT_NEAR(row.ms, 0.020, 1e-9);
  EXPECT_NEAR(row.min_ms, 0.020, 1e-9);
  EXPECT_NEAR(row.max_ms, 0.120, 1e-9);
}

// A copy for the second step that runs beside the first belongs to the second, and makes the first no shorter.
TEST(TraceSummary, StepsDoNotOverlap) {
  const Label forward{"forward", "c_fc", 0};
  Trace trace{.activities = {on_device(Kind::kernel, "gemm", forward, 0, 100, 7, 1),
                             on_device(Kind::copy, "host to device", {"data", "", -1}, 40, 60, 8, 2, 64),
                             on_device(Kind::kernel, "gemm", forward, 100, 210, 7, 3)},
              .steps = 2,
              .begin_ns = 0,
              .end_ns = 210 * us};
  trace.activities[1].step = trace.activities[2].step = 1;
  const TraceSummary summary = summarize(trace, 0.1);
  EXPECT_NEAR(summary.traced_wall_ms, 0.1, 1e-9);
  EXPECT_NEAR(summary.most_busy_ms, 0.11, 1e-9);
  EXPECT_EQ(summary.copies, 0);
}

TEST(TraceSummary, NothingTracedIsNothingAndAnUnlabelledActivityIsTold) {
  const TraceSummary summary = summarize(Trace{.activities = {}, .steps = 1, .begin_ns = 0, .end_ns = 10}, 1);
  EXPECT_EQ(summary.busy_ms, 0);
  EXPECT_FALSE(summary.launch_bound_percent);
  Trace trace = eager();
  trace.activities[3].label = {};
  EXPECT_NEAR(summarize(trace, 1).unlabelled_ms, 0.1, 1e-9);
}

TEST(ChromeTrace, HasNamedTracksAndMicroseconds) {
  const Json timeline = Json::parse(chrome_trace(eager()));
  const auto track_of = [](const Json& event) -> std::pair<int, int> { return {event.at("pid"), event.at("tid")}; };
  std::set<std::pair<int, int>> tracks;
  std::set<int> processes;
  int phases = 0;
  Json softmax;
  for (const Json& event : timeline.at("traceEvents")) {
    if (event.at("name") == "process_name") processes.insert(event.at("pid").get<int>());
    if (event.at("name") == "thread_name") tracks.insert(track_of(event));
    if (event.at("ph") == "M") continue;
    ASSERT_EQ(event.at("ph"), "X");
    phases += static_cast<int>(event.at("cat") == "phase");
    if (event.at("name") == "softmax") softmax = event;
  }
  EXPECT_EQ(softmax.at("ts"), 150.0);
  EXPECT_EQ(softmax.at("dur"), 100.0);
  EXPECT_EQ(softmax.at("args").at("part"), "attention");
  EXPECT_EQ(softmax.at("args").at("layer"), 0);
  EXPECT_EQ(phases, 3);  // forward, backward, data
  for (const Json& event : timeline.at("traceEvents")) {
    EXPECT_TRUE(processes.contains(event.at("pid").get<int>()));
    const bool has_track = event.at("ph") == "M" || tracks.contains(track_of(event));
    EXPECT_TRUE(has_track) << event.dump();
  }
}

TraceDocument document(const Trace& trace, double wall_ms, const std::string& title) {
  return {.title = title,
          .device = {DeviceKind::cuda, "test"},
          .workload = {.B = 1},
          .memory = {.peak_bytes = 1000},
          .summary = summarize(trace, wall_ms)};
}

// The same kernels, launched by one graph, without gaps.
Trace replayed() {
  const Label forward{"forward", "c_fc", 0};
  Trace trace{.activities = {call("cudaGraphLaunch", 0, 5, 9), call("cuGraphLaunch", 1, 4, 9),
                             on_device(Kind::kernel, "void gemm<float>(float*)", forward, 10, 110, 7, 9),
                             on_device(Kind::kernel, "softmax", forward, 110, 210, 7, 9),
                             on_device(Kind::kernel, "void gemm<float>(float*)", forward, 210, 310, 7, 9),
                             on_device(Kind::copy, "host to device", {"data", "", -1}, 310, 360, 7, 4, 4096)},
              .begin_ns = 0,
              .end_ns = 400 * us};
  for (Activity& activity : trace.activities) activity.in_graph = activity.kind == Kind::kernel;
  return trace;
}

TEST(Explain, SaysThatAGraphIsOneLaunch) {
  const Explanation explanation =
      explain(document(eager(), 0.5, "eager"), document(replayed(), 0.36, "+ graph capture"));
  const std::string& words = explanation.words;
  EXPECT_NE(words.find("3 launches became 1"), std::string::npos) << words;
  EXPECT_NE(words.find("idle 40 % became 3 %"), std::string::npos) << words;
  for (const Explanation::Name& name : explanation.names) EXPECT_NE(name.change, Change::came) << name.name;
}

TEST(Explain, NamesADisturbedTrace) {
  TraceDocument before = document(eager(), 0.5, "eager");
  const TraceDocument after = document(replayed(), 0.36, "+ graph capture");
  const std::string undisturbed = explain(before, after).words;
  const std::string flag = "shared: the processor was busy with something else for 23 % of the time";
  before.flags = {flag};
  EXPECT_EQ(explain(before, after).words, "Not usable: the trace of \"eager\" was disturbed: " + flag + ".");
  EXPECT_NE(trace_table(before).find("disturbed: shared"), std::string::npos);
  EXPECT_EQ(trace_table(after).find("disturbed"), std::string::npos);
}

// A time is not reported as changed if the two sets of step times overlap. Where the study found no clear change of the
// step, only what ran is told.
TEST(Explain, NamesNoCauseOfAChangeThatIsNotClear) {
  const auto words = [](const Trace& before, const Trace& after, bool step_changed) -> std::string {
    return explain(document(before, 0.5, "before"), document(after, 0.36, "after"), step_changed).words;
  };
  EXPECT_EQ(words(three_steps(), three_steps(51), true), "No kind of operation clearly changed.");
  EXPECT_EQ(words(three_steps(), three_steps(80), true), "Matrix products +0.03 ms; by phase: forward +0.03 ms.");
  EXPECT_EQ(words(three_steps(), three_steps(80), false), "No clear change of the step.");
  EXPECT_EQ(words(eager(), replayed(), false), "No clear change of the step; 3 launches became 1.");
}

TEST(Explain, NamesWhatWentAndWhatCame) {
  Trace fused = eager();
  fused.activities[4].name = "void ns::flash_fwd_kernel<Traits, 64>(Params)";
  fused.activities[4].end_ns = 170 * us;
  const Explanation explanation = explain(document(eager(), 0.5, "before"), document(fused, 0.4, "+ flash attention"));
  std::map<std::string, Change> changes;
  for (const Explanation::Name& name : explanation.names) changes[name.name] = name.change;
  EXPECT_EQ(changes.at("softmax"), Change::went);
  EXPECT_EQ(changes.at("flash_fwd_kernel"), Change::came);
  EXPECT_EQ(explanation.changed, "Went: softmax (1x, 0.10 ms); came: flash_fwd_kernel (1x, 0.02 ms).");
  EXPECT_TRUE(explanation.words.starts_with("Softmax \u22120.10 ms, attention +0.02 ms")) << explanation.words;
  std::istringstream lines(explanation_table(explanation));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

// A template's instances are one kernel to a reader: what became of them together.
TEST(Explain, TakesAllInstancesOfATemplateTogether) {
  const auto name = [](const char* type) { return fmt::format("void at::native::fill<{}>({}*)", type, type); };
  Trace before = eager(), after = eager();
  before.activities[4].name = name("float");
  after.activities[4].name = name("double");
  const Explanation explanation = explain(document(before, 0.5, "before"), document(after, 0.5, "after"));
  size_t seen = 0;
  for (const Explanation::Name& one : explanation.names) {
    if (one.name != "fill") continue;
    ++seen;
    EXPECT_EQ(one.before_count, one.after_count);
  }
  EXPECT_EQ(seen, 1U);
}

TEST(Explain, RefusesAnotherDeviceOrSize) {
  TraceDocument other = document(eager(), 0.5, "other");
  other.device.name = "another";
  EXPECT_THROW(explain(document(eager(), 0.5, "one"), other), std::invalid_argument);
  other = document(eager(), 0.5, "other");
  other.workload.B = 2;
  EXPECT_THROW(explain(document(eager(), 0.5, "one"), other), std::invalid_argument);
}

// `--json`: counts and bytes are whole numbers, words those of the enums.
TEST(Explain, IsJsonForMachines) {
  const Json json = to_json(explain(document(eager(), 0.5, "eager"), document(replayed(), 0.36, "+ graph capture")));
  const auto total = [&](const char* what) {
    for (const Json& one : json.at("totals")) {
      if (one.at("what") == what) return one.dump();
    }
    return std::string("none");
  };
  EXPECT_EQ(total("kernel launches"), R"({"after":0,"before":3,"unit":"","what":"kernel launches"})");
  EXPECT_EQ(total("peak memory"), R"({"after":1000,"before":1000,"unit":"bytes","what":"peak memory"})");
  EXPECT_EQ(total("step"), R"({"after":0.36,"before":0.5,"unit":"ms","what":"step"})");
  EXPECT_EQ(total("operations"), "none");  // there are none before and after
  EXPECT_EQ(json.at("names").at(0).at("change"), "unclear");
  EXPECT_EQ(json.at("after"), "+ graph capture");
}

}  // namespace trace_summary_test
