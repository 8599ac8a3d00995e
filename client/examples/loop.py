"""A plain PyTorch loop over a small GPT-2 of transformers with random weights, for `ladder measure`. Needs: pip install torch transformers.

ladder measure 'python loop.py' '+ --bf16' '+ --fused' '+ --compile'
"""

import argparse
import contextlib
import sys

try:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError as error:
    sys.exit(f"loop.py: {error}: pip install torch transformers")

BATCH, CONTEXT, VOCABULARY = 4, 64, 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--fused", action="store_true", help="PyTorch's fused AdamW")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--steps", type=int, default=1000)
    flags = parser.parse_args()

    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=128, n_layer=4, n_head=4, use_cache=False,
                                       resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0,
                                       eos_token_id=0)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=flags.fused)
    forward = torch.compile(model) if flags.compile else model
    precision = torch.autocast(device, torch.bfloat16) if flags.bf16 else contextlib.nullcontext()
    for step in range(flags.steps):
        # Twenty of the tokens, so that there is something to learn.
        tokens = torch.randint(0, 20, (BATCH, CONTEXT)).to(device)
        with precision:
            loss = forward(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
