"""Input that cannot be used is refused at once: exit status 2, one line that names it and says what is allowed, nothing on standard
output, nothing created and nothing overwritten.

There is a case for each kind of input and each command that reads it, and for what only the command line refuses. The tests of the
readers have the details (ladder_test.cpp, plan_test.cpp, modes_test.cpp, recipe_test.cpp, data_test.cpp, ...). Every case names words
that its line must have, so that the reason of the refusal is tested, too.
"""

import contextlib
import json
import os
import pathlib
import re
import struct
import subprocess

import numpy as np
import pytest
from conftest import ROOT, ladder_document, snapshot, write_json

HINT = re.compile(r"Try 'ladder( \w+)? --help'\.")

ABLATE = ["ablate", "--ladder", "tiny", "--out", "study"]
RUN = ["run", "--model", "tiny", "-T", "16", "--steps", "1", "--warmup", "0", "--out", "record.json"]
TRAIN = ["train", "--model", "tiny", "-T", "16", "--steps", "1", "--save", "saved.safetensors"]
LADDERS = ", ".join(sorted(file.stem for file in (ROOT / "ladders").glob("*.json")))
TOKENIZE = ["tokenize", "--out", "tokens.bin"]
SAMPLE = ["sample", "--tokens", "5", "--weights", "tiny.safetensors"]
PROFILE = ["profile", "--trace", "--out", "profile"]


def token_file(tokens: list[int]) -> bytes:
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(tokens)
    return header.tobytes() + np.array(tokens, "<u2").tobytes()


def safetensors_file(tensors: dict[str, np.ndarray]) -> bytes:
    header, data = {}, b""
    for name, array in tensors.items():
        array = array.astype("<f4")
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tiny_weights(**other: np.ndarray) -> dict[str, np.ndarray]:
    """Those of model tiny, all 0."""
    tensors = {"wte": np.zeros((50257, 32)), "wpe": np.zeros((64, 32)), "ln_f": np.zeros(32)}
    for layer in range(2):
        tensors |= {f"h.{layer}.{name}": np.zeros(shape) for name, shape in {
            "ln_1": 32, "attn.c_attn": (32, 96), "attn.c_proj": (32, 32), "ln_2": 32, "mlp.c_fc": (32, 128), "mlp.c_proj": (128, 32)}.items()}
    biases = {f"{name}.bias": np.zeros(array.shape[-1]) for name, array in tensors.items() if name not in ("wte", "wpe")}
    return {f"{name}.weight": array for name, array in tensors.items()} | biases | other


def plan_document(**workload) -> dict:
    rung = {"optimization": None, "title": "float32", "applied": [], "status": "planned", "reason": "", "recipe": {}}
    return {"kind": "plan", "schema_version": 1, "id": "small-1", "created": "2026-11-21T11:05:00Z",
            "ladder": {"name": "small", "title": "Small"},
            "workload": {"model": "tiny", "batch": 1, "context": 16, "accumulation": 1, "seed": 1, "threads": 1,
                         "data": "good.bin", "vocabulary": "none.tiktoken", **workload},
            "warmup_steps": 0, "timed_steps": 1, "repeats": 1, "order_seed": 1, "run_limit_s": 60, "mode": "cumulative", "reference": 0,
            "rungs": [rung], "runs": [{"id": "r1-00-start", "rung": 0, "repeat": 0}]}


