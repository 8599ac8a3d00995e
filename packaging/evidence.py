"""The folder that gpu-check leaves, and what fills it: every line that is printed, every step's outcome, and each study as two
files, its numbers and all its records. Files are written as soon as they are known, so that whatever comes later costs only
itself; none is larger than may be kept.
"""
import contextlib
import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import NamedTuple

LARGEST_FILE = 16 * 2**20  # bytes
LONGEST_LINE = 2**20


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


running = set()


def terminate_all():
    """Ends the programs that execute() runs on other threads, in the same way as it would."""
    ending = list(running)
    for process in ending:
        process.terminate()
    until = time.monotonic() + 5
    for process in ending:
        try:
            process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def ended(process, seconds):
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.poll() is not None


def execute(command, limit, cwd, on_line=lambda line: None, stderr=subprocess.STDOUT):
    """Runs a program; its exit status and its output. A process that not even SIGKILL ends is left behind. The reader's end is
    not the program's: on_line may have failed, or the program closed its output.
    """
    process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                               encoding="utf-8", errors="backslashreplace")
    lines = []

    def read():
        for line in process.stdout:
            lines.append(line)
            on_line(line.rstrip("\n"))

    reader = threading.Thread(target=read, daemon=True)
    end = time.monotonic() + limit
    try:
        running.add(process)
        reader.start()
        reader.join(limit)  # before process.wait(), which wakes often and would disturb a measurement
        ended(process, max(0.1, end - time.monotonic()))
    finally:  # an interrupt, too
        if process.poll() is None:
            process.terminate()  # ladder then ends its own child and keeps the completed runs
            if not ended(process, 10):
                process.kill()
                ended(process, 10)
        if reader.is_alive():
            reader.join(5)
        running.discard(process)
    if process.poll() is None:
        raise Fault(f"{Path(command[0]).name} cannot be ended; it ran past its limit of {limit:.0f} s")
    return process.returncode, "".join(lines)


class Check:
    """A call's folder, and its `seconds`, of which `passed_s` have passed."""

    def __init__(self, folder, seconds, title, machine, passed_s=0.0):
        self.folder, self.title, self.machine = folder, title, machine
        self.began = time.time() - passed_s
        self.end = time.monotonic() + seconds - passed_s
        self.outcomes, self.next = [], ""
        self.unwritten = set()
        self.log = open(folder / "check.log", "w", encoding="utf-8")
        self.log_room = LARGEST_FILE - 1000

    def left(self):
        return max(1.0, self.end - time.monotonic())

    def good(self):
        return all(outcome.good for outcome in self.outcomes)

    def finish(self, following):
        """Says how it ended and what to do next, also in README.md."""
        self.next = following
        for outcome in self.outcomes:
            if not outcome.good:
                self.say(f"FAILED: {outcome.step}: {outcome.words}")
        self.say(f"\n{self.folder}: {', '.join(sorted(file.name for file in self.folder.iterdir()))}")
        self.say(f"next: {following}")
        self.write_readme()

    @contextlib.contextmanager
    def noted(self, place, good):
        """A closed pipe or a full disk costs only what was to be written there; the first time it is recorded as an outcome."""
        try:
            yield
        except OSError as fault:
            if place not in self.unwritten:
                self.unwritten.add(place)
                self.outcomes.append(Outcome(place, "", good, f"not all could be written: {fault}", 0))

    def say(self, line):
        with self.noted("standard output", good=True):  # the log has it
            print(line, flush=True)
        self.log_room -= len(line.encode()) + 1
        with self.noted("check.log", good=False):
            if self.log_room >= 0:
                print(line, file=self.log, flush=True)
            elif not self.log.closed:
                self.outcomes.append(Outcome("check.log", "", False, f"more than {LARGEST_FILE} bytes were printed", 0))
                with self.log:  # closed even where this line no longer fits on the disk
                    print(f"the log is full, {LARGEST_FILE} bytes: the rest was only printed", file=self.log)

    def run(self, command, shown, limit, cwd):
        """Runs a program, shows and keeps what it prints; its exit status and its output."""
        self.say(f"\n$ {shown}    # at most {limit:.0f} s")
        return execute(command, limit, cwd, self.say)

    @contextlib.contextmanager
    def step(self, name, shown):
        """The block fills the list with what happened, or raises Fault. Nothing that happens there stops the check."""
        start, words, interrupted = time.monotonic(), [], False
        try:
            yield words
            good = True
        except Exception as fault:  # a machine with a GPU is expensive: whatever this is, the other steps are still worth making
            good = False
            words.append(str(fault) if isinstance(fault, Fault) else f"{type(fault).__name__}: {fault}")
        except KeyboardInterrupt:
            good, interrupted = False, True
            words.append("interrupted")
        self.outcomes.append(Outcome(name, shown, good, "; ".join(words), time.monotonic() - start))
        self.say(f"== {name}: {'ok' if good else 'FAILED'}{': ' if words else ''}{'; '.join(words)}")
        with self.noted("README.md", good=False):
            self.write_readme()
        if interrupted:
            raise KeyboardInterrupt

    def write_readme(self):
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.began))
        lines = [f"# {self.title}", "", f"Written by gpu-check on {when}, in {time.time() - self.began:.0f} s. "
                 "Nothing in this folder was edited.", "", self.machine, "",
                 "| step | outcome | s | command |", "|:-----|:--------|--:|:--------|"]
        for o in self.outcomes:
            lines.append(f"| {o.step} | {'ok' if o.good else '**FAILED**'}{': ' if o.words else ''}{cell(o.words)} | "
                         f"{o.seconds:.0f} | {f'`{cell(o.command)}`' if o.command else ''} |")
        if self.next:
            lines += ["", f"Next: {self.next}"]
        lines += ["", "- `check.log`: everything that was printed."]
        for pattern, what in [("runs.jsonl", "the record of every single run, one on a line"),
                              ("*.study.json", "a study's numbers"), ("*.trace.json", "a trace, for `ladder report --with`"),
                              ("*.counters.json", "counters of a step, a document on each line"),
                              ("micro.json", "the model's operations one by one, for `ladder report --with`"),
                              ("*.records.jsonl", "the other files of a study, one on a line: plan, the record of every run, two of "
                               "a disturbed one, traces, counters")]:
            lines += [f"- `{file.name}`: {what}." for file in sorted(self.folder.glob(pattern))]
        if any(self.folder.glob("*.study.json")):
            lines += ["", "`ladder report NAME.study.json --out DIR` draws a study, with its records; `ladder verify NAME.study.json` "
                      "computes it again; `ladder compare` and `ladder history` read it, too."]
        write_whole(self.folder / "README.md", ("\n".join(lines) + "\n").encode())


