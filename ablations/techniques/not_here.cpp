// Claims of techniques that this program does not have yet.
#include "ablations/techniques/techniques.h"

namespace ablations {

const std::vector<Claim>& claims_not_here() {
  static const std::vector<Claim> claims{
      {.claim = "fused kernels: 434 -> 109 kernels in a forward pass, 1.5x to 2x",
       .source = sources::notes,
       .note = "`ladder profile --trace` counts the kernels of a step."},
      {.claim = "token numbers stored as int16",
       .source = sources::hearsay,
       .wrong = "int16 ends at 32,767, and GPT-2 has 50,257 tokens. uint16 holds them, up to 65,535."},
      {.claim = "all of it together: 1.6 s -> 0.225 s, and with flash attention 0.1 s per step, 16x",
       .source = sources::notes,
       .note =
           "No ladder here has all of these steps: `data-pipeline` has those of the input, `gpt2-fp16` the others."}};
  return claims;
}

}  // namespace ablations