GARBAGE = bytes(range(256)) * 40
FILES = {
    "good.txt": b"A text that is long enough. " * 20,
    "good.bin": token_file([7] * 100),
    "good.json": ladder_document(),
    "garbage.json": GARBAGE,
    "garbage.tiktoken": GARBAGE,
    "invalid.txt": b"valid, then \xff\xfe not " * 100,
    "short.txt": b"Too short for a batch.",
    "id.bin": token_file([7] * 99 + [50257]),
    "cut.bin": token_file([7] * 100)[:-6],
    "shape.safetensors": safetensors_file({"transformer.wte.weight": np.zeros((3, 4), np.float32)}),
    "tiny.safetensors": safetensors_file(tiny_weights()),
    "nan.safetensors": safetensors_file(tiny_weights(**{"ln_f.bias": np.full(32, np.nan)})),
    "lfs.safetensors": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 548105171\n",
    "pytorch_model.bin": b"PK\3\4 and pickles",
    "book.txt.gz": b"\x1f\x8b\x08\0\0\0\0\0\0\3",
    "shard.npy": b"\x93NUMPY\1\0\x76\0{'descr': '<u2'",
    "other/config.json": {"n_head": 8},
    "other/model.safetensors": safetensors_file(tiny_weights()),
    "start-cuda.json": ladder_document(start={"device": "cuda"}, rungs=[]),
    "start-rows.json": ladder_document(start={"vocabulary_rows": 50256}, rungs=[]),
    "plans/garbage/plan.json": GARBAGE,
    "plans/batch/plan.json": plan_document(batch=1000),
    "plans/context/plan.json": plan_document(context=65),
    "plans/data/plan.json": plan_document(data="gone.bin"),
    "plans/model/plan.json": plan_document(model="gpt3"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> pathlib.Path:
    """The folder in which all cases run, with all files that they name."""
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            write_json(folder / name, content)
        else:
            (folder / name).write_bytes(content)
    (folder / "nothing-here").mkdir()
    return folder


@pytest.fixture
def assert_refused(ladder, files, environment):
    def check(arguments: list, says: str, status: int = 2, **options) -> None:
        cache = pathlib.Path(environment["XDG_CACHE_HOME"]) / "gpt2-ladder"
        before = snapshot(files), [path for path in cache.rglob("*.tmp")]
        done = ladder(*arguments, cwd=files, **options)
        lines = done.stderr.splitlines()
        assert done.returncode == status, done.stderr
        assert lines and lines[0].startswith("ladder: ") and len(lines) <= 2 and all(HINT.fullmatch(line) for line in lines[1:]), done.stderr
        assert re.search(says, lines[0]), f"{lines[0]!r} does not say {says!r}"
        assert not re.search(r"terminate|what\(\)|frame #|Traceback|parse_error\.|type_error\.", done.stderr)
        assert lines[0].isprintable() and len(lines[0]) < 600, lines[0]
        assert done.stdout == ""
        assert (snapshot(files), [path for path in cache.rglob("*.tmp")]) == before, "something was created or changed"

    return check


def named(cases: list) -> list:
    """Cases by their command and last two words."""
    return [pytest.param(words, says, id=ascii(" ".join([*words[:1], *words[-2:]]))[1:50]) for words, says in cases]


REFUSED = [
    # Ladders.
    (["ablate", "--ladder", "garbage.json", "--out", "study"], "garbage.json: not valid JSON"),
    (["gate", "--calibrate", "--ladder", "garbage.json", "--out", "gate"], "garbage.json: not valid JSON"),
    (["ablate", "--ladder", "start-cuda.json", "--out", "study"], "no rung applies on this machine"),
    (["ablate", "--ladder", "start-rows.json", "--out", "study"], "vocabulary_rows must be at least 50257, got 50256"),
    # Recipes.
    ([*RUN, "--recipe", "garbage.json"], "garbage.json: not valid JSON"),
    ([*RUN, "--recipe", "{"], "--recipe: not valid JSON"),
    ([*RUN, "--recipe", '{"host_memory": "keep"}'], "--warmup must be at least 1 with host_memory keep, got 0"),
    ([*RUN, "--recipe", '{"attention": "cudnn"}'], "attention cudnn needs device cuda; a CPU has manual, math, flash"),
    # Plans.
    (["ablate", "--resume", "--out", "plans/garbage"], "plans/garbage/plan.json: not valid JSON"),
    (["ablate", "--resume", "--out", "plans/context"], "--context must be between 1 and 64, got 65; tiny has 64 positions"),
    (["ablate", "--resume", "--out", "plans/data"], "gone.bin: No such file"),
    (["ablate", "--resume", "--out", "plans/model"], 'unknown model "gpt3"'),
    (["gate", "--resume", "--out", "plans/garbage"], "plans/garbage/plan.json: not valid JSON"),
    (["run", "--plan", "good.json", "--run", "r1-00-start"], 'good.json: not a plan: "kind" is "ladder"'),
    (["run", "--plan", "plans/batch/plan.json", "--run", "r9"], 'no run "r9"'),
    (["run", "--plan", "plans/batch/plan.json", "--run", "r1-00-start"], "a batch of 1000 x 16"),
    # Texts, token files, vocabularies and weights.
    ([*ABLATE, "--data", "invalid.txt"], "invalid.txt: invalid UTF-8 at byte 12"),
    ([*RUN, "--data", "missing.txt"], "missing.txt: No such file"),
    ([*TRAIN, "--data", "short.txt"], r"short.txt: \d tokens; a batch of \d x 16"),
    ([*TOKENIZE, "--data", "."], "is a folder, not a file"),
    ([*TOKENIZE, "--data", "good.bin"], "good.bin: is a token file, not a UTF-8 text"),
    ([*RUN, "--data", "book.txt.gz"], "book.txt.gz: is compressed by gzip, not a UTF-8 text: unpack it first"),
    ([*TRAIN, "--data", "shard.npy"], "shard.npy: is a NumPy array, not a UTF-8 text: a token file is 256 int32 .20240520, 1, "),
    ([*TRAIN, "--data", "good.bin", "--end-of-text"], "--end-of-text: needs a text, and .*good.bin is a token file"),
    (["sample", "--weights", "lfs.safetensors"], "lfs.safetensors: is a Git LFS pointer, not a safetensors file"),
    ([*TRAIN, "--weights", "pytorch_model.bin"], "pytorch_model.bin: is a zip archive, as torch.save writes it, not a safetensors file: save_pretrained"),
    (["sample", "--weights", "nothing-here"], "nothing-here: is a folder without model.safetensors"),
    # What config.json says of weights.
    ([*TRAIN, "--weights", "other/model.safetensors"], r'other/config.json: "n_head" must be 2, got 8'),
    # Standard output is no place for these.
    (["ablate", "--out", "-"], r"--out: standard output \(-\) cannot be used here; name a place"),
    ([*RUN[:-1], "-"], r"--out: standard output \(-\) cannot be used here; --json prints the record"),
    ([*TRAIN[:-1], "-"], r"--save: standard output \(-\) cannot be used here"),
    (["train", "--out", "-"], r"--out: standard output \(-\) cannot be used here"),
    (["report", "good.json", "--out", "-"], r"--out: standard output \(-\) cannot be used here"),
    (["tokenize", "--data", "good.txt", "--out", "./good.txt"], "--out ./good.txt: is the file that --data names"),
    (["run", "--from", "good.json", "--out", "good.json"], "--out good.json: is the file that --from names"),
    ([*ABLATE, "--data", "id.bin"], "id.bin: tokens must be between 0 and 50256, got 50257 at position 99"),
    ([*ABLATE, "--data", "good.txt", "--vocab", "garbage.tiktoken"], "garbage.tiktoken: line 1: a line must be"),
    ([*TOKENIZE, "--data", "good.txt", "--vocab", "missing.tiktoken"], "missing.tiktoken: No such file"),
    ([*TRAIN, "--weights", "shape.safetensors"], 'shape.safetensors: not GPT-2\'s weights: tensor "wpe.weight" is missing'),
    # Trainings.
    ([*TRAIN, "--data", "cut.bin"], "cut.bin: the header promises 100 tokens of 2 bytes, but 194 bytes follow it"),
    ([*TRAIN, "--data", "good.bin"], r"good.bin: its last 10 tokens, for validation .--validation-share 0.1.: 10 tokens; a batch of 1 x 16 needs"),
    ([*TRAIN, "--data", "good.bin", "--validation-share", "0", "--validation-every", "1"], "--validation-every: there is no text for validation"),
    ([*TRAIN[:-4], "--save", "x"], "one of --steps, --tokens and --epochs must say how long to train, got none"),
    ([*TRAIN, "--epochs", "1"], "one of --steps, --tokens and --epochs must say how long to train, got 2"),
    ([*TRAIN, "--batch-tokens", "100"], "--batch-tokens must be a multiple of batch x context, 1 x 16 = 16, got 100; 96 or 112 would do"),
    ([*TRAIN, "--lr", "fast"], "--lr must be a number from 0 on, got fast"),
    ([*TRAIN, "--lr", "1e-4", "--min-lr", "2e-4"], r"--min-lr must be at most the learning rate 0.0001 \(--lr\), got 0.0002"),
    ([*TRAIN, "--warmup-steps", "5"], r"--warmup-steps must be at most --decay-steps, 1, got 5"),
    ([*TRAIN, "--out", "."], r"is not empty \(.* is in it\); a training needs a new or an empty folder"),
    ([*TRAIN[:-2], "--lr-sweep", "1e-3:1:3"], "--lr-sweep: each training must have between 8 and 10000 steps .*, got 1"),
    ([*TRAIN, "--lr-sweep", "1e-3:1:3"], "--lr-sweep cannot be combined with --save$"),
    ([*TRAIN, "--recipe", '{"batches": "mapped"}'], "recipe: batches must be preloaded, gather or prefetched to train, .*, got mapped"),
    ([*TRAIN[:-2], "--out", "new", "--save", "new/weights"], "--save new/weights: must lie outside --out"),
    (["train", "--resume"], "--resume needs --out, the folder of the training"),
    (["train", "--resume", "--out", "nothing-here"], r"nothing-here: holds no training \(no training.json\)"),
    (["train", "--resume", "--out", "nothing-here", "--seed", "2"], "--seed would change the training that --resume continues"),
    # What a text is to be written with.
    (["sample"], "--weights is required$"),
    (["sample", "--weights", "nan.safetensors", "--tokens", "5"], "the weights give logits that are not finite"),
    ([*SAMPLE, "--prompt", "word " * 65], r"--prompt must have at most 64 tokens, the positions of the model, got 6\d"),
    ([*SAMPLE, "--prompt", os.fsdecode(b"caf\xe9")], "--prompt: invalid UTF-8 at byte 3; text must be UTF-8"),
    ([*SAMPLE, "--count", "2", "--temperature", "0"], "--count must be 1 with --temperature 0, .*, got 2"),
    # Folders of studies.
    (["report", "good.txt"], "good.txt"),
    (["report", "nowhere"], "nowhere: no such file or folder"),
    (["report", "nothing-here", "--out", "drawn"], "nothing-here: holds no study"),
    (["verify", "nowhere"], "nowhere: no such file or folder"),
    (["ablate", "--resume", "--out", "nothing-here"], "nothing-here: holds no study"),
    (["ablate", "--resume", "--out", "good.txt"], "good.txt"),
    # Words.
    (["--verbose"], 'there is no flag "--verbose"$'),
    (["abalte", "--repeats", "2"], r'there is no command "abalte"; did you mean ablate\?'),
    ([*ABLATE, "--repaets", "2"], 'there is no flag "--repaets"$'),
    (["ablate", "gpt2"], 'ablate takes no argument "gpt2"$'),
    ([*TRAIN, "--recipe", "flash"], '--recipe flash: is neither a file nor JSON; did you mean --recipe \'{"attention":"flash"}\'[?]$'),
    ([*TRAIN, "--recipe", "{autocast:bf16}"], 'is neither a file nor JSON; did you mean --recipe \'{"autocast": "bf16"}\'[?]$'),
    (["compare", "one"], "head is required$"),
    (["help", "nothing"], "no command and no optimization \"nothing\"; `ladder help` lists the commands; optimizations are gpu, "),
    (["measure", "--for-s", "2m", "true"], "--for-s must be a whole number of seconds between 1 and 1000000, got 2m$"),
    (["gate", "--base", "a", "--for-s", "100", "--", "true"], "--for-s needs --catch$"),
    ([*ABLATE, "--rung", "flash"], "--rung needs --sweep or --to-loss; to measure some rungs only: --sweep batch=N --rung A,B$"),
    ([*ABLATE, "--steps"], "--steps: 1 required N missing$"),
    ([*ABLATE, "--out", "twice"], "--out: .*At Most 1 required but received 2$"),
    ([*ABLATE, "--mode", ""], "--mode must not be empty"),
    ([*ABLATE, "--data", os.fsdecode(b"caf\xe9.txt")], r'--data: "caf\\xe9.txt" is not UTF-8'),
    (["ablate", "--ladder", "gpt9", "--out", "study"], f"--ladder gpt9: no such ladder; did you mean gpt2[?] There are {LADDERS}"),
    ([*ABLATE, "--mode", "both"], "--mode must be one of cumulative, leave-one-out, one-at-a-time, factorial, sweep, got both$"),
    ([*ABLATE, "--sweep", "batch=1,2", "--rung", "bf16,,flash"], "--rung bf16,,flash: must be a list such as a,b,c, without empty items$"),
    ([*ABLATE, "--with-peer", "pytorch", "--peer-rung", "flash", "--peer-rung", ""], "--peer-rung must not be empty"),
    (["gate", "--rung", "flash,flash"], "--rung flash,flash: flash is given twice$"),
    # Flags that exclude each other.
    ([*ABLATE, "--sweep", "batch=1,2", "--batch", "3"], "--batch cannot be combined with --sweep batch=..."),
    ([*ABLATE, "--explain", "--mode", "leave-one-out"], "--explain: needs --mode cumulative"),
    (["ablate", "--resume"], "--resume needs --out"),
    (["ablate", "--resume", "--out", "plans/data", "--json", "--seed", "2"],
     "--seed would change the study that --resume continues; with --resume only --out, --json, --budget-s, --explain, --wait, --quick, --dry-run can"),
    ([*ABLATE, "--quick", "--repeats", "3"], "--quick cannot be combined with --repeats$"),
    ([*RUN, "--ladder", "tiny"], "--ladder needs --rung$"),
    ([*RUN, "--rung", "start", "--recipe", "{}"], "--recipe cannot be combined with --rung$"),
    ([*RUN, "--run", "r1-00-start"], "--plan"),
    (["run", "--plan", "plans/batch/plan.json"], "--run"),
    (["run", "--plan", "plans/batch/plan.json", "--run", "r1-00-start", "--steps", "3"], "--plan"),
    (["doctor", "--peaks=3"], "--peaks was given a disallowed flag override"),
    (["doctor", "--batch", "3"], "--plan"),
    ([*ABLATE, "--threads", "4096"], r"--threads must be between 1 and \d+, the cores that this process may use, got 4096"),
    ([*PROFILE, "--ladder", "tiny"], "--ladder: needs --rung or --diff"),
    (["profile", "--diff", "a.trace.json", "b.trace.json", "--out", "x"], "--out: cannot be combined with two files of --diff"),
    ([*ABLATE, "--seed", "-1"], "--seed must be a whole number between 0 and 9223372036854775807, got -1$"),
    # Numbers that do not fit each other, the model or the text.
    ([*ABLATE, "-B", "65537"], "--batch must be a whole number between 1 and 65536, got 65537"),
    ([*ABLATE, "-T", "65", "--positions", "10"], "--context must be between 1 and 64, got 65; tiny has 64 positions, --positions gives it more"),
]


@pytest.mark.parametrize("arguments, says", named(REFUSED))
def test_what_cannot_be_used(assert_refused, arguments, says) -> None:
    assert_refused(arguments, says)


def test_a_vocabulary_that_was_not_fetched(assert_refused) -> None:
    assert_refused(SAMPLE, r"the vocabulary is missing \(.*gpt2.tiktoken\): `make data` fetches it, or name yours with --vocab",
                   variables={"XDG_CACHE_HOME": "/nonexistent"})


@pytest.mark.parametrize("arguments, says", named([
    ([*ABLATE, "--sweep", "batch=1", "--rung", "gpu"], "--rung gpu: not applicable here: no CUDA device"),
    ([*RUN, "--ladder", "tiny", "--rung", "gpu"], "--rung gpu: not applicable here: no CUDA device"),
    ([*RUN, "--recipe", '{"device": "cuda"}'], "device cuda is not available here: no CUDA device"),
    ([*TRAIN, "--recipe", '{"device": "cuda"}'], "device cuda is not available here"),
    # A ladder for another machine. It would take hours, and more memory than most machines have.
    (["ablate", "--ladder", "gpt2", "--limit-s", "1", "--out", "study"],
     "ladder gpt2 needs a GPU: no CUDA device .*; this machine's ladder is gpt2-cpu: ladder ablate --ladder gpt2-cpu; "
     "--force starts anyway"),
]))
def test_what_this_machine_cannot_do(assert_refused, arguments, says) -> None:
    assert_refused(arguments, says, status=3)


# With so many steps the test would run into its limit, unless the refusal comes before the work.
WRITERS = {
    "ablate": ["ablate", "--ladder", "tiny", "--out"],
    "run": ["run", "--model", "tiny", "-T", "16", "--steps", "100000", "--out"],
    "train": ["train", "--model", "tiny", "-T", "16", "--steps", "100000", "--save"],
    "tokenize": ["tokenize", "--data", "good.txt", "--out"],
}


@pytest.mark.parametrize("command, target, says", [
    ("ablate", "good.txt", "good.txt"),
    ("ablate", "good.txt/x", "good.txt"),
    ("ablate", "/proc/nowhere/x", "/proc/nowhere"),
    ("ablate", "/dev/full/x", "/dev/full"),
    ("run", "good.txt/x", "good.txt cannot be written"),
    ("run", "/proc/nowhere/x", "/proc/nowhere cannot be written"),
    ("train", "nothing-here/absent/x", "nothing-here/absent cannot be written"),
    ("train", "nothing-here", "nothing-here: a directory"),
    ("tokenize", "/dev/full/x", "/dev/full cannot be written"),
    ("tokenize", "nothing-here", "nothing-here: a directory"),
])
def test_places_that_cannot_be_written(assert_refused, command, target, says) -> None:
    assert_refused([*WRITERS[command], target], says)


def test_a_device_is_not_replaced_and_a_link_is_followed(assert_refused, ladder, files, tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert_refused(["tokenize", "--data", "good.txt", "--out", tmp_path / "pipe"], "must be a file, got a device or a pipe")
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to("target")
    for _ in range(2):  # first without the link's target, then with it
        done = ladder("tokenize", "--data", files / "good.txt", "--out", tmp_path / "link")
        assert done.returncode == 0 and (tmp_path / "link").is_symlink() and (tmp_path / "target").stat().st_size > 1000, done.stderr


@pytest.mark.parametrize("arguments", [
    ["tokenize", "--data", "good.txt", "--vocab", "read", "--out", "read"],
    ["train", "--model", "tiny", "-T", "16", "--data", "read", "--save", "read"],
    ["train", "--model", "tiny", "-T", "16", "--recipe", "read", "--save", "link"],
    ["run", "--model", "tiny", "-T", "16", "--recipe", "read", "--out", "read"],
    ["run", "--model", "tiny", "-T", "16", "--data", "read", "--out", "link"],
], ids=lambda arguments: " ".join(arguments[:1] + arguments[-4:]))
def test_what_is_read_is_not_written_over(assert_refused, files, arguments) -> None:
    (files / "read").write_text('{"attention": "flash"}' if "--recipe" in arguments else "text " * 100)
    (files / "link").symlink_to("read")
    before = (files / "read").read_bytes()
    assert_refused(arguments, "is the file that --")
    assert (files / "read").read_bytes() == before
    (files / "link").unlink()


def test_a_study_keeps_its_plan(assert_refused, files) -> None:
    (files / "finished" / "records").mkdir(parents=True)
    assert_refused(["profile", "--diff", "flash", "--ladder", "tiny", "--out", "finished"], "finished: is not empty")


def test_a_full_disk(assert_refused, small_disk) -> None:
    full_disk = small_disk("64k")
    with open(full_disk / "ballast", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    before = snapshot(full_disk)
    for command in ([*RUN[:-1], full_disk / "record.json"], [*TOKENIZE[:-1], full_disk / "tokens.bin", "--data", "good.txt"],
                    [*ABLATE[:-1], full_disk / "study"]):
        assert_refused(command, "No space left on device")
        assert set(snapshot(full_disk)) - set(before) <= {"study"}


def test_a_full_disk_behind_standard_output(program, environment) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([program, "help"], stdout=full, stderr=subprocess.PIPE, env=environment, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "ladder: standard output: No space left on device\n")
