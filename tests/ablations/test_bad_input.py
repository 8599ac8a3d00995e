"""Whatever cannot be used is refused at once: exit status 2, one line that names it and says what is allowed, nothing on
standard output, nothing created and nothing overwritten.

Every case says which words its line must have, so that it is refused for the reason it is here for.
"""

import contextlib
import json
import os
import pathlib
import re
import struct

import numpy as np
import pytest
from conftest import ladder_document, snapshot, write_json

HINT = re.compile(r"`ladder( \w+)? --help` says what there is\.")

ABLATE = ["ablate", "--ladder", "tiny", "--out", "study"]
RUN = ["run", "--model", "tiny", "-T", "16", "--steps", "1", "--warmup", "0", "--record", "record.json"]
TRAIN = ["train", "--model", "tiny", "-T", "16", "--steps", "1", "--save", "saved.safetensors"]
TOKENIZE = ["tokenize", "--out", "tokens.bin"]


def token_file(magic: int = 20240520, version: int = 1, count: int = 100, tokens: list[int] | None = None) -> bytes:
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, count
    return header.tobytes() + np.array(tokens if tokens is not None else [7] * 100, "<u2").tobytes()


def safetensors_file(tensors: dict[str, np.ndarray]) -> bytes:
    header, data = {}, b""
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.astype("<f4").tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def plan_document() -> dict:
    rung = {"optimization": None, "title": "float32", "applied": [], "status": "planned", "reason": "", "recipe": {}}
    return {"kind": "plan", "schema_version": 1, "id": "small-1", "created": "2026-11-21T11:05:00Z",
            "ladder": {"name": "small", "title": "Small"},
            "workload": {"model": "tiny", "batch": 1, "context": 16, "accumulation": 1, "seed": 1, "threads": 1,
                         "data": "good.bin", "vocabulary": "good.tiktoken"},
            "warmup_steps": 0, "timed_steps": 1, "repeats": 1, "order_seed": 1, "run_limit_s": 60, "reference": 0,
            "rungs": [rung], "runs": [{"id": "r1-00-start", "rung": 0, "repeat": 0}]}


def changed(document: dict, path: str, value) -> dict:
    """The document with one value changed: changed(plan, "workload/model", 3); None removes it."""
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    inner = document
    for part in parents:
        inner = inner[part]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return document


