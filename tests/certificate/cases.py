"""The honest flags and the planted faults of docs/same-training.md, and the trainings that show them.

    python cases.py SEEDS FAULT_SEEDS [NAME...]    one line of JSON for each training: a reference, its perturbed runs, then what is judged
"""

import json
import math
import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "look"))

import torch
import trainings

BITS = {"float32": 22, "tf32": 11, "float16": 11, "bfloat16": 8}  # as study/same_training.h
BOTH = ("transformer", "network")

# name: models, type, options
HONEST = {
    "compile": (BOTH, "float32", {"compile": True}),
    "flash attention": (("transformer",), "float32", {"flash": True}),
    "TF32, emulated": (("transformer",), "tf32", {"tf32": True}),
    "bf16 autocast": (BOTH, "bfloat16", {"bf16": True}),
    "fused AdamW": (BOTH, "float32", {"fused": True}),
    "foreach AdamW": (BOTH, "float32", {"foreach": True}),
    "channels_last": (("network",), "float32", {"channels_last": True}),
    "two micro batches": (("transformer",), "float32", {"accumulation": 2}),
    "checkpointing": (BOTH, "float32", {"checkpointing": True}),
    "two threads": (BOTH, "float32", {"threads": 2}),
    "a loader's worker": (BOTH, "float32", {"loader": 1}),
    "compile and bf16": (BOTH, "bfloat16", {"compile": True, "bf16": True}),
}

# name: model, options of both, options of the faulty one
FAULTS = {
    "frozen layer": ("transformer", {}, {"frozen": "blocks.0.up"}),
    "half a batch": ("transformer", {}, {"half_batch": True}),
    "loss scale missing": ("transformer", {"fp16": True, "loss_scale": 65536.0}, {"fp16": True, "loss_scale": 0}),
    "loss scale not removed": ("transformer", {"loss_scale": 1024.0}, {"not_unscaled": True}),
    "sampled softmax": ("transformer", {}, {"sampled_softmax": True}),
    "dropped accumulation": ("transformer", {"accumulation": 2}, {"dropped_accumulation": True}),
    "micro batch counted twice": ("transformer", {"accumulation": 2}, {"counted_twice": True}),
    "stale input": ("transformer", {}, {"stale": True}),
    "weight decay skipped": ("transformer", {}, {"decay": 0.0}),
    "L2 in place of decay": ("transformer", {}, {"l2": True}),
    "mask off by one": ("transformer", {}, {"mask_diagonal": 1}),
    "padding attended to": ("transformer", {}, {"no_padding_mask": True}),
    "padding in the loss": ("transformer", {}, {"padding_counts": True}),
    "dropout left on": ("transformer", {}, {"dropout": 0.1}),
    "targets off by one": ("transformer", {}, {"off_by_one": True}),
    "norm without its weight": ("transformer", {}, {"norm_without_weight": True}),
    "tied weights untied": ("transformer", {}, {"untied": True}),
    "learning rate of a group doubled": ("transformer", {}, {"lr_of_group": 2}),
    "other betas": ("transformer", {}, {"betas": (0.9, 0.999)}),
    "other epsilon": ("transformer", {}, {"eps": 1e-6}),
    "bias correction skipped": ("transformer", {}, {"no_bias_correction": True}),
    "sum in place of mean": ("transformer", {}, {"sum": True}),
    "label smoothing": ("transformer", {}, {"label_smoothing": 0.1}),
    "gradients clipped": ("transformer", {}, {"clip": 0.5}),
    "clipping missing": ("transformer", {"clip": 0.5}, {"clip": 0}),
    "branch detached": ("transformer", {}, {"detached": True}),
    "residual dropped": ("transformer", {}, {"no_residual": True}),
    "inputs and targets of other rows": ("transformer", {}, {"swapped": True}),
    "evaluation mode left on": ("network", {}, {"eval": True}),
    "other initial weights": ("transformer", {}, {"init_std": 0.049}),
    "bias without gradient": ("transformer", {}, {"no_bias_gradient": "down.bias"}),
    "positions off by one": ("transformer", {}, {"position_offset": 1}),
    "float16 overflows": ("transformer", {"fp16": True, "loss_scale": 1024.0}, {"loss_scale": 1e9}),
    "averaged weights used": ("transformer", {}, {"ema": True}),
    "attention without its scale": ("transformer", {}, {"attention_scale": 4.0}),
    "gradients kept": ("transformer", {}, {"kept_gradients": True}),
    "Nesterov's momentum": ("network", {"sgd": True}, {"nesterov": True}),
    "dampened momentum": ("network", {"sgd": True}, {"dampening": 0.9}),
}

