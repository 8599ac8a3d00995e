"""What gpu-check does where the machine fails it: nobody reads what it prints, the disk is full, the program does not work, the
terminal is gone. Made-up programs; no bundle.
"""

import contextlib
import io
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT, script

DOCTOR = json.dumps({"environment": {
    "gpu": None, "no_gpu_reason": "no GPU", "cpu": {"model": "c", "logical_cores": 1}, "git_dirty": False, "git_commit": "g", "torch": "t",
    "cuda": "c", "driver_cuda": None, "cudnn": None, "kernel": "k", "compiler_flags": "", "compiler": "1"},
    "ladders": {"tiny": [{"rung": "start", "status": "can be measured"},
                         {"rung": "graph", "status": "not applicable here", "reason": "no GPU"},
                         {"rung": "fused_norm", "status": "not applicable here", "reason": "no CUDA kernels"},
                         {"rung": "fused_mlp", "status": "not applicable here", "reason": "no CUDA kernels"}]}})


@contextlib.contextmanager
def nobody_reads():
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    with contextlib.redirect_stdout(stream):
        yield
    with pytest.raises(BrokenPipeError):
        stream.close()


@contextlib.contextmanager
def full_disk():
    """No file grows over 4 KiB: what is written beyond fails, after a part of it was written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # not pytest's file
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def started(tmp_path):
    """Starts a call of gpu-check with one step in a folder "out", with a program `ladder` that does as told."""
    processes = []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}  # what is left fails at the end

    def start(ladder, stdout=subprocess.PIPE):
        script(tmp_path / "bin" / "ladder", f"case \"$*\" in *--json*) echo '{DOCTOR}'; exit;; esac\n{ladder}")
        processes.append(subprocess.Popen(
            [sys.executable, ROOT / "packaging" / "gpu_check.py", "leave-one-out", "--cpu", "out"], cwd=tmp_path,
            env={**environment, "LADDER_HOME": str(tmp_path)}, stdout=stdout, stderr=subprocess.PIPE, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_a_program_is_ended_where_nobody_reads_and_the_disk_is_full(evidence, tmp_path) -> None:
    check = evidence.Check(tmp_path, 600, "A check", "a machine")
    check.log = open("/dev/full", "w", encoding="utf-8")
    with nobody_reads(), check.step("b16", "ladder ablate"):
        status, output = check.run(["sh", "-c", "echo $$; echo again; exec sleep 1000"], "sleep", 5, tmp_path)
    process = output.split("\n")[0]
    assert status == -signal.SIGTERM and output.endswith("again\n") and not pathlib.Path("/proc", process).exists()
    lines = (tmp_path / "README.md").read_text().splitlines()
    assert [line.split(" | ")[:2] for line in lines if line.startswith("| ")][1:] == [
        ["| standard output", "ok: not all could be written: [Errno 32] Broken pipe"],
        ["| check.log", "**FAILED**: not all could be written: [Errno 28] No space left on device"],
        ["| b16", "ok"]]
    with pytest.raises(OSError):
        check.log.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_program_outlives_neither_its_reader_nor_its_output(evidence, tmp_path) -> None:
    def fails(line):
        raise RuntimeError("on_line fails")

    begin = time.monotonic()
    assert evidence.execute(["sh", "-c", "echo a; exec sleep 1000"], 2, tmp_path, fails) == (-signal.SIGTERM, "a\n")
    assert evidence.execute(["sh", "-c", "exec >&- 2>&-; sleep 0.5; exit 7"], 60, tmp_path) == (7, "")
    assert evidence.execute(["sh", "-c", "trap '' TERM; exec >&- 2>&-; while :; do sleep 0.1; done"], 5, tmp_path) == (-signal.SIGKILL, "")
    assert time.monotonic() - begin < 300 and not evidence.running


def test_what_was_kept_stays_where_the_disk_is_full(evidence, tmp_path) -> None:
    check = evidence.Check(tmp_path, 600, "A check", "a machine")
    evidence.keep(tmp_path / "b16.records.jsonl", "whole\n")
    with full_disk(), check.step("b16", "ladder ablate"):
        evidence.keep(tmp_path / "b16.records.jsonl", "x" * 5000)
    assert not check.outcomes[-1].good and "File too large" in check.outcomes[-1].words
    assert (tmp_path / "b16.records.jsonl").read_text() == "whole\n"
    readme = (tmp_path / "README.md").read_text()
    with full_disk(), check.step("x" * 5000, "ladder ablate"):  # a README.md for which there is no place stops nothing either
        pass
    assert (tmp_path / "README.md").read_text() == readme and check.outcomes[-1].step == "README.md"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["README.md", "b16.records.jsonl", "check.log"]


def test_a_reader_that_leaves_changes_no_exit_status(started, tmp_path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = started("seq 30000", stdout=writing)
    os.close(writing)
    assert done.communicate(timeout=600)[1] == "" and done.returncode == 0
    assert "\n30000\n" in (tmp_path / "out" / "check.log").read_text()
    assert "| standard output | ok: not all could be written" in (tmp_path / "out" / "README.md").read_text()


def test_rungs_that_cannot_be_measured_are_named_with_the_reason(started, tmp_path) -> None:
    done = started("exit 0")
    lines = ["not measured here: graph: no GPU", "not measured here: fused_norm, fused_mlp: no CUDA kernels"]
    assert done.communicate(timeout=600)[0].splitlines()[:2] == lines and done.returncode == 0
    readme = (tmp_path / "out" / "README.md").read_text()
    assert all(f"\n\n{line}\n\n" in readme for line in lines)


def read_until(line, check):
    while (read := check.stdout.readline()) != line:
        assert read, check.communicate(timeout=600)[1]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_what_ends_a_session_is_an_interrupt(started, tmp_path, number) -> None:
    check = started("trap 'echo ending; while [ ! -e $LADDER_HOME/may-end ]; do sleep 0.1; done; echo ended; exit 130' TERM; echo begun; "
                    "while :; do sleep 0.1; done")
    read_until("begun\n", check)
    check.send_signal(number)
    read_until("ending\n", check)
    if number == signal.SIGHUP:
        check.send_signal(number)  # a shell sends it, and then the kernel
    (tmp_path / "may-end").touch()
    output, errors = check.communicate(timeout=600)
    assert check.returncode == 130 and "ended\n" in output, output + errors  # it waited for its program
    assert "| leave-one-out | **FAILED**: interrupted | " in (tmp_path / "out" / "README.md").read_text()


def test_nohup_is_heeded(tmp_path, started) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        check = started("echo begun; sleep 1")
    finally:
        signal.signal(signal.SIGHUP, before)
    read_until("begun\n", check)
    check.send_signal(signal.SIGHUP)
    check.communicate(timeout=600)
    assert check.returncode == 0


def exit_status_and_words(tmp_path, *arguments):
    done = subprocess.run([sys.executable, ROOT / "packaging" / "gpu_check.py", *arguments], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "LADDER_HOME": str(tmp_path), "COLUMNS": "1000"}, check=False, timeout=600)
    return done.returncode, done.stdout + done.stderr


def test_exit_status_2_is_wrong_usage_only(tmp_path) -> None:
    ladder = tmp_path / "bin" / "ladder"
    status, words = exit_status_and_words(tmp_path, "smoke", "--cpu")
    assert status == 3 and words.startswith("gpu-check: ladder doctor cannot start: ") and "bin/ladder" in words
    script(ladder, "kill -SEGV $$")
    status, words = exit_status_and_words(tmp_path, "smoke", "--cpu")
    assert status == 3 and words.startswith("gpu-check: ladder doctor: ended by SIGSEGV")
    for output in ("not JSON", "{}"):
        script(ladder, f"echo '{output}'")
        status, words = exit_status_and_words(tmp_path, "smoke", "--cpu")
        assert status == 3 and words == "gpu-check: ladder doctor --json does not print the environment and the ladders\n"
    script(ladder, f"echo '{DOCTOR.replace('can be measured', 'not applicable here')}'")
    status, words = exit_status_and_words(tmp_path, "smoke", "--cpu")
    assert status == 3 and words == "gpu-check: no rung of ladder tiny can be measured here: `ladder doctor` says why\n"
    script(ladder, f"echo '{DOCTOR}'")
    assert exit_status_and_words(tmp_path, "smoke", "--cpu", "bin") == (
        2, "gpu-check: bin exists and is not an empty folder; name another one\n")
    assert exit_status_and_words(tmp_path, "--nonsense")[0] == 2
    status, words = exit_status_and_words(tmp_path, "smoke", "--cpu", "bin/ladder/out")  # as a disk that refuses
    assert status == 1 and words.startswith("gpu-check: [Errno 20] Not a directory")
    status, words = exit_status_and_words(tmp_path, "--help")
    assert status == 0 and "3 no CUDA device or\n`ladder doctor` does not work here, 130 interrupted" in words