LADDERS = {  # file: content, what the line says
    "truncated": (json.dumps(ladder_document())[:-20], "not valid JSON"),
    "empty": ("", "not valid JSON"),
    "garbage": (bytes(range(256)) * 4, "not valid JSON"),
    "nul": (b"\0" * 100, "not valid JSON"),
    "bad-utf8": (b'{"kind": "ladder\xff"}', "not valid JSON"),
    "two-documents": (json.dumps(ladder_document()) * 2, "not valid JSON"),
    "array": ("[]", "not a ladder"),
    "number": ("7", "not a ladder"),
    "nested": ("[" * 100000, "nested deeper"),
    "nested-objects": ('{"a":' * 100000 + "1" + "}" * 100000, "nested deeper"),
    "twice": (json.dumps(ladder_document())[:-1] + ', "name": "other"}', 'key "name" stands twice'),
    "kind": (ladder_document(kind="plan"), 'not a ladder: "kind" is "plan"'),
    "no-kind": (changed(ladder_document(), "kind", None), "not a ladder"),
    "version": (ladder_document(schema_version=2), "schema_version.*2"),
    "version-text": (ladder_document(schema_version="1"), "schema_version"),
    "rungs-type": (ladder_document(rungs="flash"), "rungs"),
    "rung-type": (ladder_document(rungs=["flash", 3]), "rungs"),
    "missing": (changed(ladder_document(), "workload", None), "workload"),
    "missing-inner": (changed(ladder_document(), "plan/repeats", None), "repeats"),
    "unknown": (ladder_document(rugns=[]), "rugns"),
    "unknown-inner": (changed(ladder_document(), "workload/btach", 2), "btach"),
    "name": (ladder_document(name="../../x"), "name"),
    "batch-zero": (changed(ladder_document(), "workload/batch", 0), "batch"),
    "batch-fraction": (changed(ladder_document(), "workload/batch", 1.5), "batch"),
    "batch-huge": (changed(ladder_document(), "workload/batch", 10**30), "batch"),
    "repeats-huge": (changed(ladder_document(), "plan/repeats", 10**9), "repeats"),
    "model": (changed(ladder_document(), "workload/model", "gpt3"), 'unknown model "gpt3".*tiny'),
    "context": (changed(ladder_document(), "workload/context", 65), "65.*64 positions"),
    "optimization": (ladder_document(rungs=["flash", "warp"]), r'rungs\[1\] "warp": unknown optimization; known are'),
    "duplicate": (ladder_document(rungs=["flash", "flash"]), "may stand once"),
    "bf16-fp16": (ladder_document(rungs=["gpu", "bf16", "fp16"]), 'cannot follow "bf16"'),
    "onednn-tf32": (ladder_document(rungs=["gpu", "onednn", "tf32"]), 'cannot follow "onednn"'),
    "tf32-without-gpu": (ladder_document(rungs=["tf32"]), 'needs "gpu" before it'),
    "gpu-too-late": (ladder_document(rungs=["tf32", "gpu"]), 'needs "gpu" before it'),
    "reference": (ladder_document(reference="vocab"), 'reference "vocab"'),
    "recipe-field": (ladder_document(start={"attn": "flash"}), 'unknown recipe field "attn"'),
    "recipe-value": (ladder_document(start={"attention": "flashy"}), "flashy.*manual, math"),
    "recipe-type": (ladder_document(start={"attention": 3}), "attention"),
    "start-type": (ladder_document(start=[]), "start"),
    "start-cuda": (ladder_document(start={"device": "cuda"}, rungs=[]), "no rung applies on this machine"),
    "start-kernel": (ladder_document(start={"attention": "cudnn"}, rungs=[]), "attention cudnn needs device cuda"),
    "start-graph": (ladder_document(start={"execution": "graph"}, rungs=[]), "execution graph needs device cuda"),
    "start-rows": (ladder_document(start={"vocabulary_rows": 50000}, rungs=[]), "vocabulary_rows 50000 is not allowed"),
}

DATA = {
    "missing.txt": (None, "missing.txt"),
    "empty.txt": (b"", "0 tokens"),
    "short.txt": (b"Too short for a batch.", "tokens; a batch"),
    "invalid.txt": (b"valid, then \xff\xfe not " * 100, "invalid.txt.*UTF-8"),
    "empty.bin": (b"", "header"),
    "header-only.bin": (token_file(count=0, tokens=[]), "0 tokens"),
    "truncated.bin": (token_file()[:-3], "100 tokens in the header"),
    "half-header.bin": (token_file()[:500], "header"),
    "magic.bin": (token_file(magic=1), "magic number 1"),
    "version.bin": (token_file(version=2), "version 2"),
    "negative.bin": (token_file(count=-1), "-1 tokens"),
    "id.bin": (token_file(tokens=[7] * 99 + [50257]), "token 50257 at position 99"),
    "short.bin": (token_file(count=16, tokens=[7] * 16), r"16 tokens; a batch of \d x 16"),
    ".": (None, "regular file"),
}

VOCABULARIES = {
    "missing.tiktoken": (None, "missing.tiktoken"),
    "empty.tiktoken": (b"", "empty.tiktoken"),
    "garbage.tiktoken": (bytes(range(256)) * 40, "garbage.tiktoken"),
    "truncated.tiktoken": ("half", "truncated.tiktoken"),
}

MODEL_TENSOR = {"transformer.wte.weight": np.zeros((3, 4), np.float32)}
WEIGHTS = {
    "missing.safetensors": (None, "missing.safetensors"),
    "empty.safetensors": (b"", "empty.safetensors"),
    "garbage.safetensors": (bytes(range(256)) * 40, "garbage.safetensors"),
    "truncated.safetensors": (safetensors_file(MODEL_TENSOR)[:-5], "truncated.safetensors"),
    "no-tensors.safetensors": (safetensors_file({}), 'tensor "[a-z0-9.]+" is missing'),
    "shape.safetensors": (safetensors_file(MODEL_TENSOR), r'"wte.weight" has shape \(3, 4\); tiny needs \(50257, 32\)'),
    "header-length.safetensors": (struct.pack("<Q", 2**63) + b"{}", "header"),
}

