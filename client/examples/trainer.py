"""The Trainer of transformers with a small GPT-2 with random weights, for `ladder measure`. Needs: pip install torch transformers accelerate.

ladder measure 'python trainer.py --out {run}' '+ --bf16' '+ --fused' '+ --compile'
"""

import argparse
import sys
import tempfile

try:
    import accelerate  # noqa: F401  (Trainer needs it)
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
except ImportError as error:
    sys.exit(f"trainer.py: {error}: pip install torch transformers accelerate")

BATCH, CONTEXT, VOCABULARY = 4, 64, 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--fused", action="store_true", help="PyTorch's fused AdamW")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--out", help="an empty folder")
    flags = parser.parse_args()

    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=128, n_layer=4, n_head=4, use_cache=False,
                                       resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0,
                                       eos_token_id=0))
    # Twenty of the tokens, so that there is something to learn.
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 20, (256, CONTEXT))]
    with tempfile.TemporaryDirectory() as folder:
        Trainer(model=model, train_dataset=rows, args=TrainingArguments(
            output_dir=flags.out or folder, per_device_train_batch_size=BATCH, max_steps=flags.steps, learning_rate=1e-3, logging_steps=1,
            save_strategy="no", report_to=[], disable_tqdm=True, seed=1, bf16=flags.bf16, torch_compile=flags.compile,
            use_cpu=not torch.cuda.is_available(), optim="adamw_torch_fused" if flags.fused else "adamw_torch")).train()


if __name__ == "__main__":
    main()
