"""gpu-check prove DIR | measure DIR [--cpu]: what only a GPU can tell, in two calls of less than ten minutes each.

No step stops another one. Each leaves a line in DIR/summary.txt and its output in DIR/logs. A second `measure DIR` resumes the studies.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(os.environ["LADDER_BUNDLE"])
LADDER, MICRO, TESTS = (str(HOME / "bin" / name) for name in ("ladder", "micro", "device_tests"))
ALONE = ["Monitor", "Memory", "Counting"]  # these suites count or fill what all processes on the GPU share
GIB_OF_A_RUN = 33  # of the hungriest rung at B=16
# `prove` runs each rung of the ladders once; `measure` measures the first ladder.
ON_GPU = {"seconds": 570, "ladders": ["gpt2", "gpt2-fp16", "qkv", "data-pipeline"], "size": "-B 16", "once": "--warmup 5 --steps 5",
          "ladder": "--repeats 4 --warmup 6 --steps 40 --limit-s 60 --explain --budget-s 280", "trace": "--roofline --warmup 5 --steps 3",
          "peers": "--sweep batch=16 --repeats 2 --warmup 4 --steps 30 --limit-s 120 --budget-s 110",
          "micro": "--benchmark_filter=^(linear_c_fc|head|gelu)/.*/cuda --benchmark_min_time=0.05", "gate": "--pairs 6 --top-up 0"}
ON_CPU = {"seconds": 1500, "ladders": ["tiny"], "size": "-B 2 -T 8", "once": "--warmup 4 --steps 3",
          "ladder": "--repeats 1 --explain --budget-s 600", "trace": "", "peers": "--sweep batch=2 -T 8 --repeats 1 --budget-s 300",
          "micro": "--benchmark_filter=^gelu/.*/cpu -T 8 --benchmark_min_time=0.001", "gate": "--pairs 6 --top-up 0 --steps 3 --min-effect 50"}


def last_line(output):
    """The line that says why a program ended: "ladder run: ..."; buffered output may follow it."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["it says nothing"]
    return next((line for line in reversed(lines) if re.match(r"(ladder|micro)( \w+)?: ", line)), lines[-1])


def judged(status, output, record):
    """A verdict, and why. A run's record says more than its output."""
    if record and record["status"] == "failed":
        return "FAILED", f"{record['failure']['kind']}: {record['failure']['message']}"
    if unproven := [proof for proof in record["proofs"] if not proof["passed"]] if record else []:
        return "FAILED", "; ".join("{field} is not proven: expected: {expected}; observed: {observed}".format(**one) for one in unproven)
    if skipped := re.search(r": Skipped\n(.+)", output):  # a broken device test may look like a forbidden one
        return "no result", skipped[1]
    if status == 0 and re.search(r"is spent; resume with|that the budget left no time for", output):
        return "partly", "its budget is spent; make this call again"
    if status == 124:
        return "FAILED", "stopped at its limit"
    return {0: ("ok", "proven" if record else ""), 3: ("no result", last_line(output))}.get(status, ("FAILED", f"exit status {status}: {last_line(output)}"))


