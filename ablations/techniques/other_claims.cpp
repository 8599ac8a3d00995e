// Claims about no single technique, and figures that arithmetic contradicts.
#include "ablations/techniques/techniques.h"

namespace ablations {

const std::vector<Claim>& other_claims() {
  static const std::vector<Claim> claims{
      {.claim = "all of it together: 1000 -> 90 ms per step",
       .source = sources::lecture,
       .about = Claim::About::ladder,
       .least = 1000.0 / 90,
       .most = 1000.0 / 90,
       .note = "Up to fused AdamW, where the lecture's ends; in that torch.compile is a rung, too.",
       .command = "ladder ablate --ladder gpt2",
       .until = "fused_adamw"},
      {.claim = "all of it together: 1.6 s -> 0.225 s, and with flash attention 0.1 s per step, 16x",
       .source = sources::notes,
       .note = "No ladder here has all of these steps: `data-pipeline` has those of the input, `gpt2-fp16` the others.",
       .command = ""},
      {.claim = "memory of 4, 6, 10 and 18 GB at B = 16, 32, 64 and 128",
       .source = sources::notes,
       .note = "It is counted, and a run measures it.",
       .command = "ladder doctor --ladder gpt2 --plan flash -B 64 -T 512 --memory 80GiB"},
      {.claim = "a GPU is 5 % busy at B=1, and 90 % at B=64",
       .source = sources::notes,
       .note = "And again with `-B 64`.",
       .command = "ladder profile --trace --ladder gpt2 --rung bf16 -B 1"},
      {.claim = "accumulation keeps memory at 10 GB, whatever the effective batch; without it B=256 does not fit",
       .source = sources::notes,
       .note = "B=256 has been tried nowhere. On a CPU accumulation does not keep memory: the second micro-step takes "
               "0.6 GiB more, further ones nothing.",
       .command = "ladder ablate --ladder gpt2 --sweep accumulation=1,2,4 --rung flash"},
      {.claim = "without warm-up a training ends in NaN",
       .source = sources::notes,
       .note = "On a CPU no rate from 1e-5 to 0.1 did, with 18 million parameters; the best ended 0.09 nats higher.",
       .command = "ladder train -B 16 -T 1024 --steps 60 --lr-sweep 1e-5:1e-1:9 --warmup-steps 0 --out sweep"}};
  return claims;
}

const std::vector<Claim>& contradicted_claims() {
  static const std::vector<Claim> claims{
      {.claim = "a layer's output of 64 x 512 x 768 numbers: 25 MB",
       .source = sources::notes,
       .wrong = "They are 25 million numbers: 50 MB in 16 bits, 101 MB in float32."},
      {.claim = "attention's scores: about 50 MB in a layer",
       .source = sources::notes,
       .wrong = "64 x 12 heads x 512 x 512 numbers are 403 MB in 16 bits."},
      {.claim = "activations of 1 GB, and elsewhere of 8 GB",
       .source = sources::notes,
       .wrong = "12 layers of the two lines above are 5.4 GB already."},
      {.claim = "scaled_dot_product_attention with attn_mask and is_causal",
       .source = sources::notes,
       .wrong = "PyTorch raises an error: one of the two only."},
      {.claim = "`wte.weights = lm_head.weight` ties the two",
       .source = {"somebody's notes"},
       .wrong = "The attribute is `weight`: that line makes a new one, and ties nothing."},
      {.claim = "accumulation: N forward passes, then one backward pass",
       .source = sources::lecture_notes,
       .wrong = "That keeps the activations of all N. Each backward pass must follow its forward pass."},
      {.claim = "torch.cuda.synchronize reduces the GPU's load",
       .source = sources::lecture_notes,
       .wrong = "It makes the host wait, and nothing faster. It makes a clock tell the truth."}};
  return claims;
}

}  // namespace ablations