PLANS = {
    "truncated": (json.dumps(plan_document())[:-30], "not valid JSON"),
    "empty": ("", "not valid JSON"),
    "kind": (changed(plan_document(), "kind", "study"), "not a plan"),
    "version": (changed(plan_document(), "schema_version", 7), "schema_version"),
    "missing": (changed(plan_document(), "workload/seed", None), "seed"),
    "type": (changed(plan_document(), "timed_steps", "many"), "timed_steps"),
    "id": (changed(plan_document(), "runs/0/id", "../../escape"), "id"),
    "rung": (changed(plan_document(), "runs/0/rung", 5), "r1-00-start"),
    "rung-huge": (changed(plan_document(), "runs/0/rung", 2**70), "rung"),
    "repeat": (changed(plan_document(), "runs/0/repeat", 5), "r1-00-start"),
    "twice": (changed(plan_document(), "runs", plan_document()["runs"] * 2), "stands twice"),
    "reference": (changed(plan_document(), "reference", 9), "reference 9"),
    "optimization": (changed(plan_document(), "rungs/0/optimization", "warp"), "warp"),
    "recipe": (changed(plan_document(), "rungs/0/recipe", {"attention": "no"}), "attention"),
    "model": (changed(plan_document(), "workload/model", "gpt3"), "gpt3"),
    "context": (changed(plan_document(), "workload/context", 65), "65.*64 positions"),
    "batch": (changed(plan_document(), "workload/batch", 1000), "a batch of 1000 x 16"),
    "data": (changed(plan_document(), "workload/data", "gone.bin"), "gone.bin"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory, environment) -> pathlib.Path:
    """The folder in which every case runs, with everything that it may name."""
    folder = tmp_path_factory.mktemp("files")
    ranks = (pathlib.Path(environment["XDG_CACHE_HOME"]) / "gpt2-ladder" / "data" / "gpt2.tiktoken").read_bytes()
    (folder / "good.tiktoken").write_bytes(ranks)
    (folder / "good.bin").write_bytes(token_file())
    (folder / "good.txt").write_text("A text that is long enough. " * 20)
    write_json(folder / "good.json", ladder_document())
    for name, (content, _) in {**{f"{name}.json": case for name, case in LADDERS.items()}, **DATA, **WEIGHTS,
                               **VOCABULARIES}.items():
        if isinstance(content, dict):
            write_json(folder / name, content)
        elif content is not None:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "truncated.tiktoken").write_bytes(ranks[: len(ranks) // 2])
    with open(folder / "oversized.json", "wb") as file:
        file.truncate((64 << 20) + 1)
    (folder / "folder.json").mkdir()
    (folder / "nothing-here").mkdir()
    for name, (content, _) in PLANS.items():
        (folder / "plans" / name).mkdir(parents=True)
        plan = folder / "plans" / name / "plan.json"
        plan.write_text(content if isinstance(content, str) else json.dumps(content))
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
    """Each under its command and its last two words."""
    return [pytest.param(words, says, id=ascii(" ".join([*words[:1], *words[-2:]]))[1:50]) for words, says in cases]


@pytest.mark.parametrize("arguments, says", named([
    ([], "subcommand"),
    (["climb"], "climb|subcommand"),
    (["--verbose"], "--verbose|subcommand"),
    ([*ABLATE, "--rungs", "3"], "--rungs"),
    ([*ABLATE, "stray"], "stray"),
    ([*ABLATE, "--steps"], "--steps"),
    ([*ABLATE, "--out", "twice"], "--out"),
    (["ablate", "--ladder", "gpt9", "--out", "study"], "--ladder gpt9: no such ladder; there are gpt2, gpt2-cpu, gpt2-fp16, tiny"),
    (["ablate", "--ladder", "", "--out", "study"], "--ladder: must not be empty"),
    (["ablate", "--ladder", "tiny", "--out", ""], "--out: must not be empty"),
    ([*ABLATE, "--data", ""], "--data: must not be empty"),
    ([*ABLATE, "--data", os.fsdecode(b"caf\xe9.txt")], r'--data: "caf\\xe9.txt" is not UTF-8'),
    ([*ABLATE, "--model", "ti\nny"], 'unknown model "ti ny"'),
    (["ablate", "--ladder", "../ladders/tiny", "--out", "study"], "../ladders/tiny: No such file"),
    (["ablate", "--ladder", "nowhere.json", "--out", "study"], "nowhere.json: No such file"),
    (["ablate", "--ladder", "/dev/zero", "--out", "study"], "/dev/zero: is not a regular file"),
    ([*ABLATE, "--model", "gpt3"], 'unknown model "gpt3"; known are gpt2-124m'),
    ([*ABLATE, "--model", ""], "--model: must not be empty"),
    ([*RUN, "--model", "tiny2"], "--model|tiny2"),
    (["train", "--model", "gpt3", "--save", "x"], 'unknown model "gpt3"'),
    ([*RUN, "--ladder", "tiny", "--rung", "warp"], "--rung warp: ladder tiny has start, gpu"),
    ([*RUN, "--ladder", "gpt9", "--rung", "start"], "gpt9"),
    ([*RUN, "--rung", "start", "--recipe", "{}"], "--rung|--recipe"),
    ([*RUN, "--run", "r1-00-start"], "--plan"),
    ([*RUN[:1], "--plan", "good.json", "--run", "r1-00-start"], 'good.json: not a plan: "kind" is "ladder"'),
    ([*RUN[:1], "--plan", "plans/batch/plan.json", "--run", "r9"], 'no run "r9"'),
    ([*RUN[:1], "--plan", "plans/batch/plan.json"], "--run"),
    ([*RUN[:1], "--plan", "plans/batch/plan.json", "--run", "r1-00-start"], "a batch of 1000 x 16"),
    ([*RUN[:1], "--plan", "plans/batch/plan.json", "--run", "r1-00-start", "--steps", "3"], "--plan"),
    ([*RUN, "--ladder", "tiny"], "--rung"),
    ([*RUN, "--recipe", "{"], "--recipe: not valid JSON"),
    ([*RUN, "--recipe", ""], "--recipe: must not be empty"),
    ([*RUN, "--recipe", "nowhere.json"], "nowhere.json: No such file"),
    ([*RUN, "--recipe", "folder.json"], "folder.json: is not a regular file"),
    ([*RUN, "--recipe", "array.json"], "a recipe is a JSON object"),
    ([*RUN, "--recipe", "good.json"], "unknown recipe field"),
    ([*RUN, "--recipe", '{"a":' * 20000], "nested deeper"),
    ([*RUN, "--recipe", '{"autocats": "bf16"}'], 'unknown recipe field "autocats"; known are device'),
    ([*RUN, "--recipe", '{"autocast": "bf17"}'], '"autocast": "bf17" is not allowed; one of off, bf16, fp16'),
    ([*RUN, "--recipe", '{"autocast": 16}'], '"autocast": 16 is not allowed'),
    ([*RUN, "--recipe", '{"autocast": "bf16", "autocast": "off"}'], "stands twice"),
    ([*RUN, "--recipe", '{"vocabulary_rows": 0}'], "vocabulary_rows"),
    ([*RUN, "--recipe", '{"vocabulary_rows": 1.5}'], "vocabulary_rows"),
    ([*RUN, "--recipe", '{"vocabulary_rows": 1e30}'], "vocabulary_rows"),
    ([*RUN, "--recipe", '{"vocabulary_rows": 50256}'], "50257"),
    ([*RUN, "--recipe", '{"vocabulary_rows": "many"}'], "vocabulary_rows"),
    ([*RUN, "--recipe", '{"execution": "graph"}'], "execution graph needs device cuda"),
    ([*RUN, "--recipe", '{"attention": "cudnn"}'], "attention cudnn needs device cuda; a CPU has manual, math, flash"),
    ([*TRAIN, "--recipe", '{"attention": "efficient"}'], "attention efficient needs device cuda"),
    (["abalte", "--repeats", "2"], r'there is no command "abalte"; did you mean ablate\?'),
    ([*ABLATE, "--repaets", "2"], r'there is no flag "--repaets"; did you mean --repeats\?'),
    ([*ABLATE, "--qqqqqqqqqq"], 'there is no flag "--qqqqqqqqqq"$'),
    (["doctor", "--peaks=3"], "--peaks takes no value"),
    (["report"], "STUDY... is missing"),
    (["report", "nowhere"], "nowhere: no such file or folder"),
    (["verify", "nowhere"], "nowhere: no such file or folder"),
    ([*TRAIN, "--warmup", "3"], "--warmup"),
    ([*ABLATE, "--explain", "--mode", "leave-one-out"], "--explain: says what each rung changed"),
    (["profile", "--trace", "--ladder", "tiny"], "--ladder: says where --rung or --diff is looked up"),
    (["profile", "--diff", "a.trace.json", "b.trace.json", "--out", "x"], "--out: two files of --diff are compared as they are"),
    (["profile", "--diff", "a.trace.json", "b.trace.json", "-B", "2"], "--batch: two files of --diff are compared as they are"),
]))
def test_unknown_words(assert_refused, arguments, says) -> None:
    assert_refused(arguments, says)


@pytest.mark.parametrize("arguments, says", [
    ([*RUN, "--ladder", "tiny", "--rung", "gpu"], "--rung gpu: not applicable here: no CUDA device"),
    ([*RUN, "--recipe", '{"device": "cuda"}'], "device cuda is not available here: no CUDA device"),
    ([*TRAIN, "--recipe", '{"device": "cuda"}'], "device cuda is not available here"),
])
def test_what_this_machine_cannot_do(assert_refused, arguments, says) -> None:
    assert_refused(arguments, says, status=3)


@pytest.mark.parametrize("name", LADDERS)
def test_ladder_files(assert_refused, name) -> None:
    says = LADDERS[name][1]
    in_the_file = name != "context" and not name.startswith("start-")  # those are well-formed, but cannot be had here
    assert_refused(["ablate", "--ladder", f"{name}.json", "--out", "study"], f"{name}.json: .*{says}" if in_the_file else says)


@pytest.mark.parametrize("name, says", [("oversized.json", "67108865 bytes; at most 67108864"),
                                        ("folder.json", "not a regular file")])
def test_ladder_files_that_are_not_read(assert_refused, name, says) -> None:
    assert_refused(["ablate", "--ladder", name, "--out", "study"], says)


NOT_NUMBERS = ["-1", "1.5", "abc", "99999999999999999999", "", "1e2", "1 2"]
FLAGS = {"-B": "--batch", "-T": "--context", "--accumulation": "", "--steps": "", "--repeats": "", "--threads": "", "--limit": ""}


@pytest.mark.parametrize("flag, value", [*[("--steps", value) for value in NOT_NUMBERS],
                                         *[(flag, value) for flag in FLAGS for value in ("0", "abc")]])
def test_numbers(assert_refused, flag, value) -> None:
    assert_refused([*ABLATE, flag, value], f"{FLAGS[flag] or flag} {re.escape(value)} is not allowed; a whole number from 1 to")


@pytest.mark.parametrize("flag, value", [*[("--seed", value) for value in NOT_NUMBERS], ("--warmup", "-1"),
                                         ("--order-seed", "-1")])
def test_numbers_that_may_be_zero(assert_refused, flag, value) -> None:
    assert_refused([*ABLATE, flag, value], f"{flag} {re.escape(value)} is not allowed; a whole number from 0 to")


@pytest.mark.parametrize("arguments, says", named([
    ([*ABLATE, "-T", "65"], "--context 65 is not allowed; tiny has 64 positions"),
    ([*ABLATE, "--model", "gpt2-124m", "-T", "1025"], "--context 1025 is not allowed; gpt2-124m has 1024 positions"),
    (["ablate", "--ladder", "gpt2", "--model", "tiny", "--out", "study"], "--context 1024 is not allowed; tiny has 64"),
    (["run", "--model", "tiny", "-T", "65", "--record", "record.json"], "--context 65 is not allowed"),
    (["run", "--model", "tiny", "--record", "record.json"], "--context 256 is not allowed"),
    (["train", "--model", "tiny", "-T", "65"], "--context 65 is not allowed"),
    ([*ABLATE, "-B", "65537"], "--batch 65537 is not allowed; a whole number from 1 to 65536"),
    ([*ABLATE, "-B", "65536", "-T", "64"], "tokens; a batch of 65536 x 64"),
]))
def test_numbers_out_of_reach(assert_refused, arguments, says) -> None:
    assert_refused(arguments, says)


@pytest.mark.parametrize("name", DATA)
def test_data(assert_refused, name) -> None:
    says = DATA[name][1]
    assert_refused([*ABLATE, "-B", "1", "-T", "16", "--data", name], says)
    assert_refused([*TRAIN, "-B", "1", "--data", name], says)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_vocabularies(assert_refused, name) -> None:
    says = VOCABULARIES[name][1]
    assert_refused([*ABLATE, "--data", "good.txt", "--vocab", name], says)
    assert_refused([*TOKENIZE, "--data", "good.txt", "--vocab", name], says)


@pytest.mark.parametrize("name", ["missing.txt", "invalid.txt", "."])
def test_texts_to_tokenize(assert_refused, name) -> None:
    assert_refused([*TOKENIZE, "--data", name], DATA[name][1])


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(assert_refused, name) -> None:
    assert_refused([*TRAIN, "--weights", name], WEIGHTS[name][1])


# So many steps that the test runs into its limit unless the refusal comes before the work.
WRITERS = {
    "ablate": ["ablate", "--ladder", "tiny", "--out"],
    "run": ["run", "--model", "tiny", "-T", "16", "--steps", "100000", "--record"],
    "train": ["train", "--model", "tiny", "-T", "16", "--steps", "100000", "--save"],
    "tokenize": ["tokenize", "--data", "good.txt", "--out"],
}


@pytest.mark.parametrize("target", ["good.txt/x", "/proc/nowhere/x", "/dev/full/x"])
@pytest.mark.parametrize("command", WRITERS)
def test_places_that_cannot_be_written(assert_refused, command, target) -> None:
    assert_refused([*WRITERS[command], target], target.rsplit("/", 1)[0])


@pytest.mark.parametrize("command", ["run", "train", "tokenize"])
def test_places_that_do_not_fit_a_file(assert_refused, command) -> None:
    assert_refused([*WRITERS[command], "nothing-here/absent/x"], "nothing-here/absent")
    assert_refused([*WRITERS[command], "nothing-here"], "nothing-here.*directory")


@pytest.mark.parametrize("arguments, says", named([
    (["ablate", "--ladder", "tiny", "--out", "good.txt"], "good.txt"),
    (["report", "good.txt"], "good.txt"),
    (["report", "nowhere"], "nowhere: no such file or folder"),
    (["report", "nothing-here", "--out", "drawn"], "nothing-here: holds no study"),
    (["ablate", "--resume"], "--resume needs --out"),
    (["ablate", "--resume", "--out", "nowhere"], "nowhere: holds no study"),
    (["ablate", "--resume", "--out", "nothing-here"], "nothing-here: holds no study"),
    (["ablate", "--resume", "--out", "good.txt"], "good.txt"),
    (["ablate", "--resume", "--out", "plans/kind", "--repeats", "9"], "--resume.*other flags"),
    (["ablate", "--resume", "--out", "plans/kind", "--ladder", "tiny"], "--resume.*other flags"),
    (["ablate", "--resume", "--out", "plans/kind", "--json", "--seed", "2"], "--resume.*other flags"),
]))
def test_folders(assert_refused, arguments, says) -> None:
    assert_refused(arguments, says)


def test_a_study_keeps_its_plan(assert_refused, files) -> None:
    (files / "finished" / "records").mkdir(parents=True)
    assert_refused(["profile", "--diff", "flash", "--ladder", "tiny", "--out", "finished"], "finished: is a study's folder")


@pytest.mark.parametrize("name", PLANS)
def test_damaged_plans(assert_refused, name) -> None:
    assert_refused(["ablate", "--resume", "--out", f"plans/{name}"], PLANS[name][1])


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
