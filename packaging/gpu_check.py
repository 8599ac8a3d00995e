"""gpu-check [FOLDER] [--quick | --cpu] [--only STEP,...]: what only a machine with a GPU can tell, in under nine minutes.

Leaves at most eight files in FOLDER, evidence to be kept as it is: README.md, check.log (every line printed) and for each
study its numbers, and all its records and traces (evidence.py). The surprising thing: a study gets two limits. Its budget
says when it starts no more runs, and ends it well; the limit somewhat later stops it, and what it had measured by then is
analysed all the same.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from evidence import Check, Fault, collect, execute, keep, one_line, terminate_all

HOME = Path(os.environ["LADDER_HOME"])


class Study(NamedTuple):
    name: str
    weight: float          # its part of the time that is left, beside the weights of the steps after it
    arguments: str
    repeat_s: float = 0    # what one repeat takes, about: without its last runs it would lack rungs, even the reference
    traces_s: float = 0    # with --explain: what tracing every rung takes after the last run
    asked_for: bool = False  # made only where --only names it


class Plan(NamedTuple):
    seconds: float         # for all steps; a stopped one may end up to 40 later
    tests_limit_s: float
    run_s: float           # what a run takes: the last one begins so long before its study's share is used up
    run_limit_s: float     # a run that takes longer hangs
    studies: list[Study]
    profiles: list[str]    # arguments of `ladder profile`, after the first study; what they print is their evidence
    profiles_weight: float = 1
    micro: str = ""        # arguments of the micro benchmarks, which are made only where --only names them
    micro_weight: float = 2


# Weights are what one repeat of each takes, about: none is made twice before the others are made once. max-autotune
# compiles for minutes: it is left to `ladder ablate --with-peer pytorch`. The two rungs after fused_adamw do what PyTorch by
# itself does not: what it compiles is compared with what has the same numerics.
FULL = Plan(495, 80, 10, 150, [
    Study("b16", 6, "--ladder gpt2 -B 16 --repeats 3 --warmup 6 --steps 20 --explain --with-peer pytorch "
          "--peer-modes compile --peer-rung fused_adamw", repeat_s=130, traces_s=70),
    Study("b64", 3.5, "--ladder gpt2 -B 64 --repeats 3 --warmup 4 --steps 5", repeat_s=80),
    Study("leave-one-out", 2.5, "--ladder gpt2 -B 16 --repeats 3 --warmup 6 --steps 15 --mode leave-one-out", repeat_s=50),
    Study("peers", 6, "--ladder gpt2 -B 16 --repeats 2 --warmup 6 --steps 15 --with-peer pytorch "
          "--peer-modes eager,compile,cuda-graphs --peer-rung fused_adamw --peer-rung residual16", asked_for=True),
], ["--trace --roofline --rung residual16 --ladder gpt2 --warmup 5 --steps 3",
    *(f"--counters --rung {rung} --ladder gpt2 --warmup 5" for rung in ("residual16", "graph", "gpu"))],
    micro="--benchmark_filter=/cuda --benchmark_min_time=0.05")
QUICK = Plan(210, 75, 8, 60, [Study("b16", 8, "--ladder gpt2 -B 16 --repeats 1 --warmup 5 --steps 5")],
             ["--counters --rung residual16 --ladder gpt2 --warmup 5"])
ON_CPU = Plan(700, 60, 30, 300, [  # time for slow and busy machines
    Study("b16", 4, "--ladder tiny -B 16 -T 8 --repeats 1 --explain --with-peer pytorch --peer-modes eager", traces_s=60),
    Study("b64", 3, "--ladder tiny -B 64 -T 8 --repeats 1"),
    Study("leave-one-out", 3, "--ladder tiny -B 16 -T 8 --repeats 1 --mode leave-one-out"),
], ["--trace --rung flash --ladder tiny -T 8"], micro="--benchmark_filter=^gelu/.*/cpu -T 8 --benchmark_min_time=0.001")
MOST_STUDIES = 3  # two files each, beside README.md and check.log
# Tests that count or fill what all processes on the GPU share, or look who is there: one after the other, last.
ALONE = ["Monitor", "Memory", "Counting"]
ALONE_S = 30  # at least, for each of them
MOST_TESTS = 16  # at the same time: each has a context on the GPU
PROFILE_S = 30  # likewise, for each profile; a study before them leaves it


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


def device_tests(check, limit, cwd):
    """Each test in a process of its own, so that one that crashes or hangs costs only itself; most at the same time."""
    program = HOME / "bin" / "device_tests"
    with check.step("device tests", "device_tests, each by itself") as words:
        end = time.monotonic() + min(limit, check.left())
        alone_from = end - ALONE_S
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

        def tested(name):
            left = (end if name in alone else alone_from) - time.monotonic()
            if left <= 0 and name not in alone:
                return name, 0, 0, ""
            limit = max(ALONE_S, left)
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
                skipped.setdefault(why, name)  # what is broken may pass for not permitted: one reads why
            if status != 0 or "[  PASSED  ]" not in output:
                faults.append(f"{name}: {ending(status, limit)}{'' if status else ' without a verdict'}")

        with concurrent.futures.ThreadPoolExecutor(min(os.cpu_count(), MOST_TESTS)) as pool:
            try:
                for future in concurrent.futures.as_completed([pool.submit(tested, name) for name in tests]):
                    note(*future.result())
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                terminate_all()
                raise
        for name in alone:
            note(*tested(name))
        words += [f"{count} {verdict}" for verdict, count in counts.items() if count or verdict == "passed"]
        words += [f"{name} skipped: {why}" for why, name in list(skipped.items())[:3]]
        if faults:
            raise Fault("; ".join(faults))
        if check.plan is not ON_CPU and counts["passed"] == 0:
            raise Fault("no test ran on the device")


def obstacle_to_compiling():
    """Why torch.compile cannot work on this machine; empty where nothing is in the way."""
    sys.path.insert(0, str(HOME / "ablations" / "peers"))
    import compilers

    return compilers.obstacle(on_cuda=True)


def study(check, one, share, reserve, cwd):
    """`share` of the time that is left; `reserve` seconds of it are for what comes after, whatever happens here."""
    after = check.plan.run_s + one.traces_s
    budget = max(1, int(min(max(share * check.left() - after, one.repeat_s), check.left() - reserve - after)))
    limit = max(1, min(check.left() - reserve, budget + 3 * check.plan.run_s + 2 * one.traces_s))
    missing = obstacle_to_compiling() if "compile" in one.arguments else ""
    # What can be measured without a compiler is.
    arguments = re.sub(r"--peer-modes \S+", "--peer-modes eager", one.arguments) if missing else one.arguments
    shown = f"ladder ablate {arguments} --limit {check.plan.run_limit_s:.0f} --budget-s {budget} --out {one.name}"
    with check.step(one.name, shown) as words:
        folder = cwd / one.name
        if missing:
            words.append(f"PyTorch without torch.compile: {missing}")
        try:
            status, _ = check.run([HOME / "bin" / "ladder", *shlex.split(shown)[1:]], shown, limit, cwd)
        finally:  # whatever happened, an interrupt, too
            if (folder / "plan.json").is_file() and not (folder / "study.json").is_file():
                # Its status does not count: the pictures may not be drawable here.
                check.run([HOME / "bin" / "ladder", "report", one.name], f"ladder report {one.name}", 30, cwd)
            if (folder / "study.json").is_file():
                words.append(collect(check, one.name, folder))
        if status != 0:
            raise Fault(ending(status, limit))


def profile(check, arguments, limit, study_name, cwd):
    """What it prints goes into the log; its document, to the records of the study, or where there is none, into a file."""
    shown = f"ladder profile {arguments}"
    kind = "trace" if "--trace" in arguments else "counters"
    with check.step("profile", shown) as words, tempfile.TemporaryDirectory(dir=cwd) as folder:
        out = Path(folder) / ("." if kind == "trace" else "step.counters.json")
        status, output = check.run([HOME / "bin" / "ladder", *shlex.split(shown)[1:], "--out", str(out)], shown, limit, cwd)
        if status == 3:  # counters may not be permitted
            words.append("not available here: " + (output.strip().splitlines() or ["it does not say why"])[-1])
        elif status != 0:
            raise Fault(ending(status, limit))
        of_study = check.folder / f"{study_name}.records.jsonl"
        kept = of_study if of_study.is_file() else check.folder / f"profile.{kind}.json"
        lines = kept.read_text(encoding="utf-8") if kept.is_file() else ""
        for file in sorted(Path(folder).glob(f"*.{kind}.json")):
            # A report shows what lies in with/; counters it does not know.
            place = f"with/{file.name}" if kind == "trace" else f"counters/{len(lines)}.json"
            lines += one_line(file, place if kept == of_study else None)
        if lines:
            keep(kept, lines)


def micro(check, limit, cwd):
    shown = f"micro {check.plan.micro} --out micro.json"
    with check.step("micro", shown) as words:
        status, _ = check.run([HOME / "bin" / "micro", *shlex.split(shown)[1:]], shown, limit, cwd)
        if (cwd / "micro.json").is_file():
            document = json.loads((cwd / "micro.json").read_text(encoding="utf-8"))
            for field in ("host_name", "executable"):
                document["context"].pop(field, None)
            words.append(f"{len(document['benchmarks'])} benchmarks")
            keep(check.folder / "micro.json", json.dumps(document, indent=1) + "\n")
        if status != 0:
            raise Fault(ending(status, limit))


def environment_here():
    limit = 150  # the first start on a machine may read gigabytes of libraries
    try:
        status, output = execute([HOME / "bin" / "ladder", "doctor", "--json"], limit, None, stderr=None)
    except OSError as fault:
        raise Fault(f"ladder doctor cannot start: {fault}") from fault
    if status != 0:
        raise Fault(f"ladder doctor: {ending(status, limit)}")
    try:
        return json.loads(output)["environment"]
    except (ValueError, KeyError) as fault:
        raise Fault("ladder doctor --json does not print the environment") from fault


def in_words(environment):
    gpu, cpu = environment["gpu"], environment["cpu"]
    changed = " and changes" if environment["git_dirty"] else ""
    return (f"{gpu['name'] if gpu else environment['no_gpu_reason']}; CPU {cpu['model']}, {cpu['logical_cores']} cores; torch "
            f"{environment['torch']}, CUDA {environment['cuda']}, driver for CUDA {environment['driver_cuda'] or 'none'}, cuDNN "
            f"{environment['cudnn'] or 'not asked'}; {environment['kernel']}; ladder built from commit "
            f"{environment['git_commit']}{changed}, {environment['compiler_flags'].strip()}, GCC {environment['compiler']}.")


def steps_of(plan):
    """The names of the steps in their order, each with its weight for sharing out the time."""
    first, *others = ((one.name, one.weight) for one in plan.studies)
    return [("doctor", 0), ("tests", 0), first, ("profiles", plan.profiles_weight), *others,
            *([("micro", plan.micro_weight)] if plan.micro else [])]


def main():
    start = time.monotonic()
    parser = argparse.ArgumentParser(prog="gpu-check", description="Device tests, the ladder at B=16 and B=64, and "
                                     "leave-one-out on one GPU, in under nine minutes. Exit status: 0 all went well, 1 a step "
                                     "failed or files cannot be written, 2 wrong usage, 3 no CUDA device or `ladder doctor` "
                                     "does not work here, 130 interrupted (SIGINT, SIGTERM or SIGHUP).")
    everything = ", ".join(name for name, _ in steps_of(FULL))
    parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path, help="default: ./gpu-check-<device>-<date>")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--quick", action="store_true", help="one short run of each rung, under four minutes: does the program work here?")
    kind.add_argument("--cpu", action="store_true", help="a two-layer model without a GPU: CPU figures, to try out this script")
    parser.add_argument("--only", metavar="STEP,...", default=[], type=lambda text: text.split(","),
                        help=f"only these steps, which then have all the time: {everything} (the last two, PyTorch's modes "
                        "beside every rung and the micro benchmarks, are made only where they are named)")
    options = parser.parse_args()
    plan = ON_CPU if options.cpu else QUICK if options.quick else FULL
    steps = steps_of(plan)
    if unknown := [name for name in options.only if name not in dict(steps)]:
        parser.error(f'--only: there is no step "{unknown[0]}" here; there are {", ".join(dict(steps))}')
    kept_apart = set(options.only) - {"doctor", "tests", *(["profiles"] if plan.studies[0].name in options.only else [])}
    if len(kept_apart) > MOST_STUDIES:
        parser.error(f"--only: {len(kept_apart)} of these steps leave files, and with more than {MOST_STUDIES} they would be more "
                     "than eight")
    left_out = ["micro", *(one.name for one in plan.studies if one.asked_for)]
    steps = [step for step in steps if (step[0] in options.only if options.only else step[0] not in left_out)]

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

    title = "A check without a GPU: CPU figures" if options.cpu else f"A check on one {device}" + ", quick" * options.quick
    check = Check(folder.resolve(), plan, title, in_words(environment), time.monotonic() - start)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as cwd:
        for number, (name, weight) in enumerate(steps):
            share = weight / (sum(later for _, later in steps[number:]) or 1)
            if name == "doctor":
                doctor(check, Path(cwd))
            elif name == "tests":
                later = [name for name, _ in steps[number + 1:]]
                has_studies = any(one.name in later for one in plan.studies) or "micro" in later
                left = check.left() - PROFILE_S * len(plan.profiles) * ("profiles" in later)
                device_tests(check, plan.tests_limit_s if has_studies else left, Path(cwd))
            elif name == "profiles":
                limit = max(PROFILE_S, share * check.left() / len(plan.profiles))
                for arguments in plan.profiles:
                    profile(check, arguments, min(limit, check.left()), plan.studies[0].name, Path(cwd))
            elif name == "micro":
                micro(check, share * check.left(), Path(cwd))
            else:
                profiles_follow = any(later == "profiles" for later, _ in steps[number:])
                study(check, next(one for one in plan.studies if one.name == name), share,
                      PROFILE_S * len(plan.profiles) if profiles_follow else 0, Path(cwd))
    check.say(f"\n{folder}: {', '.join(sorted(file.name for file in folder.iterdir()))}")
    check.write_readme()
    return 0 if all(outcome.good for outcome in check.outcomes) else 1


def interrupt_once(number, frame):
    signal.signal(number, signal.SIG_IGN)  # a shell that ends and the kernel both send SIGHUP: the second must not cost the records
    raise KeyboardInterrupt


def exit_status():
    try:
        return main()
    except KeyboardInterrupt:
        return 130
    except (Fault, OSError) as fault:  # steps keep theirs: a Fault is the environment's
        with contextlib.suppress(OSError):
            print(f"gpu-check: {fault}", file=sys.stderr)
        return 3 if isinstance(fault, Fault) else 1


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is measured is kept
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, interrupt_once)
    status = exit_status()
    try:
        sys.stdout.flush()
    except OSError:  # Python would try again at its end, and make the status 120
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)
