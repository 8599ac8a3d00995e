"""What only a GPU can tell: gpu-check CALL DIR [--seconds N] [--cpu]

  prove    Is everything right? Every rung with its proof, the newest first, device tests, compute-sanitizer.
           Programs share the GPU, so that times count for nothing.
  measure  The ladder, traces of the last rungs, PyTorch beside them, B=64, losses in bf16 and fp8. Alone on the machine.
  sources  What others claim and no record shows yet: without one, another order, other batches, float16, the gate
           against itself. Alone on the machine.

No step stops another one. Each leaves a line in DIR/summary.txt and its output in DIR/logs. A step that the seconds do
not suffice for is not begun. The same call again makes what is missing. DIR/packed/CALL*.tgz is what to bring back.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

HOME = Path(os.environ["LADDER_BUNDLE"])
LADDER, MICRO, TESTS = (str(HOME / "bin" / name) for name in ("ladder", "micro", "device_tests"))
ALONE = ["Monitor", "Memory", "Counting"]  # these suites count or fill what all processes on the GPU share
SANITIZED = "Kernels.ColumnSum:Kernels.Gelu:Kernels.CrossEntropy:Kernels.AddNormBackward:Kernels.Join:Kernels.Embedding:Fp8Kernels.*"
GIB_OF_A_RUN = 33  # of the hungriest rung at B=16
TRAINING = "ladder-gpt2 train --model {model} --ladder {ladder} --rung {rung} {train} --seed {{repeat}} --out {{run}}/training"
# A program whose second commit takes 3 % longer: products, and a number that the device must have computed.
PLANTED = """import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
size, products = 2048 if device == "cuda" else 160, {products}
torch.set_num_threads(1)
a = torch.randn(size, size, device=device) / size ** 0.5
for step in range(60):
    y = a
    for _ in range(products):
        y = a @ y
        y = y / y.norm()
    print(f"step {{step}} loss {{y.norm().item() + 1 / (step + 1):.4f}}", flush=True)
"""
# The ladders whose rungs are proven; measured is the first. `few` is enough for a proof, and four repeats for a verdict.
ON_GPU = {"seconds": {"prove": 170, "measure": 540, "sources": 540}, "ladders": ["gpt2", "gpt2-fp16", "qkv", "data-pipeline"],
          "size": "-B 16", "few": "--warmup 5 --steps 5", "study": "--warmup 6 --limit-s 60 --repeats 4", "repeats": 4, "batches": "1,4,16,64", "large": "--sweep batch=64",
          "model": "gpt2-124m", "train": "-B 16 -T 1024 --steps 300 --validation-every 100", "modes": "compile,cuda-graphs,fp8",
          "mission": ["gpu", "tf32", "bf16", "graph", "flash", "vocab", "fused_adamw"], "order": ["gpu", "vocab", "tf32", "bf16", "graph", "flash", "fused_adamw"],
          "attention": "bf16,flash", "graphs": "bf16,graph", "float16": "gpt2-fp16", "pairs": 6, "long": "5000",
          "micro": "--benchmark_filter=^(linear_c_fc|head|gelu)/.*/cuda --benchmark_min_time=0.05"}
ON_CPU = {"seconds": {"prove": 900, "measure": 1500, "sources": 1500}, "ladders": ["tiny"],
          "size": "-B 2 -T 8", "few": "--warmup 4 --steps 3", "study": "--repeats 1", "repeats": 2, "batches": "1,2", "large": "--sweep batch=4",
          "model": "tiny", "train": "-B 2 -T 8 --steps 12 --validation-every 4", "modes": "eager",
          "mission": ["memory", "flash", "fused_adamw"], "order": ["flash", "memory", "fused_adamw"],
          "attention": "flash", "graphs": "memory,flash", "float16": "tiny", "pairs": 6, "long": "20",
          "micro": "--benchmark_filter=^gelu/.*/cpu -T 8 --benchmark_min_time=0.001"}


def last_line(output):
    """The line that says why a program ended: "ladder run: ..."; buffered output may follow it."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not re.match(r"Open |Run it again", line)] or ["it says nothing"]
    return next((line for line in reversed(lines) if re.match(r"(ladder|micro)( \w+)?: ", line)), lines[-1])


