// Where a step runs.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/calls.h"
#include "text/figures.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Text device_text();
std::vector<Claim> device_claims();

Proof prove_device(const Recipe& recipe, const RunFacts& facts) {
  const std::string& found = facts.observations.parameters_device;
  if (recipe.device == Device::cpu) {
    return {"device", found.starts_with("cpu"), "parameters on cpu", "parameters on " + found};
  }
  const bool on_cuda = found.starts_with("cuda");
  const StepCalls* calls = counted_calls(facts.observations);
  if (calls == nullptr) {
    return {"device", on_cuda, "parameters on cuda", fmt::format("parameters on {}; waits were not counted", found)};
  }
  const int64_t waits = calls->host_waits.value_or(0);
  std::string observed = fmt::format("parameters on {}; {} in a step", found, number_of(waits, "wait"));
  if (waits > 0) observed += ": " + in_words(by_name(*calls).host_waits());
  return {"device", on_cuda && waits == 0, "parameters on cuda; the host waits for nothing in a step", observed};
}

}  // namespace

Technique device() {
  return {
      .field = "device",
      .optimizations = {{.name = "gpu",
                         .title = "GPU",
                         .summary =
                             "Weights, optimizer state and activations live on the GPU and every operation runs there. "
                             "Arithmetic stays full float32.",
                         .edit = [](Recipe& r, const harness::Machine&) { r.device = Device::cuda; },
                         .text = device_text(),
                         .claims = device_claims()}},
      .prove = prove_device,
  };
}

// ---- In words

namespace {

Text device_text() {
  return {
      .mechanism = R"(Weights, gradients, the optimizer's moments and activations lie in the GPU's memory. The
processor only launches a kernel for each operation, and does not wait for its result. Nothing but tokens travels to
the GPU in a step: at B=16, T=1024 inputs and targets are two times 16,384 numbers of 8 bytes, 262 KB, copied while the
step before still computes. Losses stay on the GPU until the run has ended.)",
      .faster = R"(A GPU has far more arithmetic units and a far faster memory. NVIDIA's data sheet gives an A100
19.5 TFLOP/s in float32 without tensor cores, and 1.6 to 2.0 TB/s. Of the CPUs in results/evidence two cores reach 0.08
TFLOP/s with AVX2 in float32, 0.4 with AVX-512 in bfloat16, and some tens of GB/s.)",
      .costs = R"(All of it must fit into the GPU's memory: 16 bytes for each weight (the weight, its gradient and two
moments in float32), which is 2.0 GB for GPT-2 124M, and the activations, which grow with B and T.)",
      .no_help =
          R"(A GPU gains little where the work is small. A launch takes the processor some microseconds, and a step of
GPT-2 124M has over a thousand of them, whatever B and T are. If the kernels are shorter than their launches, the GPU
idles.)",
      .pytorch = R"(model = model.to("cuda")
x, y = x.to("cuda"), y.to("cuda"))",
      .proven =
          R"(The parameters are on a CUDA device. CUPTI counts the calls of a step in which the processor waits for
the GPU: there must be none.)",
      .alone = R"(ladder run --ladder gpt2 --rung start -B 1 -T 256
ladder run --ladder gpt2 --rung gpu -B 1 -T 256)"};
}

std::vector<Claim> device_claims() {
  return {{.claim = "1000 ms per step in float32",
           .source = sources::lecture,
           .about = Claim::About::milliseconds,
           .note = "\"Over 1000 ms\" is said of a step without any optimization, not of a CPU."}};
}

}  // namespace

}  // namespace ablations
