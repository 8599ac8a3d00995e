"""The Trainer of Lightning with a small language model, for `ladder measure`. Needs: pip install torch lightning.

ladder measure 'python lightning_loop.py' '+ --bf16' '+ --fused' '+ --compile'
"""

import argparse
import sys

try:
    import lightning
    import torch
except ImportError as error:
    sys.exit(f"lightning_loop.py: {error}: pip install torch lightning")

BATCH, CONTEXT, VOCABULARY, CHANNELS = 4, 64, 1000, 128


class Model(lightning.LightningModule):
    def __init__(self, fused):
        super().__init__()
        self.fused = fused
        self.embedding = torch.nn.Embedding(VOCABULARY, CHANNELS)
        layer = torch.nn.TransformerEncoderLayer(CHANNELS, 4, 4 * CHANNELS, dropout=0, batch_first=True, norm_first=True)
        self.blocks = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = torch.nn.Linear(CHANNELS, VOCABULARY)

    def training_step(self, tokens, index):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(CONTEXT, device=tokens.device)
        logits = self.head(self.blocks(self.embedding(tokens), mask=mask, is_causal=True))
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        print(f"step {self.global_step} loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=self.fused)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--fused", action="store_true", help="PyTorch's fused AdamW")
    parser.add_argument("--compile", action="store_true", help="torch.compile the blocks")
    parser.add_argument("--steps", type=int, default=1000)
    flags = parser.parse_args()
    torch.manual_seed(1)
    model = Model(flags.fused)
    if flags.compile:
        model.blocks = torch.compile(model.blocks)  # not model.blocks.compile(), which does nothing to a module of torch.nn
    batches = torch.utils.data.DataLoader(torch.randint(0, 20, (256, CONTEXT)), batch_size=BATCH)
    lightning.Trainer(max_steps=flags.steps, devices=1, precision="bf16-mixed" if flags.bf16 else "32-true", logger=False,
                      enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False).fit(model, batches)


if __name__ == "__main__":
    main()