def judged(status, output, record):
    """A verdict, and why. A run's record says more than its output."""
    if record and record["status"] == "failed":
        return "FAILED", f"{record['failure']['kind']}: {record['failure']['message']}"
    if unproven := [proof for proof in record["proofs"] if not proof["passed"]] if record else []:
        return "FAILED", "; ".join("{field} is not proven: expected: {expected}; observed: {observed}".format(**one) for one in unproven)
    if skipped := re.search(r": Skipped\n(.+)", output):  # a broken device test may look like a forbidden one
        return "no result", skipped[1]
    if status in (0, 3) and re.search(r"is spent; resume with|that the budget left no time for", output):
        return "partly", "its budget is spent; make this call again"
    if status and (failure := re.search(r": Failure\n(.+)", output)):
        return "FAILED", failure[1]
    if status == 124:
        return "FAILED", "stopped at its limit"
    proven = f"proven, {record['summary']['median_ms']:.1f} ms" if record and "summary" in record else "proven" if record else ""
    return {0: ("ok", proven), 3: ("no result", last_line(output))}.get(status, ("FAILED", f"exit status {status}: {last_line(output)}"))


class Call:
    """A folder, the steps that are made in it, and the time that they have. Steps that an earlier call made are left out."""

    def __init__(self, folder, name, seconds):
        self.folder, self.name, self.end = folder, name, time.monotonic() + seconds
        self.running, self.verdicts, self.is_interrupted, self.lock = [], set(), False, threading.Lock()
        for each in ("logs", "once", "counters", "packed"):
            (folder / each).mkdir(parents=True, exist_ok=True)
        self.made_file = folder / f"{name}.made"
        self.made = set(self.made_file.read_text(encoding="utf-8").splitlines()) if self.made_file.is_file() else set()
        self.summary = open(folder / "summary.txt", "a", encoding="utf-8")

    def interrupt(self, *_):
        """Begins nothing more, and ends what runs; completed runs are saved."""
        self.is_interrupted, self.end = True, 0
        for process in self.running:
            process.terminate()

    def left(self):
        return self.end - time.monotonic()

    def say(self, verdict, name, words, begun):
        line = f"{verdict:<9} {name:<34} {time.monotonic() - begun:4.0f} s  {words}".rstrip() + "\n"
        with self.lock:  # whole lines: several threads say something
            self.verdicts.add(verdict)
            if verdict in ("ok", "no result"):
                with self.made_file.open("a", encoding="utf-8") as file:
                    file.write(name + "\n")
            for file in (self.summary, sys.stdout):
                with contextlib.suppress(OSError):  # nobody reads
                    file.write(line)
                    file.flush()

    def step(self, name, seconds, *command, quiet=False, record=None, limit=None, folder=None, planted=None, **environment):
        """Runs a program that takes so many seconds, and says how it ended; its verdict. `quiet` says only what failed.
        `planted`: the gate.json of a gate that must find a slowdown."""
        begun, log = time.monotonic(), self.folder / "logs" / f"{name.replace('/', '.')}.log"
        if name in self.made:
            return "ok"
        try:
            if self.left() < seconds:
                verdict, words = "not begun", f"{max(self.left(), 0):.0f} s are left, and it takes {seconds} s; make this call again"
            else:
                with log.open("w", encoding="utf-8") as file:
                    print("$", shlex.join(map(str, command)), file=file, flush=True)
                    process = subprocess.Popen(  # --foreground: one signal for the program, none for what it started itself
                        ["timeout", "--foreground", "-k", "15", f"{min(limit or 2 * seconds, max(self.left(), 1)):.0f}", *command], cwd=folder or self.folder, stdout=file,
                        stdin=subprocess.DEVNULL, stderr=file, start_new_session=True, env={**os.environ, "LADDER_BUSY": "1", **environment})
                self.running.append(process)
                if self.is_interrupted:  # while it was started
                    process.terminate()
                status = process.wait()
                with contextlib.suppress(ProcessLookupError):  # what it has left behind
                    os.killpg(process.pid, signal.SIGKILL)
                found = json.loads(record.read_text(encoding="utf-8")) if record and record.is_file() else None
                verdict, words = judged(status, log.read_text(encoding="utf-8", errors="backslashreplace"), found)
                gate = json.loads(planted.read_text(encoding="utf-8"))["verdict"] if planted and planted.is_file() else None
                if gate in ("REGRESSION", "SAME", "IMPROVEMENT"):
                    verdict, words = "ok" if gate == "REGRESSION" else "FAILED", f"of the planted slowdown the gate says {gate}"
        except Exception as fault:  # whatever this is, the other steps are still worth making
            verdict, words = "FAILED", f"{type(fault).__name__}: {fault}"
        if not quiet or verdict == "FAILED":
            self.say(verdict, name, words, begun)
        return verdict

    def study(self, name, seconds, command, *words):
        """A study that ends when its seconds do; a second call goes on with it."""
        budget = ["--budget-s", str(max(int(min(seconds, self.left()) - 10), 1))] if command == "ablate" else []
        if (self.folder / name / "plan.json").is_file():
            named = [word for word in words if word.startswith("ladder-gpt2 ")] + (["--base", LADDER] if command == "gate" else [])
            words = [*named, "--resume"]  # programs are named again
        else:
            words = [*words, "--force"] if command != "measure" else words
        self.step(name, min(seconds, 30), LADDER, command, *words, *budget, "--out", name, limit=1.5 * seconds + 20,
                  PATH=f"{HOME}:{os.environ['PATH']}")

    def pack(self):
        """All but weights, and the timelines by themselves: files that a small machine can carry."""
        def wanted(timelines):
            def keep(info):
                is_timeline = info.name.endswith(".timeline.json")
                return None if info.name.endswith(".safetensors") or (info.isfile() and is_timeline != timelines) else info
            return keep

        for kind, timelines in (("", False), (".timelines", True)):
            with tarfile.open(self.folder / "packed" / f"{self.name}{kind}.tgz", "w:gz") as packed:
                for entry in sorted(self.folder.iterdir()):
                    if entry.name != "packed":
                        packed.add(entry, entry.name, filter=wanted(timelines))


