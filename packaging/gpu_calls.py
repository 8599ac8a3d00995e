"""What gpu-check's calls do: their studies, their limits, and the steps that they are made of.

A study has two limits: its budget says when it starts no more runs, and the limit somewhat later stops it; what it had
measured by then is analysed all the same.
"""
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from evidence import Fault, collect, execute, keep, last_line, one_line, terminate_all

HOME = Path(os.environ["LADDER_HOME"])

# What each call does, in the order in which they are best made.
CALLS = {
    "smoke": "each rung once, then a trace and counters of a replayed graph; stops at the first rung that is not proven",
    "tests": "measured peaks, the device tests, hardware counters of three rungs",
    "micro": "the model's operations one by one, each fused one after what it replaces",
    "b16": "the ladder at B=16, a trace of each rung, the last rung's roofline",
    "b64": "the ladder at B=64, or at the largest batch that the GPU's memory holds",
    "peers": "PyTorch, eager, compiled and with CUDA graphs, beside the last rung at b64's batch",
    "leave-one-out": "everything on, and without each optimization: what would be lost?",
    "sweep": "bf16 against graph at B=1, 4 and 16: launches cost time at small batches",
}
# What smoke's parts take on an H100, about: a process reads its libraries and tokens (5 s), then makes 13 steps, which take about
# 6 s on rung gpu and under 2 s on any other.
SMOKE_TAKES = {"doctor": 10, "rung": 10, "trace": 20, "counters": 20}

# Memory that the hungriest rung (graph) takes at T=1024: what PyTorch's allocator reserves, in GiB, counted on the fake device,
# where it is 118.6, 60.9, 31.2 and 3.8 for B=64, 32, 16 and 1 (tests/program/test_fake_device.py counts it again).
COUNTED_GIB, COUNTED_GIB_PER_SEQUENCE = 2.0, 1.85
MARGIN = 1.075  # for what is not counted there: CUDA's context with its loaded kernels, cuDNN's workspaces


class Study(NamedTuple):
    arguments: str           # of `ladder ablate`; {B}: the batch
    most_B: int = 16         # fewer where the GPU's memory holds no more
    run_s: float = 20        # what a run takes at most, about: the last one begins so long before the time is up
    run_limit_s: float = 90  # a run that takes longer hangs
    trace_s: float = 0       # with --explain: what tracing a rung takes, about, after the last run
    profiles: tuple = ()     # arguments of `ladder profile`, after the study


class Plan(NamedTuple):
    seconds: float           # of a call; a step that is stopped may end up to 60 later
    smoke_seconds: float     # of smoke, from the moment on at which the program has started once
    run_limit_s: float       # a single run that takes longer hangs
    profile_s: float         # for each profile
    ladder: str
    size: str                # of single runs, traces and counters
    steps: str               # of single runs and traces; counters count a step for each pass
    studies: dict
    counted: tuple           # rungs whose counters `tests` reads
    micro: str               # arguments of the micro benchmarks