def last_line(output):
    """The line that says why a program ended: "ladder run: ..."; buffered output may follow it."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["it says nothing"]
    return next((line for line in reversed(lines) if re.match(r"(ladder|micro)( \w+)?: ", line)), lines[-1])


def write_whole(path, content):
    """The file of that name stays until the new one is written, which a full disk may prevent."""
    unfinished = path.with_name(path.name + ".tmp")
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def keep(path, text):
    content = text.encode()
    if len(content) > LARGEST_FILE:
        raise Fault(f"{path.name} would have {len(content)} bytes, and at most {LARGEST_FILE} are kept")
    write_whole(path, content)


def one_line(file, place=None):
    """A document; with its place in a study's folder, a line of NAME.records.jsonl (study/archive/study_place.h)."""
    document = json.loads(file.read_text(encoding="utf-8"))
    line = json.dumps({"file": place, "document": document} if place else document, separators=(",", ":")) + "\n"
    if len(line) > LONGEST_LINE:
        raise Fault(f"{file.name} has {len(line)} bytes, and at most {LONGEST_LINE} are kept on a line")
    return line


def collect(check, name, folder):
    """NAME.study.json, and all other files of the study in NAME.records.jsonl; failed runs' last words into the log. In words: how
    many runs, and which rungs have no number."""
    text = (folder / "study.json").read_text(encoding="utf-8")
    keep(check.folder / f"{name}.study.json", text)
    lines = [one_line(folder / "plan.json", "plan.json")]
    for file in sorted((folder / "records").glob("*.json")):
        lines.append(one_line(file, f"records/{file.name}"))
        record = json.loads(lines[-1])["document"]
        log = folder / "logs" / (file.stem + ".log")
        if record["status"] != "ok" and log.is_file():
            check.say(f"-- the end of {file.stem}'s log:")
            for line in log.read_text(errors="backslashreplace").splitlines()[-30:]:
                check.say("   " + line[:400])
    keep(check.folder / f"{name}.records.jsonl", "".join(lines))  # now: a trace that is too long must not cost them
    lines += [one_line(file, f"traces/{file.name}") for file in sorted((folder / "traces").glob("*.trace.json"))]
    keep(check.folder / f"{name}.records.jsonl", "".join(lines))
    made = json.loads(text)
    words = [f"{made['plan']['runs_ok']} of {made['plan']['runs_planned']} runs"]
    reasons = set()
    for rung in made["rungs"]:
        if rung["status"] in ("failed", "unproven", "void"):
            reason = rung["reason"]  # once, where several rungs have the same
            words.append(f"{rung['label']}: {rung['status']}" + (f": {reason}" if reason not in reasons else ", for that reason, too"))
            reasons.add(reason)
    return words
