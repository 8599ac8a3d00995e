"""What the whole-program tests share: the program, its environment, small ladder files, and processes found by their parent.

LADDER names the program; $XDG_CACHE_HOME/gpt2-ladder/data holds vocabulary and text (`make data`). The program sees no GPU
and a cache folder of the tests' own, so that the same tests pass everywhere and leave nothing behind.
"""

import collections
import contextlib
import json
import os
import pathlib
import pty
import re
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
import time

import jsonschema
import pytest
from gates import remembering, script

ROOT = pathlib.Path(__file__).resolve().parents[2]
HANGS_AFTER_S = 1200  # no limit of a test's: a program that has not ended then never will, on the slowest machine
EVIDENCE = ROOT / "results" / "evidence" / "amd-epyc-2-cores-2026-11-22"  # a study that was measured, the one that the README shows
PYTHON = os.environ.get("LADDER_PYTHON") or sys.executable
MEASURED = (0, 3)  # 3: not usable, of few repeats or because other tests disturbed half of the runs
DRAWN = {"LADDER_PYTHON": PYTHON}  # variables of a program whose reports are drawn


def free_port() -> int:
    """Below 32768, from where Linux gives out ports by itself: nobody else takes it before the program does."""
    while True:
        port = 20000 + secrets.randbelow(12000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("", port))
            return port


@pytest.fixture(scope="session")
def program() -> str:
    return os.environ.get("LADDER") or pytest.skip("LADDER is not set")


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> dict[str, str]:
    """No report is drawn, which takes as long as three runs; a test of what is drawn passes DRAWN."""
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    data = home / "gpt2-ladder" / "data"
    for name in ("gpt2.tiktoken", "shakespeare.txt"):
        assert (data / name).is_file(), f"{data / name} is missing: `make data` fetches it"
    cache = tmp_path_factory.mktemp("cache")
    (cache / "gpt2-ladder").mkdir()
    (cache / "gpt2-ladder" / "data").symlink_to(data)
    # Whether a command runs in a job of GitHub's is for a test to say.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    python = script(cache / "python", f'case "$1" in *render.py) exit 0;; esac\nexec {shlex.quote(PYTHON)} "$@"\n')
    return {**ours, "XDG_CACHE_HOME": str(cache), "CUDA_VISIBLE_DEVICES": "", "LC_ALL": "C.UTF-8", "LADDER_PYTHON": str(python),
            "LADDER_BUSY": "1"}  # tests share the machine


@pytest.fixture(scope="session")
def ladder(program, environment, tmp_path_factory):
    """ladder("run", "--model", "tiny", cwd=..., variables={...}): the finished process, its output as text."""
    nowhere = tmp_path_factory.mktemp("cwd")

    def run(*arguments, cwd=nowhere, variables=None, **options) -> subprocess.CompletedProcess:
        return subprocess.run([program, *map(str, arguments)], cwd=cwd, env=environment | (variables or {}),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S, **options)

    return run


@pytest.fixture
def on_a_terminal(program, environment):
    """on_a_terminal("ablate", ..., variables={...}, stdout=...): exit status and what a terminal was sent; standard output, too,
    unless named."""

    def run(*arguments, variables=None, **options) -> tuple[int, str]:
        reader, writer = pty.openpty()
        command = [program, *map(str, arguments)]
        with subprocess.Popen(command, env=environment | {"TERM": "xterm", "NO_COLOR": ""} | (variables or {}), stdin=subprocess.DEVNULL, stderr=writer,
                              **{"stdout": writer, **options}) as process:
            os.close(writer)
            shown = b""
            try:
                while block := os.read(reader, 4096):
                    shown += block
            except OSError:  # a pty ends so
                pass
        os.close(reader)
        return process.returncode, shown.decode()

    return run


@pytest.fixture
def start(program, environment, tmp_path):
    """As `ladder`, in the background; killed when the test ends."""
    started = []

    def run(*arguments, **options) -> subprocess.Popen:
        started.append(subprocess.Popen([program, *map(str, arguments)], env=environment, text=True, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **{"cwd": tmp_path, **options}))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def remembered(program, tmp_path_factory) -> str:
    """The program for gates whose clock is not the subject: it measures once and tells the same record again."""
    return str(remembering(tmp_path_factory.mktemp("remembered"), program))


@pytest.fixture(scope="session")
def preloadable():
    """preloadable(FILE): a path of it without spaces and colons, at which LD_PRELOAD would cut it."""
    with tempfile.TemporaryDirectory(prefix="ladder-preload-", dir="/tmp") as links:

        def link(file) -> pathlib.Path:
            path = pathlib.Path(tempfile.mkdtemp(dir=links)) / "preloaded.so"
            path.symlink_to(file)
            return path

        yield link


@pytest.fixture(scope="session")
def at_pace(program, preloadable, tmp_path_factory):
    """at_pace(1.3): a ladder program that takes 1.3 times as long, as far as its own clock can tell."""
    folder = tmp_path_factory.mktemp("programs")
    ours = os.environ.get("FAST_CLOCK_LIBRARY") or pytest.skip("FAST_CLOCK_LIBRARY is not set")

    def make(factor: float, program: str = program, library: str = ours) -> pathlib.Path:
        return script(folder / f"ladder-{factor}",
                      f'FAST_CLOCK={factor} LD_PRELOAD={preloadable(library)} exec {shlex.quote(program)} "$@"\n')

    return make


