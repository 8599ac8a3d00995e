"""Input that cannot be used is refused at once: exit status 2, one line that names it and says what is allowed, nothing on standard
output, nothing created and nothing overwritten.

Here is the contract of each command, and what only the command line refuses. The tests of the readers have the kinds of input
(ladder_file_test.cpp, modes_test.cpp, recipe_test.cpp, data_test.cpp, what_is_test.cpp, command_line_test.cpp, ...). Every case names
words that its line must have, so that the reason of the refusal is tested, too.
"""

import contextlib
import os
import pathlib
import re
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

GARBAGE = bytes(range(256)) * 40
FILES = {
    "good.txt": b"A text that is long enough. " * 20,
    "good.bin": np.array([20240520, 1, 100, *[0] * 253], "<i4").tobytes() + np.full(100, 7, "<u2").tobytes(),
    "good.json": ladder_document(),
    "garbage.json": GARBAGE,
    "invalid.txt": b"valid, then \xff\xfe not " * 100,
    "pytorch_model.bin": b"PK\3\4 and pickles",
    "book.txt.gz": b"\x1f\x8b\x08\0\0\0\0\0\0\3",
    "start-cuda.json": ladder_document(start={"device": "cuda"}, rungs=[]),
    "garbage/plan.json": GARBAGE,
    "read": b'{"attention": "flash"}' + b" " * 1000,
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
    (folder / "link").symlink_to("read")
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
    # Ladders, recipes and plans.
    (["ablate", "--ladder", "garbage.json", "--out", "study"], "garbage.json: not valid JSON"),
    (["ablate", "--ladder", "start-cuda.json", "--out", "study"], "no rung applies on this machine"),
    (["ablate", "--ladder", "gpt9", "--out", "study"], f"--ladder gpt9: no such ladder; did you mean gpt2[?] There are {LADDERS}"),
    ([*RUN, "--recipe", '{"host_memory": "keep"}'], "--warmup must be at least 1 with host_memory keep, got 0"),
    ([*TRAIN, "--recipe", "flash"], '--recipe flash: is neither a file nor JSON; did you mean --recipe \'{"attention":"flash"}\'[?]$'),
    (["ablate", "--resume", "--out", "garbage"], "garbage/plan.json: not valid JSON"),
    (["run", "--plan", "good.json", "--run", "r1-00-start"], 'good.json: not a plan: "kind" is "ladder"'),
    # Texts, token files, vocabularies and weights.
    ([*ABLATE, "--data", "invalid.txt"], "invalid.txt: invalid UTF-8 at byte 12"),
    ([*ABLATE, "--data", os.fsdecode(b"caf\xe9.txt")], r'--data: "caf\\xe9.txt" is not UTF-8'),
    ([*RUN, "--data", "book.txt.gz"], "book.txt.gz: is compressed by gzip, not a UTF-8 text: unpack it first"),
    ([*TOKENIZE, "--data", "."], "is a folder, not a file"),
    ([*TRAIN, "--data", "good.bin", "--end-of-text"], "--end-of-text: needs a text, and .*good.bin is a token file"),
    ([*TRAIN, "--weights", "pytorch_model.bin"], "pytorch_model.bin: is a zip archive, as torch.save writes it, not a safetensors file: save_pretrained"),
    (["sample", "--weights", "nothing-here"], "nothing-here: is a folder without model.safetensors"),
    (["sample"], "--weights is required$"),
    # Places.
    (["ablate", "--out", "-"], r"--out: standard output \(-\) cannot be used here; name a place"),
    ([*RUN[:-1], "-"], r"--out: standard output \(-\) cannot be used here; --json prints the record"),
    (["run", "--from", "good.json", "--out", "good.json"], "--out good.json: is the file that --from names"),
    # Trainings.
    ([*TRAIN, "--data", "good.bin"], r"good.bin: its last 10 tokens, for validation .--validation-share 0.1.: 10 tokens; a batch of 1 x 16 needs"),
    ([*TRAIN[:-4], "--save", "x"], "one of --steps, --tokens and --epochs must say how long to train, got none"),
    ([*TRAIN, "--batch-tokens", "100"], "--batch-tokens must be a multiple of batch x context, 1 x 16 = 16, got 100; 96 or 112 would do"),
    ([*TRAIN, "--warmup-steps", "5"], r"--warmup-steps must be at most --decay-steps, 1, got 5"),
    ([*TRAIN, "--recipe", '{"batches": "mapped"}'], "recipe: batches must be preloaded, gather or prefetched to train, .*, got mapped"),
    ([*TRAIN[:-2], "--out", "new", "--save", "new/weights"], "--save new/weights: must lie outside --out"),
    (["train", "--resume"], "--resume needs --out, the folder of the training"),
    (["train", "--resume", "--out", "nothing-here", "--seed", "2"], "--seed would change the training that --resume continues"),
    # Folders of studies.
    (["report", "nowhere"], "nowhere: no such file or folder"),
    (["verify", "nothing-here"], "nothing-here: holds no study"),
    (["ablate", "--resume", "--out", "nothing-here"], "nothing-here: holds no study"),
    # Words.
    (["--verbose"], 'there is no flag "--verbose"$'),
    (["abalte", "--repeats", "2"], r'there is no command "abalte"; did you mean ablate\?'),
    ([*ABLATE, "--repaets", "2"], 'there is no flag "--repaets"$'),
    (["ablate", "gpt2"], 'ablate takes no argument "gpt2"$'),
    (["compare", "one"], "head is required$"),
    ([*ABLATE, "--steps"], "--steps: 1 required N missing$"),
    ([*ABLATE, "--out", "twice"], "--out: .*At Most 1 required but received 2$"),
    ([*ABLATE, "--mode", ""], "--mode must not be empty"),
    (["doctor", "--peaks=3"], "peaks was given a disallowed flag override"),
    # Flags that need or exclude each other, and numbers that do not fit.
    ([*ABLATE, "--sweep", "batch=1,2", "--batch", "3"], "--batch cannot be combined with --sweep batch=..."),
    ([*ABLATE, "--rung", "flash"], "--rung needs --sweep; to measure some rungs only: --sweep batch=N --rung A,B$"),
    ([*ABLATE, "--explain", "--mode", "leave-one-out"], "--explain: needs --mode cumulative"),
    ([*ABLATE, "--threads", "4096"], r"--threads must be between 1 and \d+, the cores that this process may use, got 4096"),
    ([*ABLATE, "-T", "65", "--positions", "10"], "--context must be between 1 and 64, got 65; tiny has 64 positions, --positions gives it more"),
    (["ablate", "--resume"], "--resume needs --out"),
    (["ablate", "--resume", "--out", "nothing-here", "--json", "--seed", "2"],
     "--seed would change the study that --resume continues; with --resume only --out, --json, --budget-s, --explain, --wait, --quick, --dry-run, --peer-python, --look, --no-look can"),
    ([*RUN, "--ladder", "tiny"], "--ladder needs --rung$"),
    ([*RUN, "--rung", "start", "--recipe", "{}"], "--recipe cannot be combined with --rung$"),
    (["run", "--plan", "good.json", "--run", "r1-00-start", "--steps", "3"], "--plan"),
    (["gate", "--base", "a", "--for-s", "100", "--", "true"], "--for-s needs --catch or --expect$"),
    (["doctor", "--batch", "3"], "--plan"),
    (["profile", "--trace", "--out", "profile", "--ladder", "tiny"], "--ladder: needs --rung or --diff"),
]


