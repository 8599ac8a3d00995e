"""How noisy the gradient of a batch is, by its size: the simple noise scale of McCandlish et al. 2018, appendix A.1.

    python noise.py LADDER noise.json      # about 8 minutes on two cores

At a learning rate of 0 the weights stay as they are, so each step logs the norm of another estimate G_B of the same
gradient G, from B sequences at random places: E|G_B|^2 = |G|^2 + tr(S) / B, S the covariance of one sequence's
gradient. A line through the means over 1/B has tr(S) as its slope and |G|^2 at 1/B = 0. At B = tr(S) / |G|^2, the noise
scale, the noise is as long as the gradient. Intervals: 95 %, of 2,000 bootstraps over steps.

Then trainings of as many tokens each, with several batches and rates: which loss each ends at.
"""
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

STEPS = {1: 200, 4: 100, 16: 50, 64: 25}  # at fixed weights, by batch
AFTER = (0, 300)  # steps of training, 16 sequences each, from which the fixed weights are
TOKENS, BATCHES, RATES, SEEDS = 102400, (4, 16, 64), (1e-2, 3e-2), (1, 2)
COMMON = ["--model", "tiny", "-T", 64, "--random-windows", "--threads", 1,
          "--recipe", '{"attention": "flash", "cross_entropy": "fused", "host_memory": "keep", "optimizer": "fused"}']


def line_through(squares: dict[int, list[float]]) -> tuple[float, float]:
    """|G|^2 and tr(S), by least squares; a mean counts by its own scatter."""
    points = [(1 / B, statistics.fmean(of), statistics.variance(of) / len(of)) for B, of in squares.items()]
    weights = [1 / variance for *_, variance in points]
    x, y = (sum(w * point[i] for w, point in zip(weights, points)) / sum(weights) for i in (0, 1))
    slope = (sum(w * (px - x) * (py - y) for w, (px, py, _) in zip(weights, points))
             / sum(w * (px - x) ** 2 for w, (px, *_) in zip(weights, points)))
    return y - slope * x, slope


def estimate(norms: dict[int, list[float]]) -> dict:
    squares = {B: [norm**2 for norm in of] for B, of in norms.items()}
    chance = random.Random(1)
    drawn = [line_through({B: chance.choices(of, k=len(of)) for B, of in squares.items()}) for _ in range(2000)]

    def figure(of) -> dict:
        cuts = statistics.quantiles(map(of, drawn), n=40)
        return {"value": of(line_through(squares)), "lo": cuts[0], "hi": cuts[-1]}

    return {"squared_gradient": figure(lambda line: line[0]), "trace": figure(lambda line: line[1]),
            "noise_scale_sequences": figure(lambda line: line[1] / line[0]),
            "mean_squared_norm": {B: statistics.fmean(of) for B, of in squares.items()}}


def train(ladder: str, *flags) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ladder, "train", *map(str, [*COMMON, *flags]), "--out", f"{folder}/training"], capture_output=True, check=True)
        return [json.loads(line) for line in pathlib.Path(folder, "training", "log.jsonl").read_text().splitlines()]


def at_weights(ladder: str, after: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        weights, rate = f"{folder}/weights.safetensors", 3e-3 if after else 0
        train(ladder, "-B", 16, "--steps", max(after, 1), "--lr", rate, "--min-lr", rate, "--save", weights)
        norms = {B: [step["norm"] for step in train(ladder, "-B", B, "--steps", steps, "--lr", 0, "--weights", weights, "--seed", 2,
                                                    "--validation-share", 0)] for B, steps in STEPS.items()}
    return {"after_steps": after, **estimate(norms), "norms": norms}


def at_equal_tokens(ladder: str, B: int, rate: float) -> dict:
    losses = [train(ladder, "-B", B, "--tokens", TOKENS, "--lr", rate, "--seed", seed, "--validation-batches", max(1, 256 // B))
              [-1]["validation_loss"] for seed in SEEDS]
    return {"batch": B, "rate": rate, "steps": TOKENS // (64 * B), "validation_losses": losses}


def main(ladder: str, out: str) -> None:
    document = {"context": 64, "tokens": TOKENS, "at_fixed_weights": [at_weights(ladder, after) for after in AFTER],
                "at_equal_tokens": [at_equal_tokens(ladder, B, rate) for B in BATCHES for rate in RATES]}
    pathlib.Path(out).write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
