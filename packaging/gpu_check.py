"""gpu-check [FOLDER] [--quick | --cpu]: everything that only a machine with a GPU can tell, in under nine minutes.

Leaves at most eight files in FOLDER, evidence to be kept as it is: README.md, check.log (every line printed) and for each
study its numbers and all its records. They are written as soon as they are known, so that whatever comes later costs only
itself. The surprising thing: a study gets two limits. Its budget says when it starts no more runs, and ends it well; the
limit somewhat later stops it, and what it had measured by then is analysed all the same.
"""
import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

HOME = Path(os.environ["LADDER_HOME"])
LARGEST_FILE = 16 * 2**20  # bytes
LONGEST_LINE = 2**20


class Study(NamedTuple):
    name: str
    share: float  # of the time that is left when it begins
    arguments: str


class Plan(NamedTuple):
    seconds: float         # for all steps; a stopped one may end up to 40 later
    tests_limit_s: float
    run_s: float           # what a run takes: the last one begins so long before its study's share is used up
    studies: list[Study]
    profiles: list[str] = []  # arguments of `ladder profile`, after the first study; what they print is their evidence


# max-autotune compiles for minutes: it is left to `ladder ablate --with-peer pytorch`.
FULL = Plan(495, 75, 12, [
    Study("b16", 0.62, "--ladder gpt2 -B 16 --with-peer pytorch --peer-modes eager,compile,cuda-graphs --repeats 3"),
    Study("b64", 0.6, "--ladder gpt2 -B 64 --repeats 3 --warmup 5 --steps 10"),
    Study("leave-one-out", 1.0, "--ladder gpt2 -B 16 --mode leave-one-out --repeats 3"),
], ["--diff graph --ladder gpt2", "--trace --roofline --rung fused_adamw --ladder gpt2",
    "--counters --rung fused_adamw --ladder gpt2"])
QUICK = Plan(110, 30, 8, [
    Study("b16", 0.4, "--ladder tiny -B 16 -T 8 --with-peer pytorch --peer-modes eager --repeats 1"),
    Study("b64", 0.5, "--ladder tiny -B 64 -T 8 --repeats 1"),
    Study("leave-one-out", 1.0, "--ladder tiny -B 16 -T 8 --mode leave-one-out --repeats 1"),
], ["--diff flash --ladder tiny"])
ON_CPU = QUICK._replace(seconds=700, tests_limit_s=60, run_s=30)  # time for slow and busy machines


class Fault(Exception):
    """What went wrong with a step, in one line."""


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


class Outcome(NamedTuple):
    step: str
    command: str
    good: bool
    words: str
    seconds: float


