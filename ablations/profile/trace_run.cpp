#include "ablations/profile/trace_run.h"

#include "ablations/gpt2/gpt2_workload.h"
#include "ablations/gpt2/memory.h"
#include "ablations/gpt2/run.h"
#include "ablations/profile/chrome_trace.h"
#include "ablations/profile/trace_summary.h"
#include "ablations/techniques/operations.h"
#include "harness/clock/clock.h"
#include "harness/gpu/cupti.h"
#include "harness/machine/gpu_monitor.h"
#include "harness/machine/machine.h"
#include "harness/machine/processor_time.h"
#include "harness/process/utc.h"
#include "harness/stats/stats.h"
#include "model/gpt2.h"
#include "model/precision.h"
#include "study/trace/divided_step.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

namespace ablations {

namespace {

// What had the processor since `begin`, in the words of a run's record.
std::vector<std::string> processor_flags_since(std::chrono::steady_clock::time_point begin,
                                               const std::optional<harness::ProcessorTime>& before, int busy_threads) {
  const auto now = harness::processor_time();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::vector<std::string> flags;
  if (!before || !now) return flags;
  const std::string flag = harness::flag(
      harness::share_lost(*before, *now, seconds, busy_threads, harness::this_machine().cpu.logical_cores));
  if (!flag.empty()) flags.push_back(flag);
  return flags;
}

}  // namespace

TracedRun trace_run(const RunOptions& options, const std::string& title) {
  // One step more than is timed and traced: a graph is captured again while the tracer watches.
  Gpt2Workload workload(options, options.warmup_steps + options.timed_steps + 1 + traced_steps);
  std::optional<harness::Monitor> monitor;
  if (workload.on_cuda()) monitor.emplace(harness::current_bus_id());
  if (monitor) monitor->begin();
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  const auto processor = harness::processor_time();
  PeakWatch peak(options.recipe);
  const harness::Timing timing = harness::measure(
      workload, options.warmup_steps, options.timed_steps, [&](int64_t steps) { peak.after_step(steps); },
      [&] { peak.begin_window(); });
  const PeakMemory memory = peak.peak();
  const std::span<const double> timed = std::span(timing.step_ms).subspan(static_cast<size_t>(timing.warmup_steps));

  workload.follow_autograd();
  const auto step = [&] { workload.step(); };
  const auto prepare = [&] {
    workload.trainer().recapture();
    step();
  };
  harness::Trace trace;
  if (workload.on_cuda()) {
    trace = harness::trace_device(workload.labels(), prepare, traced_steps, step);
  } else {
    prepare();
    trace = harness::trace_operations(workload.labels(), traced_steps, step);
  }

  auto flags = processor_flags_since(begin, processor, busy_threads(options.recipe.device, at::get_num_threads()));
  if (monitor) {
    for (std::string& flag : harness::flags(monitor->end())) flags.push_back(std::move(flag));
  }
  TraceSummary summary = summarize(trace, harness::median(timed));
  if (const std::string slower = study::slower_when_traced(summary); !slower.empty()) flags.push_back(slower);
  const harness::Machine& machine = harness::this_machine();
  return {.document = {.created = harness::utc_now(),
                       .title = title,
                       .device = {device_of(model::to_json(options.recipe)),
                                  workload.on_cuda() ? machine.gpu->name : machine.cpu.model},
                       .recipe = model::to_json(options.recipe),
                       .workload = workload.description(),
                       .memory = memory,
                       .flags = std::move(flags),
                       .summary = std::move(summary),
                       .roofline = {},
                       .environment = environment_here()},
          .timeline = chrome_trace(trace)};
}

using at::Tensor;
using model::Affine;
using model::Ops;

namespace {

// Stands for the table that a large operation gets: when the call is made again, that is the one in use.
struct OpsTable {};

OpsTable leaf(const Ops&) { return {}; }
Tensor leaf(const Tensor& x) { return x.defined() ? x.detach().set_requires_grad(x.requires_grad()) : x; }
Affine leaf(const Affine& x) { return {leaf(x.weight), leaf(x.bias)}; }
template <class T>
T leaf(const T& x) {
  return x;
}

const Ops& argument(const OpsTable&, const Ops& used) { return used; }
template <class T>
const T& argument(const T& x, const Ops&) {
  return x;
}

bool is_there(const Tensor& x) { return x.defined(); }
template <class T>
bool is_there(const T&) {
  return true;
}

void append(std::vector<Tensor>& inputs, const Tensor& x) { inputs.push_back(x); }
void append(std::vector<Tensor>& inputs, const Affine& x) { inputs.insert(inputs.end(), {x.weight, x.bias}); }
template <class T>
void append(std::vector<Tensor>&, const T&) {}

std::vector<Tensor> listed(const Tensor& output) { return {output}; }
std::vector<Tensor> listed(const std::array<Tensor, 3>& outputs) { return {outputs.begin(), outputs.end()}; }
std::vector<Tensor> listed(const Ops::Normed& outputs) { return {outputs.x, outputs.normalized}; }

// Puts a listener in the operation's place.
template <class Result, class... Args>
void watch(Calls& calls, Ops& ops, std::function<Result(Args...)> Ops::*operation,
           const std::function<std::string()>& name) {
  ops.*operation = [&calls, operation, name, original = ops.*operation](Args... args) {
    const auto leaves = std::make_tuple(leaf(args)...);
    Call call;
    std::apply([&](const auto&... x) { (append(call.inputs, x), ...); }, leaves);
    call.forward = [operation, leaves](const Ops& used) {
      return listed(std::apply([&](const auto&... x) { return (used.*operation)(argument(x, used)...); }, leaves));
    };
    if ((is_there(args) && ...)) calls.try_emplace(name(), std::move(call));
    return original(args...);
  };
}

// As a block calls it, one after the other.
const std::vector<std::string> places_of_linear = {"attn_proj", "c_fc", "mlp_proj"};

}  // namespace

Calls calls_of_a_step(const model::Config& whole, const model::Recipe& recipe, int64_t B, int64_t T) {
  model::Config config = whole;
  config.n_layer = 1;
  const at::DeviceType device = model::device_type(recipe.device);
  const model::GPT2 gpt2(config, recipe.vocabulary_rows, /*seed=*/1, device);
  const Tensor tokens = at::randint(config.vocabulary, {2, B, T}, at::TensorOptions().dtype(at::kLong).device(device));

  Calls calls;
  Ops ops = model::ops_for(recipe);
  for_each_operation([&](const std::string& name, auto operation) {
    watch(calls, ops, operation, [name, nth = size_t{0}]() mutable {
      return name == "linear" ? "linear_" + places_of_linear.at(nth++) : name;
    });
  });
  const model::AutocastScope autocast(device, recipe.autocast);
  (void)gpt2.loss(ops, tokens[0], tokens[1]);
  return calls;
}

std::vector<std::string> call_names() {
  std::vector<std::string> names;
  for_each_operation([&](const std::string& name, auto) {
    if (name != "linear") return names.push_back(name);
    for (const std::string& place : places_of_linear) names.push_back("linear_" + place);
  });
  return names;
}

}  // namespace ablations
