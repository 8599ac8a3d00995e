// What attention's forward pass leaves in memory for the backward pass, by T. Written out it keeps matrices of T x T
// numbers; flash attention keeps none. One sequence, the heads of GPT-2 124M; float32 on a CPU, bfloat16 on a GPU.
#include "ablations/micro/suite.h"
#include "ablations/techniques/operations.h"
#include "harness/observe/memory_log.h"
#include "model/config.h"
#include "model/ops.h"
#include "model/precision.h"

#include <fmt/format.h>

namespace ablations::micro {

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