# Steps: a GPU's energy is known over a second and more (harness/machine/monitor.h). Repeats: three give intervals with 2 degrees of
# freedom, factor 4.3; a fourth, 3.2. As many are planned as fit on an H100 if a run takes 5 s and its steps as long as the program
# estimates (ablations/profile/estimate.h). What the time does not allow is not made, and said: on an H200, at B=64, a part
# of the fourth repeat. max-autotune compiles for minutes: it is left to `ladder ablate --with-peer pytorch`. No rung computes
# in fp16, so micro leaves it out.
ON_GPU = Plan(seconds=520, smoke_seconds=170, run_limit_s=45, profile_s=30, ladder="gpt2", size="--warmup 5", steps="--steps 5",
              studies={
    "b16": Study("-B {B} --repeats 3 --warmup 6 --steps 30 --explain", trace_s=12,
                 profiles=("--trace --roofline --rung {last} -B {B} --warmup 5 --steps 3",)),
    "b64": Study("-B {B} --repeats 4 --warmup 4 --steps 16", most_B=64, run_s=35),
    "leave-one-out": Study("-B {B} --repeats 4 --warmup 6 --steps 30 --mode leave-one-out"),
    "sweep": Study("--sweep batch=1,4,{B} --rung bf16 --rung graph --repeats 5 --warmup 10 --steps 100", run_s=25),
    "peers": Study("--sweep batch={B} --rung {last} --repeats 4 --warmup 4 --steps 16 --with-peer pytorch "
                   "--peer-modes eager,compile,cuda-graphs", most_B=64, run_s=60, run_limit_s=240),
}, counted=("{first}", "graph", "{last}"), micro="--benchmark_filter='([^6]|bf16)/cuda' --benchmark_min_time=0.05")
# For trying the calls out, with time for slow and busy machines.
ON_CPU = Plan(seconds=700, smoke_seconds=700, run_limit_s=300, profile_s=120, ladder="tiny", size="-T 8 --warmup 4", steps="--steps 3",
              studies={
    "b16": Study("-B {B} -T 8 --repeats 1 --explain", run_limit_s=300, trace_s=8, profiles=("--trace --rung {last} -B {B} -T 8",)),
    "b64": Study("-B {B} -T 8 --repeats 1", most_B=64, run_limit_s=300),
    "leave-one-out": Study("-B {B} -T 8 --repeats 1 --mode leave-one-out", run_limit_s=300),
    "sweep": Study("--sweep batch=1,4,{B} --rung start --rung flash -T 8 --repeats 1", run_limit_s=300),
    "peers": Study("--sweep batch={B} --rung flash -T 8 --repeats 1 --with-peer pytorch --peer-modes eager", run_limit_s=300),
}, counted=("{last}",), micro="--benchmark_filter=^gelu/.*/cpu -T 8 --benchmark_min_time=0.001")
# Tests that count or fill what all processes on the GPU share, or look who is there: one after the other, last.
ALONE = ["Monitor", "Memory", "Counting"]
ALONE_S = 30   # for each of them
TEST_S = 120   # for any other one: whatever hangs leaves time for the rest
LEAST_S = 5    # a test that has less time left is not begun
MOST_TESTS = 6  # at the same time: each has a context on the GPU
PROFILED = ["--trace", "--counters"]  # by smoke
DRAWING_S = 20  # for a study's page


class Setting(NamedTuple):
    """The machine as a call finds it."""
    plan: Plan
    rungs: list    # of the plan's ladder, those that can be measured here
    gpu: dict      # of `ladder doctor --json`; None: a CPU

    def batch(self, most):
        """The batch: the largest that was asked for, or the largest power of two that fits by the counted need."""
        if self.gpu is None:
            return most
        while most > 1 and need_gib(most) > self.gpu["memory_bytes"] / 2**30:
            most //= 2
        return most

    def filled_in(self, arguments, most_B=16):
        return arguments.format(B=self.batch(most_B), first=self.rungs[0], last=self.rungs[-1])

    def profile(self, kind, rung):
        """Arguments of `ladder profile`."""
        steps = f" {self.plan.steps}" if kind == "--trace" else ""
        return f"{kind} --ladder {self.plan.ladder} --rung {rung} -B {self.batch(16)} {self.plan.size}{steps}"

    def batch_note(self, most):
        B = self.batch(most)
        if B == most:
            return []
        return [f"B={B}, because B={most} needs {need_gib(most):.0f} GiB and the GPU has {self.gpu['memory_bytes'] / 2**30:.0f}"]


def need_gib(B):
    return MARGIN * (COUNTED_GIB + COUNTED_GIB_PER_SEQUENCE * B)


def ending(status, limit):
    if status < 0:
        return f"ended by {signal.Signals(-status).name}; its limit was {limit:.0f} s"
    return f"exit status {status}" + (f", stopped at its limit of {limit:.0f} s" if status == 130 else "")


def ending_with_words(status, limit, output):
    return f"{ending(status, limit)}: {last_line(output)}"


