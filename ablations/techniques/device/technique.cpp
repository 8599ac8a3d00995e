// Where a step runs.
#include "ablations/techniques/technique.h"

#include "ablations/techniques/calls.h"
#include "text/figures.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

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
                         .edit = [](Recipe& r, const harness::Machine&) { r.device = Device::cuda; }}},
      .prove = prove_device,
  };
}

}  // namespace ablations
