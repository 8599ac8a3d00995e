// Whether every run of a recipe computes the same losses to the bit.
#include "ablations/techniques/technique.h"

#include <fmt/format.h>

namespace ablations {

using namespace model;

namespace {

Text determinism_text();

Proof prove_determinism(const Recipe& recipe, const RunFacts& facts) {
  const auto& seen = facts.observations.determinism;
  const bool on_cuda = recipe.device == Device::cuda;
  std::string observed = fmt::format("ATen's deterministic algorithms are {}; an operation that has none {}",
                                     seen.algorithms ? "on" : "off", seen.refuses ? "is refused" : "runs");
  if (!recipe.deterministic) {
    return {"deterministic", !seen.algorithms && !seen.refuses,
            "ATen's deterministic algorithms are off; an operation that has none runs", observed};
  }
  const bool cudnn = seen.cudnn_deterministic && !seen.cudnn_benchmark;
  const std::string workspace = seen.cublas_workspace.value_or("not set");
  observed += fmt::format("; cuDNN {}", cudnn ? "deterministic, without trying out" : "free to choose");
  if (on_cuda) observed += fmt::format("; CUBLAS_WORKSPACE_CONFIG {}", workspace);
  return {"deterministic",
          seen.algorithms && seen.refuses && cudnn && (!on_cuda || is_deterministic_workspace(workspace)),
          fmt::format("ATen's deterministic algorithms are on; an operation that has none is refused; cuDNN "
                      "deterministic, without trying out{}",
                      on_cuda ? "; CUBLAS_WORKSPACE_CONFIG :4096:8 or :16:8" : ""),
          observed};
}

}  // namespace

Technique determinism() { return {.field = "deterministic", .text = determinism_text(), .prove = prove_determinism}; }

// ---- In words

namespace {

Text determinism_text() {
  return {
      .mechanism = R"(A sum of rounded numbers depends on its order: 0.1 + 0.2 + 0.3 is 0.6000000000000001 from the
left and 0.6 from the right. A GPU adds up in the order in which its threads arrive, and cuBLAS and cuDNN may choose
another kernel the next time. With `--deterministic` ATen takes an operation whose order is fixed, or refuses what it
has none for; cuDNN tries nothing out; cuBLAS gets a workspace of fixed size.)",
      .faster = "",
      .costs =
          R"(Time, where the fixed order is a slower kernel. cuDNN's attention has no deterministic backward pass, so
`flash` takes FlashAttention.)",
      .no_help =
          R"(Losses are the same to the bit on the same machine with the same program only: not across devices, numbers
of threads or versions of PyTorch. With several threads on a CPU, libraries may add in the order in which these finish,
so losses can differ in the last digit. With `--threads 1` they never do.)",
      .pytorch = R"(torch.use_deterministic_algorithms(True)
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"    # before the first matmul)",
      .proven = R"(The switches are read back, and an operation that has no deterministic way must be refused (`put_`
with the same place twice).)",
      .alone = R"(ladder run --rung start --deterministic --threads 1 --out first.json
ladder run --from first.json)"};
}

}  // namespace

}  // namespace ablations
