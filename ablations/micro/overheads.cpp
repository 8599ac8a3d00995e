// The costs of a step besides computing: its batch, the measuring, and an NVTX range without a tool. The last two are
// also shown as a share of a training step with every optimization on, where they weigh most.
#include "ablations/micro/overheads.h"

#include "ablations/micro/suite.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/step_table.h"
#include "files/files.h"
#include "harness/clock/clock.h"
#include "harness/observe/labels.h"
#include "model/config.h"
#include "model/data.h"
#include "model/inputs.h"
#include "model/trainer.h"

#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

namespace ablations::micro {

using namespace model;

namespace {

constexpr int64_t many = 1000;  // calls that are timed together, where one is too short for a clock

const TokenStream& some_tokens() {
  static const TokenStream stream = [] {
    TokenStream tokens{.source = "micro"};
    for (int64_t i = 0; i <= 4096L * 1024; ++i) tokens.tokens.push_back(static_cast<uint16_t>(i * 7919 % 50257));
    return tokens;
  }();
  return stream;
}

// The same in a file, for what maps it.
const TokenStream& tokens_in_file() {
  static const files::TemporaryFolder folder("ladder-micro");
  static const TokenStream stream = [] {
    write_tokens(folder.path() / "tokens.bin", some_tokens().tokens);
    return load_tokens(folder.path() / "tokens.bin", 50257, Keep::in_file);
  }();
  return stream;
}

struct Step {
  Device device;
  double seconds;
  int64_t ranges;  // phases and parts that a step shows
};

Step training_step(Device device, Sizes sizes) {
  const Config config = preset("gpt2-124m");
  const Recipe recipe{.device = device,
                      .host_memory = HostMemory::keep,
                      .autocast = Autocast::bf16,
                      .attention = Attention::flash,
                      .vocabulary_rows = 50304,
                      .optimizer = Optimizer::fused};
  Trainer trainer(config, recipe, {.B = sizes.B, .T = sizes.T, .max_steps = 4}, some_tokens(), step_parts());
  int64_t ranges = 0;
  trainer.on_phase = [&](std::string_view) { ++ranges; };
  trainer.ops().on_part = [&](int64_t, std::string_view) { ++ranges; };
  trainer.step();
  trainer.on_phase = [](std::string_view) {};
  trainer.ops().on_part = [](int64_t, std::string_view) {};
  trainer.step();
  return {device, seconds_of(device, [&] { trainer.step(); }), ranges};
}

// Made when first asked for.
class Steps {
 public:
  const Step& on(Device device, Sizes sizes) {
    if (!step_ || step_->device != device) step_ = training_step(device, sizes);
    return *step_;
  }

 private:
  std::optional<Step> step_;
};

class EmptyWorkload : public harness::Workload {
 public:
  explicit EmptyWorkload(Device device) : device_(device) {}
  void step() override { benchmark::DoNotOptimize(++steps_); }
  void synchronize() override {
    if (on_cuda()) c10::cuda::device_synchronize();
  }
  [[nodiscard]] bool on_cuda() const override { return device_ == Device::cuda; }