def doctor(check, cwd, peaks=False):
    shown = "ladder doctor" + " --peaks" * peaks
    with check.step("doctor", shown):
        for command in ([["nvidia-smi"]] if shutil.which("nvidia-smi") else []) + [[HOME / "bin" / "ladder", *shown.split()[1:]]]:
            limit = min(60, check.left())
            status, output = check.run(command, Path(command[0]).name + " " + " ".join(command[1:]), limit, cwd)
            if status != 0 and command[0] != "nvidia-smi":
                raise Fault(ending_with_words(status, limit, output))


def cause(record, status, limit, output):
    """Why a run has no valid number, in one line; empty if it has."""
    if record is None:
        return ending_with_words(status, limit, output)
    if record["status"] == "failed":
        return f"{record['failure']['kind']}: {record['failure']['message']}"
    unproven = [proof for proof in record["proofs"] if not proof["passed"]]
    if unproven:
        return "; ".join(f"{proof['field']} is not proven: expected: {proof['expected']}; observed: {proof['observed']}"
                         for proof in unproven)
    return "" if status == 0 else ending_with_words(status, limit, output)


def rung_once(check, here, rung, cwd):
    file, B = cwd / f"{rung}.json", here.batch(16)
    shown = f"ladder run --ladder {here.plan.ladder} --rung {rung} -B {B} {here.plan.size} {here.plan.steps} --out {file.name}"
    with check.step(rung, shown) as words:
        limit = min(here.plan.run_limit_s, check.left())
        status, output = check.run([HOME / "bin" / "ladder", *shlex.split(shown)[1:]], shown, limit, cwd)
        record = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        if record is not None:
            kept = check.folder / "runs.jsonl"
            keep(kept, (kept.read_text(encoding="utf-8") if kept.is_file() else "") + one_line(file))
        if fault := cause(record, status, limit, output):
            calls = (record or {}).get("observations", {}).get("cuda_calls") or {}
            if "calls" in calls:
                counted = ", ".join(f"{count} {name}" for name, count in calls["calls"].items())
                check.say(f"-- every call to CUDA in a step: {counted}")
            raise Fault(fault)
        words.append(f"proven; {record['summary']['median_ms']:.1f} ms/step, {record['memory']['peak_bytes'] / 2**30:.1f} GiB")
        words += record["flags"]
        for what, seen in (("calls", record["observations"].get("cuda_calls")), ("power and clocks", record.get("monitor"))):
            if here.gpu and seen and "unavailable" in seen:
                words.append(f"{what} not seen: {seen['unavailable']}")
    return check.outcomes[-1].good


def smoke(check, here, cwd):
    doctor(check, cwd)
    replayed = "graph" if "graph" in here.rungs else here.rungs[-1]
    profiles = [here.profile(kind, replayed) for kind in PROFILED]
    parts = [*here.rungs, *profiles]
    for number, part in enumerate(parts):
        if check.left() < LEAST_S:
            with check.step("the rest", ""):
                names = [*here.rungs, *(kind[2:] for kind in PROFILED)][number:]
                raise Fault(f"not begun, because the time is up: {', '.join(names)}; the first call on a machine reads gigabytes "
                            "of libraries")
            return "gpu-check smoke again: what has been read once is read faster"
        if part in profiles:
            profile(check, part, min(here.plan.profile_s, check.left()), None, cwd)
        elif not rung_once(check, here, part, cwd):
            return (f"mend what is said of {part}, then gpu-check smoke again: the studies would meet it, too. Its record is in "
                    "runs.jsonl, what it printed in check.log")
    return "" if check.good() else "every rung is proven, so gpu-check micro and b16 can be made; mend the rest meanwhile"


