"""gpu-check CALL [FOLDER] [--cpu]: the checks that need a GPU, in calls of under ten minutes each (gpu_calls.py).

A call leaves at most eight files in a folder of its own, evidence to be kept as it is: README.md (what was run, how it ended,
what to do next), check.log (every line printed), and what it measured (evidence.py).
"""
import argparse
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from evidence import Check, Fault, execute
from gpu_calls import CALLS, HOME, ON_CPU, ON_GPU, Setting, carry_out, ending


def doctors_words():
    """The machine and its ladders, from `ladder doctor --json`."""
    limit = 150  # the first start on a machine may read gigabytes of libraries
    try:
        status, output = execute([HOME / "bin" / "ladder", "doctor", "--json"], limit, None, stderr=None)
    except OSError as fault:
        raise Fault(f"ladder doctor cannot start: {fault}") from fault
    if status != 0:
        raise Fault(f"ladder doctor: {ending(status, limit)}")
    try:
        found = json.loads(output)
        return found["environment"], found["ladders"]
    except (ValueError, KeyError, TypeError) as fault:
        raise Fault("ladder doctor --json does not print the environment and the ladders") from fault


def in_words(environment):
    gpu, cpu = environment["gpu"], environment["cpu"]
    device = f"{gpu['name']}, {gpu['memory_bytes'] / 2**30:.1f} GiB" if gpu else environment["no_gpu_reason"]
    changed = " and changes" if environment["git_dirty"] else ""
    return (f"{device}; CPU {cpu['model']}, {cpu['logical_cores']} cores; torch "
            f"{environment['torch']}, CUDA {environment['cuda']}, driver for CUDA {environment['driver_cuda'] or 'none'}, cuDNN "
            f"{environment['cudnn'] or 'not asked'}; {environment['kernel']}; ladder built from commit "
            f"{environment['git_commit']}{changed}, {environment['compiler_flags'].strip()}, GCC {environment['compiler']}.")


def not_measured(ladder):
    """Why rungs do not apply here: a line for each reason."""
    rungs_of = {}
    for rung in ladder:
        if rung["status"] == "not applicable here":
            rungs_of.setdefault(rung["reason"], []).append(rung["rung"])
    return [f"not measured here: {', '.join(rungs)}: {reason}" for reason, rungs in rungs_of.items()]


def how_long(name):
    return "under 3 min" if name == "smoke" else "under 10 min"


def list_of_calls():
    lines = ["gpu-check CALL [FOLDER] [--cpu]: one of these, best in this order", ""]
    lines += [f"  {name:<14} {how_long(name):<13} {does}" for name, does in CALLS.items()]
    return "\n".join([*lines, "", "Each leaves at most eight files in FOLDER (default: ./gpu-check-CALL-DEVICE-DATE). --cpu tries it "
                      "without a GPU.", "`gpu-check --help` says what an exit status means."])


def after(name):
    """The call to make next."""
    names = list(CALLS)
    following = names[names.index(name) + 1:]
    return f"gpu-check {following[0]}: {CALLS[following[0]]}" if following else "nothing: this was the last call"


def read_arguments():
    parser = argparse.ArgumentParser(
        prog="gpu-check", formatter_class=argparse.RawDescriptionHelpFormatter, description=list_of_calls(),
        epilog="Exit status: 0 all went well, 1 a step failed or files cannot be written, 2 wrong usage, 3 no CUDA device or\n"
        "`ladder doctor` does not work here, 130 interrupted (SIGINT, SIGTERM or SIGHUP).")
    parser.add_argument("call", metavar="CALL", nargs="?")
    parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path)
    parser.add_argument("--cpu", action="store_true", help="a two-layer model without a GPU: CPU figures, to try out this script")
    options = parser.parse_intermixed_args()  # FOLDER may stand after a flag
    if options.call is not None and options.call not in CALLS:
        parser.error(f'there is no call "{options.call}"; there are {", ".join(CALLS)}')
    return options


def main():
    start = time.monotonic()
    options = read_arguments()
    if options.call is None:
        print(list_of_calls())
        return 0
    if options.cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    plan = ON_CPU if options.cpu else ON_GPU
    environment, ladders = doctors_words()
    if environment["gpu"] is None and not options.cpu:
        print(f"gpu-check: {environment['no_gpu_reason']}; --cpu tries this script without one", file=sys.stderr)
        return 3
    if plan.ladder not in ladders:
        raise Fault(f"ladder {plan.ladder} is missing: `ladder doctor` knows {', '.join(ladders) or 'none'}")
    rungs = [rung["rung"] for rung in ladders[plan.ladder] if rung["status"] == "can be measured"]
    if not rungs:
        raise Fault(f"no rung of ladder {plan.ladder} can be measured here: `ladder doctor` says why")
    here = Setting(plan, rungs, environment["gpu"])
    device = environment["gpu"]["name"] if environment["gpu"] else "cpu"
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    folder = options.folder or Path(f"gpu-check-{options.call}-{slug}-{time.strftime('%Y-%m-%d', time.gmtime())}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        print(f"gpu-check: {folder} exists and is not an empty folder; name another one", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)

    title = f"gpu-check {options.call} " + ("without a GPU: CPU figures" if options.cpu else f"on one {device}")
    is_smoke = options.call == "smoke"
    seconds = plan.smoke_seconds if is_smoke else plan.seconds
    passed = 0.0 if is_smoke else time.monotonic() - start
    missing = not_measured(ladders[plan.ladder])
    about = "\n\n".join([f"`{options.call}`: {CALLS[options.call]}.", in_words(environment), *missing])
    check = Check(folder.resolve(), seconds, title, about, passed)
    for line in missing:
        check.say(line)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as cwd:
        advice = carry_out(options.call, check, here, Path(cwd))
    check.finish(advice or after(options.call))
    return 0 if check.good() else 1


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
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # completed runs are saved
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, interrupt_once)
    status = exit_status()
    try:
        sys.stdout.flush()
    except OSError:  # Python would try again at its end, and make the status 120
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)