class Check:
    def __init__(self, folder, plan, title, machine):
        self.folder, self.plan, self.title, self.machine = folder, plan, title, machine
        self.began = time.time()
        self.end = time.monotonic() + plan.seconds
        self.outcomes = []
        self.log = open(folder / "check.log", "w", encoding="utf-8")
        self.log_room = LARGEST_FILE - 1000

    def left(self):
        return max(1.0, self.end - time.monotonic())

    def say(self, line):
        print(line, flush=True)
        self.log_room -= len(line.encode()) + 1
        if self.log_room >= 0:
            print(line, file=self.log, flush=True)
        elif not self.log.closed:
            print(f"the log is full, {LARGEST_FILE} bytes: the rest was only printed", file=self.log)
            self.log.close()
            self.outcomes.append(Outcome("check.log", "", False, f"more than {LARGEST_FILE} bytes were printed", 0))

    def run(self, command, shown, limit, cwd):
        """Runs a program, shows and keeps what it prints; its exit status and its output."""
        self.say(f"\n$ {shown}    # at most {limit:.0f} s")
        process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, encoding="utf-8", errors="backslashreplace")
        # SIGTERM first: ladder then ends its own child and keeps what is measured.
        timers = [threading.Timer(limit, process.terminate), threading.Timer(limit + 10, process.kill)]
        for timer in timers:
            timer.start()
        try:
            lines = []
            for line in process.stdout:
                lines.append(line)
                self.say(line.rstrip("\n"))
            status = process.wait()
        finally:
            for timer in timers:
                timer.cancel()
            process.kill()
        return status, "".join(lines)

    @contextlib.contextmanager
    def step(self, name, shown):
        """The block fills the list with what happened, or raises Fault. Nothing that happens there stops the check."""
        start, words = time.monotonic(), []
        try:
            yield words
            good = True
        except Exception as fault:  # a machine with a GPU is dear: whatever this is, the rest is still worth knowing
            good = False
            words.append(str(fault) if isinstance(fault, Fault) else f"{type(fault).__name__}: {fault}")
        self.outcomes.append(Outcome(name, shown, good, "; ".join(words), time.monotonic() - start))
        self.say(f"== {name}: {'ok' if good else 'FAILED'}{': ' if words else ''}{'; '.join(words)}")
        self.write_readme()

    def write_readme(self):
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.began))
        lines = [f"# {self.title}", "", f"Written by gpu-check on {when}, in {time.time() - self.began:.0f} s. "
                 "Nothing in this folder was edited.", "", self.machine, "",
                 "| step | outcome | s | command |", "|:-----|:--------|--:|:--------|"]
        for o in self.outcomes:
            lines.append(f"| {o.step} | {'ok' if o.good else '**FAILED**'}{': ' if o.words else ''}{cell(o.words)} | "
                         f"{o.seconds:.0f} | `{cell(o.command)}` |")
        lines += ["", "- `check.log`: everything that was printed: doctor, every device test's verdict, tables."]
        for pattern, what in [("*.study.json", "a study's numbers"),
                              ("*.records.jsonl", "the record of every run of a study, one on a line; two of a disturbed one")]:
            lines += [f"- `{file.name}`: {what}." for file in sorted(self.folder.glob(pattern))]
        lines += ["", "`ladder report NAME.study.json --out DIR` draws a study, with its records."]
        (self.folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def keep(path, text):
    content = text.encode()
    if len(content) > LARGEST_FILE:
        raise Fault(f"{path.name} would have {len(content)} bytes, and at most {LARGEST_FILE} are kept")
    path.write_bytes(content)


def ending(status, limit):
    if status < 0:
        return f"ended by {signal.Signals(-status).name}; its limit was {limit:.0f} s"
    return f"exit status {status}" + (f", stopped at its limit of {limit:.0f} s" if status == 130 else "")


def doctor(check, cwd):
    with check.step("doctor", "ladder doctor --peaks"):
        for flags in ([], ["--peaks"]):
            shown = " ".join(["ladder doctor", *flags])
            status, _ = check.run([HOME / "bin" / "ladder", "doctor", *flags], shown, min(60, check.left()), cwd)
            if status != 0:
                raise Fault(ending(status, 60))


def device_tests(check, cwd):
    shown = "device_tests --gtest_color=no"
    with check.step("device tests", shown) as words:
        limit = min(check.plan.tests_limit_s, check.left())
        status, output = check.run([HOME / "bin" / "device_tests", "--gtest_color=no"], shown, limit, cwd)
        for verdict, count in re.findall(r"^\[  (PASSED|SKIPPED|FAILED)\s+\] (\d+) tests?[.,]", output, re.M):
            words.append(f"{count} {verdict.lower()}")
        if status != 0:
            raise Fault(ending(status, limit))
        if check.plan is not ON_CPU and "0 passed" in words:
            raise Fault("no test ran on the device")


def collect(check, name, folder):
    """NAME.study.json and NAME.records.jsonl; failed runs' last words into the log. What stands in the study, in words."""
    text = (folder / "study.json").read_text(encoding="utf-8")
    keep(check.folder / f"{name}.study.json", text)
    lines = []
    for file in sorted((folder / "records").glob("*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        lines.append(json.dumps(record, separators=(",", ":")) + "\n")
        if len(lines[-1]) > LONGEST_LINE:
            raise Fault(f"{name}.records.jsonl: the record {file.name} has {len(lines[-1])} bytes, and at most "
                        f"{LONGEST_LINE} are kept on a line")
        log = folder / "logs" / (file.stem + ".log")
        if record["status"] != "ok" and log.is_file():
            check.say(f"-- the end of {file.stem}'s log:")
            for line in log.read_text(errors="backslashreplace").splitlines()[-30:]:
                check.say("   " + line[:400])
    keep(check.folder / f"{name}.records.jsonl", "".join(lines))
    plan = json.loads(text)["plan"]
    return f"{plan['runs_ok']} of {plan['runs_planned']} runs"


def study(check, one, cwd):
    budget = max(1, int(one.share * check.left() - check.plan.run_s))
    limit = min(check.left(), budget + 3 * check.plan.run_s)
    shown = f"ladder ablate {one.arguments} --budget-s {budget} --out {one.name}"
    with check.step(one.name, shown) as words:
        status, _ = check.run([HOME / "bin" / "ladder", *shlex.split(shown)[1:]], shown, limit, cwd)
        folder = cwd / one.name
        if (folder / "plan.json").is_file() and not (folder / "study.json").is_file():
            # Its status does not count: the pictures may not be drawable here.
            check.run([HOME / "bin" / "ladder", "report", one.name], f"ladder report {one.name}", 30, cwd)
        if (folder / "study.json").is_file():
            words.append(collect(check, one.name, folder))
        if status != 0:
            raise Fault(ending(status, limit))


def profile(check, arguments, cwd):
    shown = f"ladder profile {arguments}"
    with check.step("profile", shown) as words:
        limit = min(check.left(), 3 * check.plan.run_s)
        status, _ = check.run([HOME / "bin" / "ladder", *shlex.split(shown)[1:]], shown, limit, cwd)
        if status == 3:  # counters may not be permitted
            words.append("not to be had here")
        elif status != 0:
            raise Fault(ending(status, limit))


def environment_here():
    done = subprocess.run([HOME / "bin" / "ladder", "doctor", "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Fault(f"ladder doctor: {ending(done.returncode, 0)}: {done.stderr.strip()}")
    return json.loads(done.stdout)["environment"]


def in_words(environment):
    gpu, cpu = environment["gpu"], environment["cpu"]
    changed = " and changes" if environment["git_dirty"] else ""
    return (f"{gpu['name'] if gpu else environment['no_gpu_reason']}; CPU {cpu['model']}, {cpu['logical_cores']} cores; torch "
            f"{environment['torch']}, CUDA {environment['cuda']}, driver for CUDA {environment['driver_cuda'] or 'none'}, cuDNN "
            f"{environment['cudnn'] or 'not asked'}; {environment['kernel']}; ladder built from commit "
            f"{environment['git_commit']}{changed}, {environment['compiler_flags'].strip()}, GCC {environment['compiler']}.")


def main():
    parser = argparse.ArgumentParser(prog="gpu-check", description="Device tests, the ladder at B=16 and B=64, and "
                                     "leave-one-out on one GPU, in under nine minutes. Exit status: 0 all went well, 1 a step "
                                     "failed, 2 wrong usage, 3 no CUDA device.")
    parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path, help="default: ./gpu-check-<device>-<date>")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--quick", action="store_true", help="a two-layer model, two minutes: does the program work here?")
    kind.add_argument("--cpu", action="store_true", help="the same without a GPU: CPU figures, to try out this script")
    options = parser.parse_args()

    if options.cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    environment = environment_here()
    if environment["gpu"] is None and not options.cpu:
        print(f"gpu-check: {environment['no_gpu_reason']}; --cpu tries this script without one", file=sys.stderr)
        return 3
    device = environment["gpu"]["name"] if environment["gpu"] else "cpu"
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    folder = options.folder or Path(f"gpu-check-{slug}-{time.strftime('%Y-%m-%d', time.gmtime())}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        print(f"gpu-check: {folder} is there and not an empty folder; name another one", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)

    plan = ON_CPU if options.cpu else QUICK if options.quick else FULL
    title = "A check without a GPU: CPU figures" if options.cpu else f"A check on one {device}" + ", quick" * options.quick
    check = Check(folder.resolve(), plan, title, in_words(environment))
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as cwd:
        doctor(check, Path(cwd))
        device_tests(check, Path(cwd))
        for number, one in enumerate(plan.studies):
            study(check, one, Path(cwd))
            for arguments in plan.profiles if number == 0 else []:
                profile(check, arguments, Path(cwd))
    check.say(f"\n{folder}: {', '.join(sorted(file.name for file in folder.iterdir()))}")
    check.write_readme()
    return 0 if all(outcome.good for outcome in check.outcomes) else 1


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(main())
    except (Fault, OSError) as fault:
        print(f"gpu-check: {fault}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
