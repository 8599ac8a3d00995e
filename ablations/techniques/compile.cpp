// torch.compile: what PyTorch does of itself where a ladder has graph capture and fused operations. It runs as a peer.
#include "ablations/techniques/techniques.h"

namespace ablations {

const Text& compile_text() {
  static const Text text{
      .mechanism = R"(The first call of a compiled model traces it, and generates code. Later calls run that code:

    tracing            Dynamo interprets the Python bytecode, and writes down its tensor operations: a graph
    guards             what the graph relies on, such as shapes and types; another shape compiles anew
    backward pass      AOTAutograd traces the gradients, too, and chooses what the forward pass keeps for them
    fusion             Inductor joins neighbouring operations on the same numbers into one loop
    code generation    a Triton kernel for each loop on a GPU, C++ with OpenMP on a CPU

Fused are operations on each number, and sums over rows: bias and GELU; addition, LayerNorm and conversion; softmax and
loss. Matmuls and flash attention stay calls of the library. Code that cannot be traced, such as `print`,
`loss.item()`, or an `if` on a tensor's value, breaks the graph in two. Nothing is fused across a break.)",
      .faster =
          R"(A fused loop reads its inputs once and writes its result once. Bias, GELU and a conversion are three
passes over memory as operations, and one pass as a loop. Fewer kernels are launched, too. The mode `reduce-overhead`
adds CUDA graphs, `max-autotune` times several kernels for each matmul.)",
      .costs =
          R"(The first call: seconds to a minute, for each new shape. Generated code is kept on the disk, so the next
process compiles faster. A saving of d ms per step pays for C seconds of compiling after 1000 C / d steps.)",
      .no_help =
          R"(It gains little where matmuls and attention take nearly all of the time: long contexts, wide models, large
batches. Each new shape compiles anew, breaks cut the graph, and a short run spends more on the first call than it
saves.)",
      .pytorch = R"(model = torch.compile(model)    # mode="reduce-overhead" for CUDA graphs, "max-autotune"
torch._dynamo.explain(model)(x, y)    # lists graph breaks)",
      .proven =
          R"(The peer's record counts what was compiled: one graph, no break, and a compiled region in each step. A
compiled forward pass keeps its autocast types. With CUDA graphs a step is two graph launches. The record has the
seconds of compiling.)",
      .alone = "ladder ablate --with-peer pytorch --peer-modes eager,compile"};
  return text;
}

const std::vector<Claim>& compile_claims() {
  const char* command = "ladder ablate --ladder gpt2 --with-peer pytorch --peer-modes eager,compile";
  static const std::vector<Claim> claims{
      {.claim = "300 -> 130 ms per step, \"57 %\"",
       .source = sources::lecture,
       .note = "There attention was written out, and compiling fuses its softmax; the GPU's figures above are of the "
               "last rung's recipe.",
       .command = command + std::string(" --peer-rung bf16")},
      {.claim = "1.5x to 2x",
       .source = sources::notes,
       .about = Claim::About::step,
       .least = 1.5,
       .most = 2,
       .command = command},
      {.claim = "434 -> 109 kernels in a forward pass",
       .source = sources::notes,
       .about = Claim::About::kernels,
       .least = 434.0 / 109,
       .most = 434.0 / 109,
       .note = "Here of a whole step.",
       .command = command},
      {.claim = "the first call takes 30 to 60 s",
       .source = sources::notes,
       .note =
           "With an empty cache only. The 2.02 s above found code on the disk. First calls on CPUs took 31 to 73 s.",
       .command = std::string("TORCHINDUCTOR_CACHE_DIR=$(mktemp -d) ") + command}};
  return claims;
}

}  // namespace ablations
