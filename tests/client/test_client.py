"""client/ladder_client.py: what it writes, when, and that it does nothing where nobody asked."""

import ast
import importlib.util
import math
import json
import os
import signal
import sys
import time

import pytest
from conftest import CLIENT, lines

LOOP = """
import ladder_client as ladder
for loss in (2.5, 2, float("nan"), float("inf"), None):
    ladder.step(loss, tokens=64)
"""


def loaded():
    spec = importlib.util.spec_from_file_location("ladder_client", CLIENT / "ladder_client.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nobody_asked(monkeypatch) -> None:
    """Then a call is a handful of operations of Python's, and calls nothing."""
    monkeypatch.delenv("LADDER_LOG", raising=False)
    client, seen = loaded(), []

    def trace(frame, event, argument):
        frame.f_trace_opcodes = True
        seen.append((event, frame.f_code.co_name))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        client.step(1.0, 64)
    finally:
        sys.settrace(before)
    calls = [name for event, name in seen if event == "call"]
    assert calls[0] == "step" and "write" not in calls and calls[1:] in ([], ["test_nobody_asked"]), calls
    assert 0 < [name for event, name in seen if event == "opcode"].count("step") < 12


@pytest.mark.parametrize("file", ["ladder_client.py", "look/sitecustomize.py", "look/ladder_look.py", "look/ladder_sketch.py"])
def test_old_pythons_read_it(file) -> None:
    ast.parse((CLIENT / file).read_text(), feature_version=(3, 8))


def test_lines(run, log) -> None:
    before = time.monotonic()
    done = run(LOOP, LADDER_LOG=log)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    first, steps = lines(log)
    assert first == {"ladder": 1, "pid": first["pid"], "device": "cpu", "clock": pytest.approx(time.time() - time.monotonic(), abs=0.1)}
    assert [step.get("loss") for step in steps] == [2.5, 2, "nan", "inf", None]
    assert {step["tokens"] for step in steps} == {64}
    assert before < steps[0]["t"] and steps[-1]["t"] < time.monotonic()


@pytest.mark.parametrize(("before", "says"), [
    ("", "FileNotFoundError"),
    ("os.environ['RANK'] = 'first'", "ValueError"),
    ("os.mkdir(os.path.dirname(log)); os.mkfifo(log)", "OSError"),
    ("os.mkdir(os.path.dirname(log)); os.symlink('/dev/full', log)", "OSError"),
    ("import fcntl; fcntl.flock = None; os.mkdir(os.path.dirname(log))", "TypeError"),
    ("sys.stderr.close(); os.close(2)", ""),
    ("sys.stderr = None", ""),
])
def test_no_fault_ends_the_program(run, tmp_path, before, says) -> None:
    """It is said once."""
    done = run(f"import os, sys\nlog = os.environ['LADDER_LOG']\n{before}\n{LOOP}\nladder.stated(a=1)\nladder.proof('a', [], 1, 2)\nprint('end')",
               LADDER_LOG=tmp_path / "missing" / "log")
    assert (done.returncode, done.stdout) == (0, "end\n") and done.stderr.count("ladder_client writes nothing more") == bool(says), done.stderr
    assert done.stderr.startswith(f"ladder_client writes nothing more: {says}" if says else ""), done.stderr


@pytest.mark.parametrize("fault", ["ladder.step([])", "ladder.step(1, tokens='many')", "ladder.step(Bad())", "ladder.stated(a=Bad())", "ladder.proof(1, Bad(), 1, 1)",
                                   "ladder.step(Lazy()); ladder.step(Lazy())", "ladder._log.file = 99; ladder.step(1)", "del ladder._log.pending"])
def test_a_later_fault_ends_neither_the_program_nor_its_signals(run, log, fault) -> None:
    done = run(f"""
import os, signal, sys
import ladder_client as ladder
class Bad:
    def __getattr__(self, name): raise RuntimeError(name)
    def __str__(self): raise RuntimeError("no text")
    def __bool__(self): raise RuntimeError("no truth")
class Lazy:  # as JAX's, whose memory is gone
    def block_until_ready(self): pass
    def __float__(self): raise ValueError("gone")
{fault if "Lazy" in fault else "ladder.step(1)"}
{fault}
ladder.step(2)
print("end", flush=True)
if "kill" in sys.argv: os.kill(os.getpid(), signal.SIGTERM)
""", *(["kill"] if "pending" in fault else []), LADDER_LOG=log)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM if "pending" in fault else 0, "end\n"), done.stderr
    assert done.stderr.count("ladder_client writes nothing more") == 1 == len(done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize(("variables", "rank", "ranks"), [
    ({"RANK": "0", "WORLD_SIZE": "4", "SLURM_PROCID": "3"}, 0, 4),
    ({"RANK": "3", "WORLD_SIZE": "4"}, 3, 4),
    ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "SLURM_PROCID": "0"}, 1, 2),
    ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, 1, 2),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, 0, 1),  # a script of 8 tasks that is no step
    ({"LOCAL_RANK": "1"}, 1, 2),
    ({"RANK": ""}, 0, 1),
])
def test_each_rank_writes_its_own_file(run, log, variables, rank, ranks) -> None:
    assert run(LOOP, LADDER_LOG=log, **variables).returncode == 0
    (file,) = log.parent.glob("log.jsonl*")
    assert file.name == f"log.jsonl.{rank}" if rank else "log.jsonl"
    first, steps = lines(file)
    assert (first.get("rank", 0), first.get("ranks", 1), first.get("host")) == (rank, ranks, os.uname().nodename if ranks > 1 else None)
    assert len(steps) == 5