@pytest.mark.parametrize("arguments, says", named(REFUSED))
def test_what_cannot_be_used(assert_refused, arguments, says) -> None:
    assert_refused(arguments, says)


@pytest.mark.parametrize("arguments, says", named([
    ([*RUN, "--ladder", "tiny", "--rung", "gpu"], "--rung gpu: not applicable here: no CUDA device"),
    ([*TRAIN, "--recipe", '{"device": "cuda"}'], "device cuda is not available here"),
    # A ladder for another machine. It would take hours, and more memory than most machines have.
    (["ablate", "--ladder", "gpt2", "--limit-s", "1", "--out", "study"],
     "ladder gpt2 needs a GPU: no CUDA device .*; this machine's ladder is gpt2-cpu: ladder ablate --ladder gpt2-cpu; "
     "--force starts anyway"),
]))
def test_what_this_machine_cannot_do(assert_refused, arguments, says) -> None:
    assert_refused(arguments, says, status=3)


# With so many steps the test would run into its limit, unless the refusal comes before the work.
@pytest.mark.parametrize("arguments, says", named([
    (["ablate", "--ladder", "tiny", "--out", "good.txt/x"], "good.txt"),
    (["run", "--model", "tiny", "-T", "16", "--steps", "100000", "--out", "/proc/nowhere/x"], "/proc/nowhere cannot be written"),
    (["train", "--model", "tiny", "-T", "16", "--steps", "100000", "--save", "nothing-here"], "nothing-here: a directory"),
    (["tokenize", "--data", "good.txt", "--out", "/dev/full/x"], "/dev/full cannot be written"),
    # What is read.
    (["tokenize", "--data", "good.txt", "--vocab", "read", "--out", "read"], "is the file that --"),
    (["train", "--model", "tiny", "-T", "16", "--recipe", "read", "--save", "link"], "is the file that --"),
    (["run", "--model", "tiny", "-T", "16", "--data", "read", "--out", "link"], "is the file that --"),
]))
def test_places_that_cannot_be_written(assert_refused, arguments, says) -> None:
    assert_refused(arguments, says)


def test_a_device_is_not_replaced_and_a_link_is_followed(assert_refused, ladder, files, tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert_refused(["tokenize", "--data", "good.txt", "--out", tmp_path / "pipe"], "must be a file, got a device or a pipe")
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to("target")
    for _ in range(2):  # first without the link's target, then with it
        done = ladder("tokenize", "--data", files / "good.txt", "--out", tmp_path / "link")
        assert done.returncode == 0 and (tmp_path / "link").is_symlink() and (tmp_path / "target").stat().st_size > 1000, done.stderr


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