@pytest.fixture
def small_disk(tmp_path):
    """small_disk("64k"): a folder with so much room and no more; only root may make one."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(size: str) -> pathlib.Path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk]
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            pytest.skip(f"a small disk cannot be mounted: {mounted.stderr.strip()}")
        return disk

    yield mount
    if disk.is_mount():
        subprocess.run(["umount", disk], check=True)


@pytest.fixture(scope="session")
def study(ladder, tmp_path_factory):
    """The ladder `tiny` as it comes with the program, in two repeats: its folder and the finished process."""
    folder = tmp_path_factory.mktemp("whole") / "study"
    return folder, ladder("ablate", "--ladder", "tiny", "--repeats", "2", "--order-seed", "7", "--threads", "1", "--out", folder,
                          variables=DRAWN)


@pytest.fixture
def small(tmp_path):
    """A ladder file for few short runs."""
    return write_json(tmp_path / "small.json", ladder_document())


def ladder_document(**changes) -> dict:
    """A ladder of three rungs that every machine can measure, and of one that none can without a GPU."""
    return {"kind": "ladder", "schema_version": 1, "name": "small", "title": "Small", "start": {},
            "rungs": ["gpu", "flash", "fused_adamw"], "workload": {"model": "tiny", "batch": 2, "context": 16},
            "plan": {"repeats": 2, "warmup_steps": 1, "timed_steps": 3}, **changes}


def write_json(path: pathlib.Path, document) -> pathlib.Path:
    path.write_text(json.dumps(document))
    return path


def read_json(path: pathlib.Path):
    return json.loads(path.read_text())


def wait_for(condition, what: str, seconds: float = HANGS_AFTER_S):
    """The first true value of condition(). The limit is only there so that a broken program does not hang the tests."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.005)
    pytest.fail(f"{what}: not within {seconds} s")


def is_alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def child_of(parent: int, run_id: str = "") -> int:
    """The `ladder run` child of a runner (of the run with that id), 0 when there is none."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) != parent:
                continue
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words[1:2] == ["run"] and (not run_id or run_id in words):
            return int(entry.name)
    return 0


def snapshot(folder: pathlib.Path, names: str = "*") -> dict[str, tuple]:
    """Everything of such names below a folder, by what would change if it were written."""
    entries = {}
    for path in sorted(folder.rglob(names)):
        status = path.lstat()
        entries[str(path.relative_to(folder))] = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns)
    return entries


def validator(kind: str) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(read_json(ROOT / "results" / "schemas" / f"{kind}.v1.json"))


def records(folder: pathlib.Path) -> dict[str, dict]:
    return {path.stem: read_json(path) for path in (folder / "records").glob("*.json") if not is_first_of_two(path.name)}


def is_first_of_two(name: str) -> bool:
    """Whether the file is the first record of a run that was disturbed, and made again: a busy machine leaves some."""
    return name.endswith(".flagged.json")


def losses(folder: pathlib.Path) -> dict[str, list]:
    return {run: record["timing"]["loss"] for run, record in records(folder).items()}


def run_ids(folder: pathlib.Path) -> list[str]:
    return [run["id"] for run in read_json(folder / "plan.json")["runs"]]


def assert_complete(folder: pathlib.Path) -> None:
    study = read_json(folder / "study.json")
    assert not list(validator("study").iter_errors(study))
    assert {run: record["status"] for run, record in records(folder).items()} == dict.fromkeys(run_ids(folder), "ok")
    assert study["finished"] and study["plan"]["runs_ok"] == study["plan"]["runs_planned"] == len(run_ids(folder))
    assert not list(folder.rglob("*.tmp"))


def made_runs(done: subprocess.CompletedProcess) -> list[str]:
    return re.findall(r"^(\d+/\d+|again) .*; the run took", done.stderr, re.M)


def assert_goes_on(said: str, runs: int, to_go: int) -> None:
    """Of the study's runs so many were made now, besides those that a busy machine had disturbed."""
    assert f"{runs - to_go} of {runs} runs are there already; {to_go} to go\n" in said, said


def assert_kept(before: dict[str, tuple], folder: pathlib.Path) -> None:
    """The records of that snapshot are still what they were, but for those that a busy machine had disturbed."""
    after = snapshot(folder / "records")
    changed = {name for name, status in before.items() if after.get(name) != status and not is_first_of_two(name)}
    assert not [name for name in changed if name.replace(".json", ".flagged.json") not in after], changed


def kibibytes(pid: int, what: str) -> int:
    """That line of /proc/PID/status; a process that has ended has none, which counts as 0."""
    told = re.search(rf"{what}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(told[1]) if told else 0


def assert_perfetto_reads(timeline: dict) -> float:
    """The Trace Event Format: complete events with numbers in microseconds, every track named, slices of a track nested. The last
    slice's end."""
    names, tracks = {}, collections.defaultdict(list)
    for event in timeline["traceEvents"]:
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str)
            names[event["name"], event["pid"], event["tid"] if event["name"] == "thread_name" else 0] = event["args"]["name"]
            continue
        assert event["ph"] == "X" and event["name"] and event["cat"]
        assert event["ts"] >= 0 and event["dur"] >= 0
        tracks[event["pid"], event["tid"]].append((event["ts"], -event["dur"], event["name"]))
    assert tracks
    for (pid, tid), slices in tracks.items():
        assert ("process_name", pid, 0) in names and ("thread_name", pid, tid) in names
        open_ends = []
        for begin, negative, name in sorted(slices):
            end = begin - negative
            while open_ends and open_ends[-1] <= begin + 1e-6:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-6, f"{name} at {begin} crosses the slice around it"
            open_ends.append(end)
    return max(begin - negative for slices in tracks.values() for begin, negative, _ in slices)


def needs_waiting_times() -> None:
    """Skips where the kernel does not count how long a thread waits for a processor."""
    try:
        ran_ns, _, _ = map(int, pathlib.Path("/proc/self/schedstat").read_text().split())
    except (OSError, ValueError):
        ran_ns = 0
    if ran_ns == 0:
        pytest.skip("this kernel does not count how long threads wait")