class Call:
    """A folder, the steps that are made in it, and the time that they have."""

    def __init__(self, folder, seconds):
        self.folder, self.end, self.running, self.verdicts, self.is_interrupted = folder, time.monotonic() + seconds, [], set(), False
        for name in ("logs", "once", "counters"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.summary = open(folder / "summary.txt", "a", encoding="utf-8")

    def interrupt(self, *_):
        """Begins nothing more, and ends what runs; completed runs are saved."""
        self.is_interrupted, self.end = True, 0
        for process in self.running:
            process.terminate()

    def say(self, verdict, name, words, begun):
        line = f"{verdict:<9} {name:<34} {time.monotonic() - begun:4.0f} s  {words}".rstrip() + "\n"
        self.verdicts.add(verdict)
        for file in (self.summary, sys.stdout):  # whole lines: several threads say something
            with contextlib.suppress(OSError):  # nobody reads
                file.write(line)
                file.flush()

    def step(self, name, limit, *command, quiet=False, record=None, **environment):
        """Runs a program and says how it ended; its verdict. `quiet` says only what failed."""
        begun, log = time.monotonic(), self.folder / "logs" / f"{name.replace('/', '.')}.log"
        limit = min(limit, self.end - begun)
        try:
            if limit < 5:
                verdict, words = "not begun", "the time is up; make this call again"
            else:
                with log.open("w", encoding="utf-8") as file:
                    print("$", *command, file=file, flush=True)
                    self.running.append(subprocess.Popen(["timeout", "-k", "15", f"{limit:.0f}", *command], cwd=self.folder, stdout=file,
                                                         stdin=subprocess.DEVNULL, stderr=file, env={**os.environ, "LADDER_BUSY": "1", **environment}))
                status = self.running[-1].wait()
                made = json.loads(record.read_text(encoding="utf-8")) if record and record.is_file() else None
                verdict, words = judged(status, log.read_text(encoding="utf-8", errors="backslashreplace"), made)
        except Exception as fault:  # whatever this is, the other steps are still worth making
            verdict, words = "FAILED", f"{type(fault).__name__}: {fault}"
        if not quiet or verdict == "FAILED":
            self.say(verdict, name, words, begun)
        return verdict


def prove(call, plan, gpu, rungs):
    """Is everything right? Programs share the GPU, so that times count for nothing."""
    lanes = min(3, int(gpu["memory_bytes"] / 2**30 // GIB_OF_A_RUN)) if gpu else 1
    with tempfile.TemporaryDirectory() as locks, concurrent.futures.ThreadPoolExecutor(max(1, lanes)) as pool:
        for ladder, rung in rungs:
            (lock := Path(locks, f"{ladder}.{rung}")).mkdir()  # runs with the same folder would wait for each other
            record = call.folder / "once" / f"{ladder}.{rung}.json"
            pool.submit(call.step, f"{ladder}/{rung}", 75, LADDER, "run", "--ladder", ladder, "--rung", rung, *plan["size"].split(),
                        *plan["once"].split(), "--out", str(record), record=record, LADDER_LOCK_DIR=str(lock))

    def test(name):  # in a process of its own: if it crashes or hangs, others do not; their threads wait without spinning
        return call.step(f"test/{name}", 120, TESTS, "--gtest_color=no", f"--gtest_filter={name}", quiet=True,
                         OMP_WAIT_POLICY="PASSIVE", OMP_NUM_THREADS="4")

    begun, suite, names = time.monotonic(), "", {True: [], False: []}
    listed = subprocess.run([TESTS, "--gtest_list_tests"], stdout=subprocess.PIPE, text=True, check=False).stdout if gpu else "*"
    for indent, word in re.findall(r"^( *)(\S+)", listed, re.M):
        suite = suite if indent else word
        names[suite[:-1] in ALONE] += [suite + word] if indent else []
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        verdicts = [*pool.map(test, names[False] if gpu else ["*"])]
    verdicts += map(test, names[True])
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(["ok", *verdicts]))
    is_good = "ok" in verdicts or not gpu
    call.say("ok" if is_good and "FAILED" not in verdicts else "FAILED", "tests", counts, begun)
    if shutil.which("compute-sanitizer"):
        call.step("memcheck", 120, "compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", TESTS, "--gtest_filter=Kernels.*")


def measure(call, plan, gpu, rungs):
    """Alone on the machine."""
    ladder, last = [one for one in rungs if one[0] == plan["ladders"][0]][-1]
    of_last = ["--ladder", ladder, "--rung", last, *plan["size"].split()]

    def study(name, limit, command, *arguments):
        words = [*arguments, *plan[name].split(), "--force"]
        if (call.folder / name / "plan.json").is_file():
            words = ["--resume", *re.findall(r"--explain|--budget-s|(?<=--budget-s )\d+", plan[name])]
        call.step(name, limit, LADDER, command, *words, "--out", name)

    study("ladder", 360, "ablate", "--ladder", ladder, *plan["size"].split())
    call.step("trace", 60, LADDER, "profile", "--trace", *of_last, *plan["trace"].split(), "--out", "trace")
    call.step("counters", 60, LADDER, "profile", "--counters", *of_last, "--out", f"counters/{last}.json")
    sys.path.insert(0, str(HOME / "share" / "gpt2-ladder" / "ablations" / "peers"))
    import compilers

    obstacle = compilers.obstacle(on_cuda=True) if gpu else ""
    modes = "eager,compile,cuda-graphs" if gpu and not obstacle else "eager"
    if obstacle:
        call.say("no result", "torch.compile", obstacle, time.monotonic())
    study("peers", 240, "ablate", "--ladder", ladder, "--rung", last, "--with-peer", "pytorch", "--peer-modes", modes)
    call.step("micro", 90, MICRO, *plan["micro"].split(), "--out", "micro.json")
    study("gate", 150, "gate", *of_last, "--base", LADDER)


def main():
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="Exit status: 0 all went well, 1 a step failed or was not begun, 2 wrong usage, 3 no CUDA device "
                                     "or no working\n`ladder doctor`, 130 interrupted.")
    parser.add_argument("call", choices=["prove", "measure"])
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--cpu", action="store_true", help="try the call on a two-layer model without a GPU")
    options = parser.parse_args()
    if options.cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    plan = ON_CPU if options.cpu else ON_GPU
    try:
        found = json.loads(subprocess.run([LADDER, "doctor", "--json"], stdout=subprocess.PIPE, check=True).stdout)
        gpu, ladders = found["environment"]["gpu"], [(name, rung) for name in plan["ladders"] for rung in found["ladders"][name]]
        if gpu is None and not options.cpu:
            raise OSError(f"{found['environment']['no_gpu_reason']}; --cpu tries this script without one")
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as fault:
        print(f"gpu-check: {fault}", file=sys.stderr)
        return 3
    call = Call(options.folder.resolve(), plan["seconds"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, call.interrupt)
    call.step("doctor", 150, LADDER, "doctor", "--peaks")
    for name, rung in ladders:
        if rung["status"] != "can be measured":
            call.say("no result", f"{name}/{rung['rung']}", rung["reason"], time.monotonic())
    (prove if options.call == "prove" else measure)(call, plan, gpu, [(name, rung["rung"]) for name, rung in ladders
                                                                     if rung["status"] == "can be measured"])
    return 130 if call.is_interrupted else 1 if call.verdicts & {"FAILED", "not begun"} else 0


if __name__ == "__main__":
    sys.exit(main())