# The same, made after all limits were chosen, on other seeds; they changed none.
HELD_OUT_FAULTS = {
    "one head left out": ("transformer", {}, {"one_head": True}),
    "GELU by tanh": ("transformer", {}, {"gelu": "tanh"}),
    "norm's epsilon of 1e-3": ("transformer", {}, {"norm_eps": 1e-3}),
    "last token without loss": ("transformer", {}, {"last_left_out": True}),
    "embedding scaled": ("transformer", {}, {"embedding_scale": math.sqrt(trainings.WIDTH)}),
    "positions frozen": ("transformer", {}, {"frozen": "positions"}),
    "learning rate 2 % higher": ("transformer", {}, {"lr_of_all": 1.02}),
    "decay of norms and biases": ("transformer", {}, {"decays_all": True}),
    "a row twice": ("transformer", {}, {"row_twice": True}),
    "gradients of a layer halved": ("transformer", {}, {"halved": "blocks.1.up"}),
    "gradients with 10 % noise": ("transformer", {}, {"noise": 0.1}),
    "state carried over": ("recurrent", {}, {"carried": True}),
    "recurrent weights frozen": ("recurrent", {}, {"frozen": "weight_hh"}),
    "outputs backwards": ("recurrent", {}, {"backwards": True}),
    "rate doubled for matrices": ("recurrent", {}, {"lr_of_group": 2}),
}
HELD_OUT_HONEST = {
    "recurrent: bf16 autocast": (("recurrent",), "bfloat16", {"bf16": True}),
    "recurrent: fused AdamW": (("recurrent",), "float32", {"fused": True}),
    "recurrent: two micro batches": (("recurrent",), "float32", {"accumulation": 2}),
    "recurrent: two threads": (("recurrent",), "float32", {"threads": 2}),
}
FIRST_HELD_OUT = 500  # seed


def tell(losses=(), **what):
    losses = [loss if math.isfinite(loss) else None for loss in losses]
    print(json.dumps({"losses": losses, **what}, allow_nan=False), flush=True)


def references(kind, seed, types, **options):
    """A training, and two others with random roundings of each type."""
    losses, sketch = trainings.train(kind, seed, **options)
    tell(group="reference", kind=kind, losses=losses, sketch=sketch)
    for name in types:
        for again in (1, 2):
            tell(group="again", type=name, sketch=trainings.train(kind, seed, 3, (BITS[name], again), **options)[1])


def judge(group, case, number_type, kind, seed, **options):
    losses, sketch = trainings.train(kind, seed, **options)
    graphs = sys.modules["torch._dynamo.utils"].counters["stats"]["unique_graphs"] if options.get("compile") else 1
    assert graphs > 0, "nothing was compiled"
    tell(group=group, case=case, type=number_type, kind=kind, seed=seed, losses=losses, sketch=sketch)


def honest(seeds, names, flags_of_all=None, first=0):
    for kind in trainings.KINDS:
        flags = {name: of for name, of in (flags_of_all or HONEST).items() if kind in of[0] and (not names or name in names)}
        if not flags:
            continue
        for seed in range(first, first + seeds):
            references(kind, seed, sorted({of[1] for of in flags.values()}))
            for name, (_, number_type, options) in flags.items():
                judge("honest", name, number_type, kind, seed, **options)


def faults(seeds, names, planted=None, first=0, group="fault"):
    """Each as it is, and once more where the faulty one also has bf16 autocast."""
    for name, (kind, base, changed) in (planted or FAULTS).items():
        if names and name not in names:
            continue
        of_fp16 = base.get("fp16")
        for seed in range(first, first + seeds):
            references(kind, seed, ["float16"] if of_fp16 else ["float32", "bfloat16"], **base)
            judge(group, name, "float16" if of_fp16 else "float32", kind, seed, **{**base, **changed})
            if not of_fp16:
                judge(group, name, "bfloat16", kind, seed, **{**base, **changed, "bf16": True})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    of_honest, of_faults, *only = sys.argv[1:]
    honest(int(of_honest), only)
    faults(int(of_faults), only)
    honest(int(of_honest), only, HELD_OUT_HONEST, FIRST_HELD_OUT)
    faults(int(of_faults), only, HELD_OUT_FAULTS, FIRST_HELD_OUT, "held out")