 private:
  Device device_;
  int64_t steps_ = 0;
};

// What measured steps cost more than bare ones, by the host's clock. A GPU's queue waits for the host.
void measure_nothing(benchmark::State& state, Device device) {
  EmptyWorkload empty(device);
  harness::Workload* workload = &empty;
  harness::measure(*workload, 0, many);
  while (state.KeepRunningBatch(many)) {
    benchmark::DoNotOptimize(workload);
    const double bare = seconds_of(Device::cpu, [&] {
      for (int64_t i = 0; i < many; ++i) workload->step();
    });
    const double measured = seconds_of(Device::cpu, [&] { harness::measure(*workload, 0, many); });
    state.SetIterationTime(measured - bare);
  }
}

// As a step shows its parts: the range before ends, the next one begins.
void time_ranges(benchmark::State& state) {
  harness::Labels labels(/*follow_autograd=*/false);
  labels.begin_phase("forward");
  int64_t layer = 0;
  time_calls(
      state, Device::cpu, [] {}, [&] { labels.begin_part(layer++ / 12 % 12, "c_fc"); }, many);
}

// per_step: how many of what is timed a step has. Google Benchmark divides by the time per call, hence the inverse.
void set_share(benchmark::State& state, const Step& step, int64_t per_step) {
  using benchmark::Counter;
  state.counters["per_step"] = static_cast<double>(per_step);
  state.counters["step_seconds"] = step.seconds;
  state.counters["share_of_step"] =
      Counter(step.seconds / static_cast<double>(per_step), Counter::kIsIterationInvariantRate | Counter::kInvert);
}

}  // namespace

void add_overheads(Suite& suite) {
  const auto steps = std::make_shared<Steps>();
  for (const Device device : {Device::cpu, Device::cuda}) {
    const Sizes sizes = suite.sizes(device);
    // Two bytes of each token are read for the inputs and for the targets, eight written.
    const double batch_bytes = 20.0 * static_cast<double>(sizes.B * sizes.T);
    if (device == Device::cpu) {
      suite.add("batch_loader/next", device, [=](benchmark::State& state) {
        BatchLoader loader(some_tokens(), sizes.B, sizes.T, /*seed=*/1);
        const auto batch = loader.next();
        time_calls(
            state, device, [] {}, [&] { loader.next(batch.first, batch.second); }, many);
        set_rates(state, 0, batch_bytes);
      });
    }
    if (device == Device::cpu) {
      // The sizes of the notes that claim 4.8 ms for a loop and 0.05 ms for one gather (docs/claims.md).
      // Theirs begin at random places, and run in Python: batches.py.
      for (const auto& [name, batches] : {std::pair{"batch_mapped", Batches::mapped},
                                          {"batch_loop", Batches::preloaded},
                                          {"batch_gather", Batches::gather}}) {
        for (const int64_t B : {16, 32, 64, 128}) {
          for (const auto& [places, windows] : {std::pair{"", Windows::consecutive}, {"_random", Windows::random}}) {
            const auto time = [=, batches = batches, windows = windows](benchmark::State& state) {
              const TokenStream& stream = batches == Batches::mapped ? tokens_in_file() : some_tokens();
              BatchLoader loader(stream, B, /*T=*/512, /*seed=*/1, batches, {}, windows);
              const auto batch = loader.next();
              time_calls(
                  state, device, [] {}, [&] { loader.next(batch.first, batch.second); });
              set_rates(state, 0, 20.0 * static_cast<double>(B * 512));
            };
            suite.add(fmt::format("{}{}/{}x512", name, places, B), device, time);
          }
        }
      }
    }
    suite.add("inputs/advance", device, [=](benchmark::State& state) {
      Inputs inputs(some_tokens(), sizes.B, sizes.T, /*micro_steps=*/1, /*steps=*/64, /*seed=*/1,
                    at::Device(device_type(device), static_cast<c10::DeviceIndex>(device == Device::cuda ? 0 : -1)));
      // On a GPU what the step's stream sees of it: a copy from the buffer that was filled meanwhile.
      time_calls(
          state, device, [] {}, [&] { inputs.advance(); });
      // Inputs and targets: int64 read and written there, uint16 read and int64 written here.
      const double bytes_per_token = device == Device::cuda ? 2.0 * (8 + 8) : 2.0 * (2 + 8);
      set_rates(state, 0, bytes_per_token * static_cast<double>(sizes.B * sizes.T));
    });
    suite.add("harness/measured_step", device, [=](benchmark::State& state) {
      const Step& step = steps->on(device, sizes);
      measure_nothing(state, device);
      set_share(state, step, 1);
    });
    suite.add("nvtx/range", device, [=](benchmark::State& state) {
      const Step& step = steps->on(device, sizes);
      time_ranges(state);
      set_share(state, step, step.ranges);
    });
  }
}

using at::Tensor;

namespace {

double matrix_flops(const std::string& call, const std::vector<Tensor>& inputs) {
  const auto size = [&](size_t input, int64_t dim) { return static_cast<double>(inputs[input].size(dim)); };
  if (call.starts_with("linear") || call == "qkv" || call == "head") {  // x (..., K), weight (N, K)
    const double M = static_cast<double>(inputs[0].numel()) / size(0, -1);
    return product_flops(M, size(1, 0), size(1, 1));
  }
  if (call == "attention") {  // q (B, NH, T, HS)
    return attention_flops(size(0, 0), size(0, 2), size(0, 1) * size(0, 3));
  }
  return 0;
}

double bytes_of(const Tensor& x) { return static_cast<double>(x.nbytes()); }

double bytes_of(const std::vector<Tensor>& list) {
  double bytes = 0;
  for (const Tensor& x : list) bytes += bytes_of(x);
  return bytes;
}

// An embedding reads one row of wte for every token, and each position's row of wpe once for all sequences.
double bytes_read(const std::string& call, const std::vector<Tensor>& inputs) {
  if (call == "embed") {
    const Tensor &tokens = inputs[0], &wte = inputs[1];
    const double row = static_cast<double>(wte.size(1)) * static_cast<double>(wte.element_size());
    return bytes_of(tokens) + row * static_cast<double>(tokens.numel() + tokens.size(1));
  }
  return bytes_of(inputs);
}

}  // namespace

Cost cost_of_forward(const std::string& call, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  return {matrix_flops(call, inputs), bytes_read(call, inputs) + bytes_of(outputs)};
}

// Reads the outputs' gradients and what the derivative needs. An embedding needs its tokens, attention also its output,
// nothing its bias, a sum nothing at all. Writes the gradient of each input. A sum hands on the one it gets, unless
// another type is wanted.
Cost cost_of_backward(const std::string& call, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  const bool is_sum = call == "residual";
  const size_t needed = is_sum ? 0 : call == "embed" ? 1 : call == "attention" ? 3 : std::min<size_t>(inputs.size(), 2);
  double bytes = call == "attention" ? bytes_of(outputs) : 0;
  for (size_t i = 0; i < needed; ++i) bytes += bytes_of(inputs[i]);
  for (const Tensor& input : inputs) {
    const bool handed_on = is_sum && input.scalar_type() == outputs[0].scalar_type();
    if (input.requires_grad() && !handed_on) bytes += bytes_of(input);
  }
  return {backward_flops(matrix_flops(call, inputs)), bytes == 0 ? 0 : bytes + bytes_of(outputs)};
}

std::optional<Cost> cost_in_a_step(const std::string& call, const std::string& phase, const model::Recipe& recipe,
                                   const Sizes& sizes) {
  // The parts of a step that each is, or is made of.
  static const std::map<std::string, std::vector<std::string>> parts{
      {"add_norm", {"residual", "ln_2"}},
      {"self_attention", {"c_attn", "attention"}},
      {"mlp", {"mlp", "c_fc", "gelu", "mlp_proj"}},
      {"head_loss", {"head_loss", "head", "cross_entropy"}}};
  const auto found = parts.find(call);
  if (found == parts.end()) return std::nullopt;
  Cost sum;
  for (const ablations::Cost& cost : step_costs(sizes.config(), recipe, sizes.B, sizes.T, /*accumulation=*/1)) {
    if (cost.phase != phase || std::ranges::find(found->second, cost.part) == found->second.end()) continue;
    sum.flops += cost.flops / static_cast<double>(cost.calls);
    sum.bytes += cost.bytes / static_cast<double>(cost.calls);
  }
  return sum;
}

}  // namespace ablations::micro
