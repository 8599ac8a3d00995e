// torch.compile: what PyTorch does of itself where a ladder has graph capture and fused operations. It runs as a peer.
#include "ablations/techniques/techniques.h"

namespace ablations {

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