@pytest.mark.parametrize("rank", [0, 1])
def test_the_rank_is_that_of_the_process_group(run, log, rank) -> None:
    """Lightning's children, for one, have no RANK."""
    pytest.importorskip("torch")
    done = run(f"""
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore
torch.distributed.init_process_group("fake", rank={rank}, world_size=2, store=FakeStore())
{LOOP}
""", LADDER_LOG=log)
    assert done.returncode == 0, done.stderr
    (file,) = log.parent.glob("log.jsonl*")
    first, _ = lines(file)
    assert (file == log) == (rank == 0) and (first["rank"], first["ranks"]) == (rank, 2)


def test_only_the_first_process_writes(run, log) -> None:
    done = run("""
import os, subprocess, sys
import ladder_client as ladder
ladder.step(1)
subprocess.run([sys.executable, "-c", "import ladder_client as ladder; ladder.step(7)"], check=True)
if os.fork() == 0:
    ladder.step(8)
    sys.exit()
os.wait()
ladder.step(2)
""", LADDER_LOG=log)
    assert (done.returncode, done.stderr) == (0, "")
    assert [step["loss"] for step in lines(log)[1]] == [1, 2]


def test_a_program_that_is_started_again_goes_on_in_the_file(run, log) -> None:
    assert run(LOOP, LADDER_LOG=log).returncode == run(LOOP, LADDER_LOG=log).returncode == 0
    assert log.read_text().count('"ladder": 1') == 2


KILLED = """
import os, signal, sys, types
import ladder_client as ladder
sys.modules["transformers"] = types.SimpleNamespace(TrainerCallback=object)
callback, state = ladder.HF(), types.SimpleNamespace(num_input_tokens_seen=0)
for step in range(3):
    state.num_input_tokens_seen += 10 * (step + 1)
    callback.on_step_end(None, state, None)
    callback.on_log(None, state, None, logs={"loss": 3.0 - step})
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
signal.pause()
"""


@pytest.mark.parametrize(("name", "written"), [("SIGTERM", [3, 2, 1]), ("SIGKILL", [3, 2])])
def test_a_signal_loses_no_line_that_it_leaves_time_for(run, log, name, written) -> None:
    """Trainer of transformers logs the loss after the step has ended, so the last line waits for it."""
    assert run(KILLED, name, LADDER_LOG=log).returncode == -getattr(signal, name)
    steps = lines(log)[1]
    assert [step["loss"] for step in steps] == written
    assert [step["tokens"] for step in steps] == [10, 20, 30][: len(written)]


