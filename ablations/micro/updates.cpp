// AdamW in its three kinds and of master weights, and the clipping coefficient, over all parameters of GPT-2 124M.
#include "ablations/micro/suite.h"
#include "ablations/techniques/fused.h"
#include "ablations/techniques/operations.h"
#include "ablations/techniques/weights/master_adamw.h"
#include "harness/machine/machine.h"
#include "harness/observe/operation_log.h"
#include "model/config.h"
#include "model/gpt2.h"
#include "model/ops.h"
#include "model/optimizer.h"
#include "model/precision.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

namespace ablations::micro {

using namespace model;

namespace {

// Weights with gradients; of one device at a time.
class Weights {
 public:
  const std::vector<Parameter>& on(Device device) {
    if (device_ != device) {
      gpt2_.reset();
      const Config config = preset("gpt2-124m");
      gpt2_.emplace(config, config.vocabulary, /*seed=*/1, device_type(device));
      for (const Parameter& parameter : gpt2_->parameters()) {
        at::Tensor(parameter.tensor).mutable_grad() = at::randn_like(parameter.tensor.detach()) * 1e-3;
      }
      device_ = device;
    }
    return gpt2_->parameters();
  }

 private:
  std::optional<Device> device_;
  std::optional<GPT2> gpt2_;
};

double numbers_in(const std::vector<Parameter>& parameters) {
  double numbers = 0;
  for (const Parameter& parameter : parameters) numbers += static_cast<double>(parameter.tensor.numel());
  return numbers;
}

void nothing() {}

}  // namespace

void add_updates(Suite& suite) {
  const auto weights = std::make_shared<Weights>();
  for (const Device device : {Device::cpu, Device::cuda}) {
    suite.add("clip/float32", device, [weights, device](benchmark::State& state) {
      const AdamW optimizer(weights->on(device), Optimizer::fused);
      at::Tensor coefficient;
      time_calls(state, device, nothing, [&] { coefficient = optimizer.clip().coefficient; });
      set_rates(state, 0, 4 * numbers_in(weights->on(device)));  // gradients read
    });
    struct Kind {
      const char* name;
      Optimizer optimizer;
      model::Weights weights = model::Weights::separate;
    };
    for (const Kind& kind :
         {Kind{"adamw_loop/float32", Optimizer::loop}, Kind{"adamw_foreach/float32", Optimizer::foreach},
          Kind{"adamw_fused/float32", Optimizer::fused},
          Kind{"adamw_master/float32", Optimizer::fused, model::Weights::master}}) {
      const bool is_possible = fused_obstacle({.device = device}, harness::this_machine()).empty();
      if (kind.weights == model::Weights::master && !is_possible) continue;
      suite.add(kind.name, device, [weights, device, kind](benchmark::State& state) {
        const std::vector<Parameter>& parameters = weights->on(device);
        AdamW optimizer(parameters, kind.optimizer, {},
                        kind.weights == model::Weights::master ? model::master_adamw : nullptr);
        optimizer.set_learning_rate(1e-4);
        const at::Tensor coefficient = at::ones({}, parameters.front().tensor.options().requires_grad(false));
        time_calls(state, device, nothing, [&] { optimizer.step(coefficient); });
        // Weight, gradient and two moments read; weight and moments written.
        set_rates(state, 0, 7 * 4 * numbers_in(parameters));
      });
    }
  }
}

// What attention's forward pass leaves in memory for the backward pass, by T. Written out it keeps matrices of T x T
// numbers; flash attention keeps none. One sequence, the heads of GPT-2 124M; float32 on a CPU, bfloat16 on a GPU.

using namespace model;

namespace {

void measure_attention(benchmark::State& state, Device device, Attention attention, int64_t T) {
  const Config config = preset("gpt2-124m");
  const at::ScalarType type = device == Device::cuda ? at::kBFloat16 : at::kFloat;
  const auto heads = [&] {
    return at::randn({1, config.n_head, T, config.n_embd / config.n_head},
                     at::TensorOptions().dtype(type).device(device_type(device)))
        .set_requires_grad(true);
  };
  const at::Tensor q = heads(), k = heads(), v = heads();
  const SdpaScope sdpa(attention);
  const auto attend = model::ops_for({.attention = attention}).attention;
  at::Tensor output = attend(q, k, v);  // the mask is made at the first call, and stays
  output.reset();
  {
    const harness::MemoryLog memory(device_type(device));
    output = attend(q, k, v);
    state.counters["kept_bytes"] = static_cast<double>(memory.live_bytes());
    output.reset();
  }
  time_calls(
      state, device, [&] { output.reset(); }, [&] { output = attend(q, k, v); });
}

}  // namespace

void add_memory(Suite& suite) {
  for (const Device device : {Device::cpu, Device::cuda}) {
    for (const Attention attention : {Attention::manual, Attention::flash}) {
      for (const int64_t T : {128, 256, 512, 1024, 2048, 4096}) {
        suite.add(fmt::format("attention_memory_{}/{}", name_of(attention), T), device,
                  [=](benchmark::State& state) { measure_attention(state, device, attention, T); });
      }
    }
  }
}

}  // namespace ablations::micro
