// Claims of techniques that this program does not have yet.
#include "ablations/techniques/techniques.h"

namespace ablations {

const std::vector<Claim>& claims_not_here() {
  static const std::vector<Claim> claims{
      {.claim = "fused kernels: 434 -> 109 kernels in a forward pass, 1.5x to 2x",
       .source = sources::notes,
       .note = "`ladder profile --trace` counts the kernels of a step."},
      {.claim = "text tokenized once, into a file: about 2x over tokenizing in the loop",
       .source = sources::notes,
       .note = "Here every text is tokenized before the first step, and kept in a file."},
      {.claim = "token numbers stored as int16",
       .source = sources::hearsay,
       .wrong = "int16 ends at 32,767, and GPT-2 has 50,257 tokens. uint16 holds them, up to 65,535."},
      {.claim = "the whole file in memory, instead of mapped: about 2x to 3x",
       .source = sources::notes,
       .note = "Here every run holds the whole text's token numbers in memory."},
      {.claim = "64 windows in one gather instead of a loop: 4.8 -> 0.05 ms per batch",
       .source = sources::notes,
       .note = "Here the next batch is made while the GPU computes."},
      {.claim = "all of it together: 1.6 -> 0.1 s per step, 16x",
       .source = sources::notes,
       .note = "No ladder here has these steps yet."}};
  return claims;
}

}  // namespace ablations