def device_tests(check, limit, cwd, on_gpu=True):
    """Each test in a process of its own, so that one that crashes or hangs costs only itself; some at the same time."""
    program = HOME / "bin" / "device_tests"
    with check.step("device tests", "device_tests, each by itself") as words:
        end = time.monotonic() + min(limit, check.left())
        status, listed = execute([program, "--gtest_list_tests"], 30, cwd)
        tests, suite = [], ""
        for name in re.findall(r"^(\S+\.|  \S+)(?:\s|$)", listed, re.M):
            if name.endswith("."):
                suite = name
            elif suite[:-1] not in ALONE:
                tests.append(suite + name.strip())
        alone = [f"{suite}.*" for suite in ALONE if f"\n{suite}.\n" in "\n" + listed]
        if status != 0 or not tests:
            raise Fault(f"device_tests cannot say what tests it has: {ending(status, 30)}")
        alone_from = end - ALONE_S * len(alone)

        def tested(name, until, most_s):
            limit = min(most_s, until - time.monotonic())
            if limit < LEAST_S:
                return name, 0, 0, ""
            # Several at once, each with many threads: those that wait must not spin.
            return name, limit, *execute(["env", "OMP_WAIT_POLICY=PASSIVE", "OMP_NUM_THREADS=4", program, "--gtest_color=no",
                                          f"--gtest_filter={name}"], limit, cwd)

        counts, faults, skipped = {"passed": 0, "skipped": 0, "failed": 0}, [], {}

        def note(name, limit, status, output):
            if limit == 0:
                faults.append(f"{name}: not begun in time")
                return
            check.say(f"\n$ device_tests --gtest_filter={name}    # at most {limit:.0f} s\n{output.rstrip()}")
            for verdict, count in re.findall(r"^\[  (PASSED|SKIPPED|FAILED)\s+\] (\d+) tests?[.,]", output, re.M):
                counts[verdict.lower()] += int(count)
            for why in re.findall(r": Skipped\n(.+)", output):
                skipped.setdefault(why, name)  # a broken test may look like a forbidden one, so the reason is shown
            if status != 0 or "[  PASSED  ]" not in output:
                faults.append(f"{name}: {ending(status, limit)}{'' if status else ' without a verdict'}")

        with concurrent.futures.ThreadPoolExecutor(min(os.cpu_count(), MOST_TESTS)) as pool:
            try:
                for future in concurrent.futures.as_completed([pool.submit(tested, name, alone_from, TEST_S) for name in tests]):
                    note(*future.result())
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                terminate_all()
                raise
        for number, name in enumerate(alone):
            note(*tested(name, end - ALONE_S * (len(alone) - 1 - number), ALONE_S * len(alone)))
        words += [f"{count} {verdict}" for verdict, count in counts.items() if count or verdict == "passed"]
        words += [f"{name} skipped: {why}" for why, name in list(skipped.items())[:3]]
        if faults:
            raise Fault("; ".join(faults))
        if on_gpu and counts["passed"] == 0:
            raise Fault("no test ran on the device")


def tests(check, here, cwd):
    doctor(check, cwd, peaks=True)
    device_tests(check, check.left() - here.plan.profile_s * len(here.plan.counted), cwd, here.gpu is not None)
    for rung in here.plan.counted:
        profile(check, here.profile("--counters", here.filled_in(rung)), min(here.plan.profile_s, check.left()), None, cwd)
    return "" if check.good() else "gpu-check micro, which does not depend on what failed here; read check.log meanwhile"


def obstacle_to_compiling():
    """Why torch.compile cannot work on this machine; empty if it can."""
    sys.path.insert(0, str(HOME / "ablations" / "peers"))
    import compilers

    return compilers.obstacle(on_cuda=True)


