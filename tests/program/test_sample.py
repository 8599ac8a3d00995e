"""`ladder sample` against transformers, and as a user calls it.

Weights are drawn so that a mistake shows: no bias is zero, attention is far from uniform, and blocks and positions add more to the
stream than a token itself, which the tied head would else repeat. Of the 50257 logits the largest must be further from the next than
rounding reaches, or nothing could be said.
"""

import json
import os
import re
import signal

import numpy as np
import pytest
from conftest import HANGS_AFTER_S

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors_torch = pytest.importorskip("safetensors.torch")

POSITIONS = 64
END_OF_TEXT = 50256
PROMPT = "To be, or not to be: that is the naïve 問題 \N{SLIGHTLY SMILING FACE}"
CLEAR = 1e-4  # of logits with a standard deviation of 1: ten times what rounding changes


def configuration(**sizes) -> "transformers.GPT2Config":
    return transformers.GPT2Config(n_positions=POSITIONS, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                   attn_implementation="eager", **sizes)


def random_tensors(config: "transformers.GPT2Config") -> dict[str, "torch.Tensor"]:
    """Weights under Hugging Face's names, without "transformer."; by NumPy, whose generator stays what it is."""
    source = np.random.default_rng(1)
    C = config.n_embd
    shapes = {"wte.weight": (config.vocab_size, C), "wpe.weight": (POSITIONS, C), "ln_f.weight": (C,), "ln_f.bias": (C,)}
    for layer in range(config.n_layer):
        for name, shape in {"ln_1.weight": (C,), "attn.c_attn.weight": (C, 3 * C), "attn.c_attn.bias": (3 * C,),
                            "attn.c_proj.weight": (C, C), "attn.c_proj.bias": (C,), "ln_1.bias": (C,), "ln_2.weight": (C,),
                            "ln_2.bias": (C,), "mlp.c_fc.weight": (C, 4 * C), "mlp.c_fc.bias": (4 * C,),
                            "mlp.c_proj.weight": (4 * C, C), "mlp.c_proj.bias": (C,)}.items():
            shapes[f"h.{layer}.{name}"] = shape
    tensors = {}
    for name, shape in shapes.items():
        std = 0.1 if len(shape) == 1 else C**-0.5 if name.startswith("w") else shape[0] ** -0.5
        std *= 2 if name.endswith("c_proj.weight") or name == "wpe.weight" else 1
        mean = 1.0 if re.search(r"ln_\w+\.weight$", name) else 0.0
        tensors[name] = torch.from_numpy(source.normal(mean, std, shape).astype(np.float32))
    tensors["wte.weight"] /= tensors["wte.weight"].norm(dim=1, keepdim=True)  # else long rows always win
    return tensors


def model_of(config: "transformers.GPT2Config", tensors: dict[str, "torch.Tensor"]) -> "transformers.GPT2LMHeadModel":
    model = transformers.GPT2LMHeadModel(config)
    keys = model.transformer.load_state_dict(tensors, strict=True)
    assert not keys.missing_keys and not keys.unexpected_keys
    return model.eval()


@pytest.fixture
def sample(ladder):
    """sample("--count", "2", ...): what it prints as JSON."""

    def run(*arguments) -> dict:
        done = ladder("sample", "--threads", "1", "--json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What transformers saves of a model of no known sizes, whose heads only config.json says."""
    torch.set_num_threads(1)
    config = configuration(n_layer=3, n_head=4, n_embd=48)
    path = tmp_path_factory.mktemp("model")
    model_of(config, random_tensors(config)).save_pretrained(path)
    return path


def assert_greedy(model: "transformers.GPT2LMHeadModel", prompt: list[int], ours: list[int]) -> None:
    """As long as all positions are enough by generate, and then token by token from the last half of them on."""
    assert len(set(ours)) > len(ours) // 4, "a text that repeats itself tests little"
    with torch.no_grad():
        length = min(POSITIONS, len(prompt) + len(ours))
        begun = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
                               max_length=length, pad_token_id=0)[0].tolist()
        assert begun == (prompt + ours)[:length]
        text, seen_from = list(prompt), 0
        for token in ours:
            if len(text) - seen_from > POSITIONS:
                seen_from = len(text) - POSITIONS // 2
            logits = model(torch.tensor([text[seen_from:]])).logits[0, -1]
            first, second = logits.topk(2).values.tolist()
            assert first - second > CLEAR, f"rounding may decide token {len(text)}: other weights are needed"
            assert logits.argmax().item() == token, len(text)
            text.append(token)


def test_greedy_text_is_that_of_transformers(sample, folder, tmp_path) -> None:
    model = transformers.GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()
    greedy = ["--temperature", "0", "--tokens", "100", "--prompt", PROMPT]
    from_hugging_face = sample("--weights", folder, *greedy)
    [text] = from_hugging_face["samples"]
    assert from_hugging_face["prompt"] == PROMPT and len(text["tokens"]) == 100 and text["end"] == "tokens"
    assert_greedy(model, from_hugging_face["prompt_tokens"], text["tokens"])

    begins = sample("--weights", folder / "model.safetensors", *greedy[:2], "--tokens", "5", "--prompt", "")
    assert begins["prompt_tokens"] == []
    assert_greedy(model, [END_OF_TEXT], begins["samples"][0]["tokens"])

    # OpenAI's weights on the hub: no prefix, mask buffers in each layer. Others have the tied head, too.
    tensors = random_tensors(model.config)
    for layer in range(model.config.n_layer):
        tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, POSITIONS, POSITIONS).tril()
        tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    safetensors_torch.save_file(tensors, tmp_path / "openai.safetensors")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    assert sample("--weights", tmp_path / "openai.safetensors", *greedy) == from_hugging_face