def test_a_signal_in_the_middle_of_a_step_waits_for_its_line(run, log) -> None:
    done = run("""
import os, signal
import ladder_client as ladder
ladder.step(2)
write = os.write
def signalled(*line):
    os.kill(os.getpid(), signal.SIGTERM)
    return write(*line)
os.write = signalled
ladder.step(1)
ladder.step(0)
""", LADDER_LOG=log)
    assert done.returncode == -signal.SIGTERM
    assert [step["loss"] for step in lines(log)[1]] == [2, 1]


def test_the_programs_own_handler_stays(run, log) -> None:
    done = run(f"""
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
{LOOP}
os.kill(os.getpid(), signal.SIGTERM)
""", LADDER_LOG=log)
    assert done.returncode == 5 and len(lines(log)[1]) == 5


def test_lightning_counts_steps_of_the_optimizer(run, log) -> None:
    """Both packages' names may be imported; batches that are only accumulated are no steps."""
    done = run("""
import sys, types
import ladder_client as ladder
class One: pass
class Other: pass
sys.modules.update({"lightning.pytorch": types.SimpleNamespace(Callback=One), "pytorch_lightning": types.SimpleNamespace(Callback=Other)})
callback = ladder.Lightning()
assert isinstance(callback, One) and isinstance(callback, Other)
callback.on_train_start(types.SimpleNamespace(global_step=7), None)
for batch, step in enumerate((7, 8, 8, 9)):
    callback.on_train_batch_end(types.SimpleNamespace(global_step=step), None, {"loss": batch}, None, batch)
""", LADDER_LOG=log)
    assert done.returncode == 0, done.stderr
    assert [step["loss"] for step in lines(log)[1]] == [1, 3]


def test_an_array_that_is_not_there_yet_is_waited_for_elsewhere(run, log) -> None:
    """As JAX's: the call returns at once, the time is when the value was there, and the end of the program waits for it."""
    done = run("""
import threading
import ladder_client as ladder
gate = threading.Event()
class Array:
    def __init__(self, value): self.value = value
    def block_until_ready(self): return self
    def __float__(self):
        gate.wait()
        if self.value is None: raise RuntimeError("Array has been deleted")
        return self.value
for value in (3.0, None, 1.0):
    ladder.step(Array(value))
import time
print(time.monotonic())
gate.set()
""", LADDER_LOG=log)
    assert done.returncode == 0, done.stderr
    steps = lines(log)[1]
    assert [step.get("loss") for step in steps] == [3.0, None, 1.0]
    assert steps[0]["t"] > float(done.stdout)


def test_tensors(run, log) -> None:
    """Also of a graph, of 16 bits, one for each device of several, and inside of what torch.compile compiles."""
    pytest.importorskip("torch")
    done = run("""
import torch, warnings
import ladder_client as ladder
warnings.simplefilter("error")
weight = torch.ones(2, requires_grad=True)
ladder.step((2 * weight).sum(), tokens=torch.tensor(5).item())
ladder.step(torch.tensor(1.5, dtype=torch.bfloat16))
ladder.step(torch.tensor([1.0, 3.0]))
warnings.simplefilter("default")
@torch.compile(backend="eager")
def train():
    loss = (weight * weight).sum()
    ladder.step(loss)
    return loss + 1
for _ in range(3):
    train()
""", LADDER_LOG=log)
    assert done.returncode == 0, done.stderr
    assert [step["loss"] for step in lines(log)[1]] == [4, 1.5, 2, 2, 2, 2]