def study(check, here, one, name, cwd):
    """Names its files after the batch that it uses: "b32" if b64 was asked for and B=32 fits."""
    name = f"b{here.batch(one.most_B)}" if re.fullmatch(r"b\d+", name) else name
    arguments = here.filled_in(one.arguments, one.most_B)
    missing = obstacle_to_compiling() if "compile" in arguments else ""
    if missing:  # what can be measured without a compiler is
        arguments = re.sub(r"--peer-modes \S+", "--peer-modes eager", arguments)
    limit = max(1, check.left() - here.plan.profile_s * len(one.profiles))
    budget = max(1, int(limit - one.run_s - one.trace_s * len(here.rungs) - DRAWING_S))
    # The batch was chosen by the counted need: a rung that takes more all the same says so, and the others go on.
    shown = f"ladder ablate --ladder {here.plan.ladder} {arguments} --force --limit-s {one.run_limit_s:.0f} --budget-s {budget} --out {name}"
    with check.step(name, shown) as words:
        words += here.batch_note(one.most_B)
        folder = cwd / name
        if missing:
            words.append(f"PyTorch without torch.compile: {missing}")
        try:
            status, output = check.run([HOME / "bin" / "ladder", *shlex.split(shown)[1:]], shown, limit, cwd)
        finally:  # whatever happened, an interrupt, too
            if (folder / "plan.json").is_file() and not (folder / "study.json").is_file():
                # Its status does not count: the pictures may not be drawable here.
                check.run([HOME / "bin" / "ladder", "report", name], f"ladder report {name}", 30, cwd)
            if (folder / "study.json").is_file():
                words += collect(check, name, folder)
        if status != 0:
            raise Fault(ending(status, limit) if (folder / "study.json").is_file() else ending_with_words(status, limit, output))
    for arguments in one.profiles:
        profile(check, f"--ladder {here.plan.ladder} {here.filled_in(arguments)}", min(here.plan.profile_s, check.left()), name, cwd)
    return "" if check.good() else "read the lines with FAILED and check.log; completed runs are saved and can be drawn (README.md)"


def profile(check, arguments, limit, study_name, cwd):
    """Its output goes into the log. Its document goes to the study's records, or into a file if there is no study."""
    shown = f"ladder profile {arguments}"
    kind = "trace" if "--trace" in arguments else "counters"
    with check.step("profile", shown) as words, tempfile.TemporaryDirectory(dir=cwd) as folder:
        out = Path(folder) / ("." if kind == "trace" else "step.counters.json")
        status, output = check.run([HOME / "bin" / "ladder", *shlex.split(shown)[1:], "--out", str(out)], shown, limit, cwd)
        if status == 3:  # counters may not be permitted
            words.append(f"not available here: {last_line(output)}")
        elif status != 0:
            raise Fault(ending_with_words(status, limit, output))
        of_study = check.folder / f"{study_name}.records.jsonl"
        kept = of_study if of_study.is_file() else check.folder / f"profile.{kind}.json"
        lines = kept.read_text(encoding="utf-8") if kept.is_file() else ""
        for file in sorted(Path(folder).glob(f"*.{kind}.json")):
            # A report shows what lies in with/; counters it does not know.
            place = f"with/{file.name}" if kind == "trace" else f"counters/{len(lines)}.json"
            lines += one_line(file, place if kept == of_study else None)
        if lines:
            keep(kept, lines)


def micro(check, here, cwd):
    shown = f"micro {here.plan.micro} --out micro.json"
    with check.step("micro", shown) as words:
        limit = check.left()
        status, output = check.run([HOME / "bin" / "micro", *shlex.split(shown)[1:]], shown, limit, cwd)
        if (cwd / "micro.json").is_file():
            document = json.loads((cwd / "micro.json").read_text(encoding="utf-8"))
            for field in ("host_name", "executable"):
                document["context"].pop(field, None)
            words.append(f"{len(document['benchmarks'])} benchmarks")
            keep(check.folder / "micro.json", json.dumps(document, indent=1) + "\n")
        if status != 0:
            raise Fault(ending_with_words(status, limit, output))
    return ""


def carry_out(name, check, here, cwd):
    """What to do next, in a sentence; empty: the call after this one."""
    if name in here.plan.studies:
        return study(check, here, here.plan.studies[name], name, cwd)
    return {"smoke": smoke, "tests": tests, "micro": micro}[name](check, here, cwd)