def test_a_prompt_may_begin_a_document(ladder, sample, folder) -> None:
    arguments = ["--weights", folder, "--tokens", "1", "--prompt", "<|endoftext|>hello"]
    assert sample(*arguments, "--end-of-text")["prompt_tokens"] == [END_OF_TEXT, 31373]
    assert len(sample(*arguments)["prompt_tokens"]) == 8
    assert "--prompt has <|endoftext|> 1 time, read as ordinary text; --end-of-text makes" in ladder("sample", *arguments).stderr


def test_what_transformers_reads_under_other_names(sample, folder, tmp_path) -> None:
    """A wrapped model whose tied tensor has its other name, and a table with more rows."""
    model = transformers.GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()
    model.resize_token_embeddings(50304, mean_resizing=False)
    with torch.no_grad():
        model.transformer.wte.weight[50257:] = 0
    model.config.save_pretrained(tmp_path)
    tensors = {f"module._orig_mod.{name}": tensor.contiguous() for name, tensor in model.state_dict().items() if "wte" not in name}
    safetensors_torch.save_file(tensors, tmp_path / "model.safetensors")
    greedy = ["--temperature", "0", "--tokens", "20", "--prompt", PROMPT]
    assert sample("--weights", tmp_path, *greedy) == sample("--weights", folder, *greedy)


def test_what_a_training_saves_loads_in_transformers(ladder, sample, tmp_path) -> None:
    config = configuration(n_layer=2, n_head=2, n_embd=32)
    weights = tmp_path / "model.safetensors"
    safetensors_torch.save_file(random_tensors(config), tmp_path / "start.safetensors")
    done = ladder("train", "--model", "tiny", "-T", "32", "--steps", "3", "--threads", "1", "--weights", tmp_path / "start.safetensors",
                  "--save", weights)
    assert done.returncode == 0, done.stderr
    ours = sample("--weights", weights, "--temperature", "0", "--tokens", "40", "--prompt", PROMPT)
    config.save_pretrained(tmp_path)
    model, how = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, attn_implementation="eager", output_loading_info=True)
    assert not how["missing_keys"] and not how["unexpected_keys"] and not how["mismatched_keys"]
    assert not torch.equal(model.transformer.wpe.weight[0], random_tensors(config)["wpe.weight"][0])  # trained
    assert_greedy(model.eval(), ours["prompt_tokens"], ours["samples"][0]["tokens"])


def letters(text: str) -> str:
    """All that is shown as it is: a byte of no character is \\xNN on a terminal and U+FFFD in JSON."""
    return re.sub(r"\\x[0-9a-f]{2}|\\u\{[0-9a-f]+\}|\W", "", text)


def test_texts_as_they_are_shown(ladder, sample, folder) -> None:
    arguments = ["--weights", folder / "model.safetensors", "--tokens", "12", "--prompt", PROMPT, "--top-k", "50", "--top-p", "0.9"]
    both = sample(*arguments, "--seed", "5", "--count", "2")["samples"]
    assert [text["seed"] for text in both] == [5, 6] and both[0]["tokens"] != both[1]["tokens"]
    assert sample(*arguments, "--seed", "6")["samples"] == both[1:]

    shown = ladder("sample", "--threads", "1", *arguments, "--seed", "5", "--count", "2")
    assert shown.returncode == 0 and shown.stderr == ""
    first, second = re.fullmatch(r"--- seed 5\n(.*)\n--- seed 6\n(.*)\n", shown.stdout, re.S).groups()
    for text, in_json in ((first, both[0]["text"]), (second, both[1]["text"])):
        assert text.startswith(PROMPT)
        assert letters(text) == letters(PROMPT + in_json) and len(letters(in_json)) > 10


def test_what_cannot_be_written_is_refused(ladder, folder, tmp_path) -> None:
    bad = tmp_path / "bad"
    config = configuration(n_layer=1, n_head=4, n_embd=48)
    model_of(config, random_tensors(config) | {"ln_f.bias": torch.full((48,), np.nan)}).save_pretrained(bad)
    for arguments, says in (([bad], "the weights give logits that are not finite"),
                            ([folder, "--prompt", "word " * 65], r"--prompt must have at most 64 tokens, the positions of the model, got 6\d"),
                            ([folder, "--prompt", os.fsdecode(b"caf\xe9")], "--prompt: invalid UTF-8 at byte 3; text must be UTF-8"),
                            ([folder, "--count", "2", "--temperature", "0"], "--count must be 1 with --temperature 0, .*, got 2")):
        done = ladder("sample", "--tokens", "5", "--weights", *arguments)
        assert (done.returncode, done.stdout) == (2, "") and re.search(says, done.stderr) and done.stderr.count("\n") == 1, done.stderr
    done = ladder("sample", "--weights", folder, variables={"XDG_CACHE_HOME": "/nonexistent"})
    assert done.returncode == 2 and "gpt2.tiktoken): `make data` fetches it, or name yours with --vocab" in done.stderr, done.stderr


def test_a_text_that_is_interrupted(start, folder) -> None:
    process = start("sample", "--weights", folder / "model.safetensors", "--prompt", "Once", "--tokens", "1000000", "--ignore-eos", "--threads", "1")
    assert process.stdout.read(4) == "Once"  # while it goes on
    process.send_signal(signal.SIGINT)
    shown, said = process.communicate(timeout=HANGS_AFTER_S)
    assert process.returncode == 130 and shown.endswith("\n")
    assert said == "note: the model has 64 positions; whenever they are full, it continues from the last 32 tokens\n"