def test_on_a_gpu_nothing_waits_but_the_first_call(run, log) -> None:
    """On the fake device, whose events know the host's time."""
    torch = pytest.importorskip("torch")
    fake = os.environ.get("FAKE_CUDA") or pytest.skip("FAKE_CUDA is not set")
    if torch.version.cuda is None:
        pytest.skip("this PyTorch has no CUDA")
    done = run("""
import time, torch
import ladder_client as ladder
waits, wait = [], torch.cuda.Event.synchronize
torch.cuda.Event.synchronize = lambda event: (waits.append(event), wait(event))
loss = torch.zeros((), device="cuda", requires_grad=True)
ladder.step(loss)
torch.cuda.set_sync_debug_mode("error")  # for copies and reads that wait
for step in range(4):
    time.sleep(0.01)
    ladder.step(loss, tokens=2)
ladder.step()
assert len(waits) == 1
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    ladder.step(loss)
print(time.monotonic())
""", LADDER_LOG=log, LD_PRELOAD=fake, CUDA_VISIBLE_DEVICES="0")
    assert done.returncode == 0, done.stderr
    first, steps = lines(log)
    assert first["device"] == "cuda:0" and len(steps) == 6
    assert "device_ms" not in steps[0] and all(step["device_ms"] >= 10 for step in steps[1:5])
    for before, after in zip(steps, steps[1:]):
        assert math.isclose(1e3 * (after["t"] - before["t"]), after["device_ms"], abs_tol=1e-3)
    assert steps[-1]["t"] <= float(done.stdout) + 1e-3
    assert [step.get("loss") for step in steps] == [0, 0, 0, 0, 0, None]


WAITS = """
import time
import ladder_client as ladder
class Loader:  # as a program has one
    kind = "slow"
    def __len__(self): return 3
    def __iter__(self):
        for batch in range(3):
            time.sleep(0.05)
            yield batch
loader = ladder.wait(Loader())
assert (len(loader), loader.kind) == (3, "slow")
for batch in loader:
    ladder.step(batch)
assert list(loader) == [0, 1, 2]
batches = ladder.wait(iter(range(100)))
next(batches)
ladder.step(3)
for batch in batches:
    ladder.step(batch)
"""


def test_waits_for_input(run, log) -> None:
    done = run(WAITS, LADDER_LOG=log)
    assert (done.returncode, done.stderr) == (0, "")
    waits = [step["wait_ms"] for step in lines(log)[1]]
    assert all(wait >= 50 for wait in waits[:3]) and waits[3] >= 150  # the last has those of list()
    assert len(waits) == 103 and min(waits[4:]) < 1, waits[4:]
    assert run(WAITS.replace(".wait(Loader())", ".wait([1, 2])").replace("(len(loader), loader.kind) == (3, \"slow\")", "type(loader) is list")
               .replace("[0, 1, 2]", "[1, 2]")).returncode == 0  # nobody asked


def test_only_waits_of_the_thread_that_steps_count(run, log) -> None:
    """A thread that makes batches ahead waits for its own loader; a wait within another counts once."""
    done = run("""
import threading, time
import ladder_client as ladder
def slow():
    for batch in range(2):
        time.sleep(0.2)
        yield batch
ahead = threading.Thread(target=list, args=[ladder.wait(slow())])
ahead.start()
for batch in ladder.wait(ladder.wait(slow())):
    ladder.step(batch)
ahead.join()
before = time.monotonic()
next(ladder.wait(iter([0])))
ladder.step(2)
print(time.monotonic() - before)
""", LADDER_LOG=log)
    assert done.returncode == 0, done.stderr
    steps = lines(log)[1]
    assert all(1000 * (after["t"] - before["t"]) + 1 > after["wait_ms"] >= 200 for before, after in zip(steps, steps[1:2]))
    assert steps[2]["wait_ms"] <= 1000 * float(done.stdout), (steps, done.stdout)


def test_what_a_program_says_of_itself(run, log) -> None:
    """Only after the first step, when it is known who writes."""
    done = run("import ladder_client as l; l.stated(early=1); l.step(2.5); l.stated(attention='flash', compiled=True);"
               "l.proof('compile', True, 'a region', '2 regions')", LADDER_LOG=log)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in log.read_text().splitlines()][2:] == [
        {"stated": {"attention": "flash", "compiled": "True"}},
        {"proof": {"field": "compile", "passed": True, "expected": "a region", "observed": "2 regions"}}]