def prove(call, plan, gpu, rungs):
    """Rungs in lanes, tests and sanitizers beside them."""
    lanes = min(3, int(gpu["memory_bytes"] / 2**30 // GIB_OF_A_RUN)) if gpu else 1

    def test(name):  # in a process of its own: if it crashes or hangs, others do not; their threads wait without spinning
        return call.step(f"test/{name}", 10, TESTS, "--gtest_color=no", f"--gtest_filter={name}", quiet=True, limit=120,
                         OMP_WAIT_POLICY="PASSIVE", OMP_NUM_THREADS="4")

    def sanitize(locks):
        if not gpu or not shutil.which("compute-sanitizer"):
            return
        with_tool = ["compute-sanitizer", "--error-exitcode", "9", "--tool"]
        (lock := Path(locks, "memcheck")).mkdir()
        ladder, last = [one for one in rungs if one[0] == plan["ladders"][0]][-1]
        call.step("memcheck", 60, *with_tool, "memcheck", TESTS, f"--gtest_filter={SANITIZED}", limit=120)
        call.step("memcheck/step", 60, *with_tool, "memcheck", str(HOME / "ladder-gpt2"), "run", "--ladder", ladder, "--rung", last, "--model", "gpt2-18m",
                  "-B", "2", "-T", "128", "--warmup", "4", "--steps", "1", limit=120, LADDER_LOCK_DIR=str(lock))
        call.step("racecheck", 60, *with_tool, "racecheck", TESTS, f"--gtest_filter={SANITIZED}", limit=120)

    begun, suite, names = time.monotonic(), "", {True: [], False: []}
    listed = subprocess.run([TESTS, "--gtest_list_tests"], stdout=subprocess.PIPE, text=True, check=False).stdout if gpu else "*"
    for indent, word in re.findall(r"^( *)(\S+)", listed, re.M):
        suite = suite if indent else word
        names[suite[:-1] in ALONE] += [suite + word] if indent else []
    names[False].sort(key=lambda name: "Kernels" not in name)
    with tempfile.TemporaryDirectory() as locks, concurrent.futures.ThreadPoolExecutor(max(1, lanes)) as pool, \
            concurrent.futures.ThreadPoolExecutor(1) as sanitizer, concurrent.futures.ThreadPoolExecutor(4) as tester:
        for ladder, rung in sorted(rungs, key=lambda one: plan["ladders"].index(one[0])):
            (Path(locks, f"{ladder}.{rung}")).mkdir()  # runs with the same folder would wait for each other
        for ladder, rung in newest_first(rungs, plan["ladders"]):
            record = call.folder / "once" / f"{ladder}.{rung}.json"
            pool.submit(call.step, f"{ladder}/{rung}", 10, LADDER, "run", "--ladder", ladder, "--rung", rung, *plan["size"].split(),
                        *plan["few"].split(), "--out", str(record), record=record, limit=90, LADDER_LOCK_DIR=str(Path(locks, f"{ladder}.{rung}")))
        sanitizer.submit(sanitize, locks)
        verdicts = [*tester.map(test, names[False] if gpu else ["*"])]
    verdicts += map(test, names[True])
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(["ok", *verdicts]))
    is_good = "ok" in verdicts or not gpu
    call.say("ok" if is_good and not {"FAILED", "not begun"} & {*verdicts} else "FAILED", "tests", counts, begun)


def newest_first(rungs, ladders):
    """The measured ladder's last rungs, the last of every other ladder, then the rest."""
    own = [one for one in reversed(rungs) if one[0] == ladders[0]]
    others = [one for one in reversed(rungs) if one[0] != ladders[0]]
    lasts = [next(one for one in others if one[0] == name) for name in dict.fromkeys(one[0] for one in others)]
    return [*own[:6], *lasts, *own[6:], *(one for one in others if one not in lasts)]


def measure(call, plan, gpu, rungs):
    ladder = plan["ladders"][0]
    own, size = [rung for name, rung in rungs if name == ladder], plan["size"].split()
    last, before = own[-1], own[-2]
    in_bf16 = next(rung for rung in reversed(own[:-1]) if not rung.startswith("fp8"))
    call.study("ladder", 345, "ablate", "--ladder", ladder, *size, *plan["study"].split())
    for rung in dict.fromkeys((last, in_bf16)):
        call.step(f"trace/{rung}", 15, LADDER, "profile", "--trace", "--roofline", "--ladder", ladder, "--rung", rung, *size, *plan["few"].split(),
                  "--out", f"trace/{rung}", limit=60)
    peers(call, plan, gpu, "peers", 200, ladder, last, plan["modes"], size)
    call.study("large", 130, "ablate", "--ladder", ladder, *plan["large"].split(), "--rung", ",".join(dict.fromkeys((in_bf16, before, last))),
               *plan["study"].split())
    trainings = [TRAINING.format(**plan, ladder=ladder, rung=rung) for rung in dict.fromkeys((in_bf16, last))]
    call.study("losses", 150, "measure", "--metric", r"validation (?P<value>\S+)", "--better", "lower", "--repeats", str(plan["repeats"]), *trainings)
    call.step("counters", 15, LADDER, "profile", "--counters", "--ladder", ladder, "--rung", last, *size, "--out", f"counters/{last}.json", limit=60)
    call.step("micro", 45, MICRO, *plan["micro"].split(), "--out", "micro.json")
    score(call, gpu)


def peers(call, plan, gpu, name, seconds, ladder, rung, modes, size):
    sys.path.insert(0, str(HOME / "share" / "gpt2-ladder" / "ablations" / "peers"))
    import compilers

    if gpu and (obstacle := compilers.obstacle(on_cuda=True)):
        call.say("no result", f"{name}, compiled", obstacle, time.monotonic())
        modes = "eager"
    sweep = re.sub(r"-B (\S+)", r"--sweep batch=\1", " ".join(size)).split()
    call.study(name, seconds, "ablate", "--ladder", ladder, "--rung", rung, *sweep, "--with-peer", "pytorch", "--peer-modes", modes, *plan["study"].split())


def score(call, gpu):
    """Each step that was predicted for this GPU, and how long it took; verdict "within" or "outside" the interval."""
    predicted = json.loads((HOME / "share" / "gpt2-ladder" / "results" / "predictions" / "hopper.json").read_text(encoding="utf-8"))
    if not gpu or gpu["name"] != predicted["device"]:
        return
    files = [call.folder / name / "study.json" for name in ("ladder", "large")]
    for study in (json.loads(file.read_text(encoding="utf-8")) for file in files if file.is_file()):
        found = {(rung["workload"]["batch"], rung["optimization"]): rung["ms_per_step"]["median"]
                 for rung in study["rungs"] if rung.get("ms_per_step") and not rung.get("peer")}
        size = (study["workload"]["model"], study["workload"]["context"])
        for step in predicted["steps"] if size == (predicted["model"], predicted["context"]) else []:
            if (ms := found.get((step["batch"], step["rung"]))) is not None:
                call.say("within" if step["low"] <= ms <= step["high"] else "outside", f"predicted/{step['rung']}-B{step['batch']}",
                         f"{step['ms']} ms [{step['low']} to {step['high']}], measured {ms:.2f}", time.monotonic())


def last_of(rungs, ladder):
    return [rung for name, rung in rungs if name == ladder][-1]


def sources(call, plan, gpu, rungs):
    ladder = plan["ladders"][0]
    whole = json.loads((HOME / "share" / "gpt2-ladder" / "ladders" / f"{ladder}.json").read_text(encoding="utf-8"))
    for name in ("mission", "order"):
        cut = {key: value for key, value in whole.items() if key != "shown"} | {"name": name, "rungs": plan[name]}
        (call.folder / f"{name}.json").write_text(json.dumps(cut, indent=1), encoding="utf-8")
    size, few = plan["size"].split(), plan["study"].split()
    call.study("without", 200, "ablate", "--ladder", "./mission.json", "--mode", "leave-one-out", *size, *few)
    call.study("order", 170, "ablate", "--ladder", "./order.json", *size, *few)
    call.study("graphs", 200, "ablate", "--ladder", ladder, "--sweep", f"batch={plan['batches']}", "--rung", plan["graphs"], *few)
    for rung in plan["attention"].split(","):
        peers(call, plan, gpu, f"peers_{rung}", 200, ladder, rung, "eager,compile" if gpu else "eager", f"-B {plan['batches']}".split())
    call.study("gate", 100, "gate", "--ladder", ladder, "--rung", last_of(rungs, ladder), *size, "--base", LADDER,
               "--pairs", str(plan["pairs"]), "--top-up", "0", *plan["few"].split())
    planted_gate(call, plan)
    call.study("float16", 240, "ablate", "--ladder", plan["float16"], *size, *few)
    train = [str(HOME / "ladder-gpt2"), "train", "--model", plan["model"], *plan["train"].split()]
    call.step("training_float16", 25, *train, "--ladder", plan["float16"], "--rung", last_of(rungs, plan["float16"]),
              "--out", "training_float16", limit=90)
    if plan["text"]:  # long enough that it is not learned by heart
        longer = [train[0], *re.sub(r"--steps \d+ .*", f"--steps {plan['long']} --validation-every 500", " ".join(train[1:])).split()]
        call.step("training", 240, *longer, "--ladder", ladder, "--rung", last_of(rungs, ladder),
                  "--data", plan["text"], "--out", "training", limit=420)


def planted_gate(call, plan):
    """A gate of two commits, the second of which is slower."""
    folder, out = call.folder / "planted", call.folder / "gate_planted"
    if not shutil.which("git"):
        return call.say("no result", "gate_planted", "git is missing", time.monotonic())
    if not (folder / ".git").is_dir():
        folder.mkdir(exist_ok=True)
        git = ["git", "-C", str(folder), "-c", "user.name=gpu-check", "-c", "user.email=gpu-check@localhost"]
        subprocess.run([*git, "init", "-q"], check=True)
        for products in (200, 206):
            (folder / "train.py").write_text(PLANTED.format(products=products), encoding="utf-8")
            subprocess.run([*git, "add", "train.py"], check=True)
            subprocess.run([*git, "commit", "-q", "-m", f"{products} products"], check=True)
    of_pairs = ["--resume"] if (out / "plan.json").is_file() else ["--pairs", str(plan["pairs"]), "--top-up", "0", "--min-effect", "1"]
    return call.step("gate_planted", 90, LADDER, "gate", "--base", "HEAD~1", "--head", "HEAD", *of_pairs, "--out", str(out), "--",
                     os.environ.get("LADDER_PYTHON", sys.executable), "train.py", limit=240, folder=folder, planted=out / "gate.json")


def main():
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="Exit status: 0 all went well, 1 a step failed or was not begun, 2 wrong usage, 3 no CUDA device "
                                     "or no working\n`ladder doctor`, 130 interrupted.")
    parser.add_argument("call", choices=["prove", "measure", "sources"])
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--seconds", type=int, metavar="N", help="what the call may take (default: 170 for prove, 540 for the others)")
    parser.add_argument("--text", metavar="FILE", type=Path, help="sources: also train 5,000 steps on this token file (.bin), of 80 million tokens or more")
    parser.add_argument("--cpu", action="store_true", help="try the call on a two-layer model without a GPU")
    options = parser.parse_args()
    if options.cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    plan = (ON_CPU if options.cpu else ON_GPU) | {"text": options.text and str(options.text.resolve())}
    begun = time.monotonic()
    try:
        found = json.loads(subprocess.run([LADDER, "doctor", "--json"], stdout=subprocess.PIPE, check=True).stdout)
        gpu, ladders = found["environment"]["gpu"], [(name, rung) for name in plan["ladders"] for rung in found["ladders"][name]]
        if gpu is None and not options.cpu:
            raise OSError(f"{found['environment']['no_gpu_reason']}; --cpu tries this script without one")
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as fault:
        print(f"gpu-check: {fault}", file=sys.stderr)
        return 3
    seconds = plan["seconds"][options.call] if options.seconds is None else options.seconds
    call = Call(options.folder.resolve(), options.call, seconds - (time.monotonic() - begun))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, call.interrupt)
    if options.call == "prove":
        call.step("doctor", 20, LADDER, "doctor", "--peaks", limit=150)
    for name, rung in ladders:
        if rung["status"] != "can be measured":
            call.say("no result", f"{name}/{rung['rung']}", rung["reason"], time.monotonic())
    {"prove": prove, "measure": measure, "sources": sources}[options.call](
        call, plan, gpu, [(name, rung["rung"]) for name, rung in ladders if rung["status"] == "can be measured"])
    call.pack()
    return 130 if call.is_interrupted else 1 if call.verdicts & {"FAILED", "not begun", "partly"} else 0


if __name__ == "__main__":
    sys.exit(main())
