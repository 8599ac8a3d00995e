#!/usr/bin/env python3
"""Makes everything the compiler needs: Debian's libraries and a private Python environment.

LibTorch, nvcc, cmake and ninja come as Python packages, pinned by hash in requirements.txt. Nothing is installed into the user's
own Python. A folder counts only if it has its `.complete` stamp, which is written last.

    setup/toolchain.py [--tests]     make what is missing (quick, and no network, when nothing is); --steps N: of N steps
    setup/toolchain.py --print-env   only print the environment's path; --print-tests: the path of the tests' packages;
                                     --print-jobs: how many compilers fit into memory
"""
import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = (3, 11)  # what requirements.txt is locked for
DEBIAN_PACKAGES = ["nlohmann-json3-dev", "libcli11-dev", "libfmt-dev", "libpcre2-dev", "libboost-math-dev", "libgtest-dev",
                   "libbenchmark-dev", "ccache"]
BROWSERS = ["chromium", "google-chrome", "chromium-browser"]  # any of them will do
MEMORY_PER_JOB = 2 * 10**9  # one LibTorch source file at -O2, with room to spare


class SetupError(Exception):
    """One line for the user: what was found, what is needed, what to do. The exit status is 2."""


def say(line):
    print(line, file=sys.stderr, flush=True)


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules say that a relative path here is to be ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "gpt2-ladder"


def keyed(name, requirements):
    """A folder of that name for the requirements and this Python."""
    digest = hashlib.sha256((ROOT / requirements).read_bytes() + "{}.{}".format(*sys.version_info).encode())
    return cache_folder() / f"{name}-{digest.hexdigest()[:12]}"


def environment():
    return keyed("toolchain", "requirements.txt")


def test_packages():
    return keyed("test-packages", "requirements-test.txt")


def jobs():
    """How many compilers at once: one per processor, unless memory holds fewer."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory // MEMORY_PER_JOB))


log = 2  # where the output of programs goes: within a step, its log


@contextlib.contextmanager
def step(number, what):
    """One line with the time it took. What its programs print is shown only if it fails."""
    global log
    print(f"{number} {what} ... ", end="", file=sys.stderr, flush=True)
    start = time.monotonic()
    file = cache_folder() / "setup.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(file, "wb") as log:
            yield
    except BaseException as error:
        say("failed" if isinstance(error, Exception) else "stopped")
        if isinstance(error, Exception) and file.stat().st_size:
            say(file.read_text(errors="replace").rstrip())
        raise
    finally:
        log = 2
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    say(f"{minutes} min {seconds} s" if minutes else f"{seconds} s")


def succeeds(*command, **options):
    return subprocess.run(command, stdout=log, stderr=log, check=False, **options).returncode == 0


# --- Debian packages -------------------------------------------------------------------------------

def apt_get(*arguments):
    """Whether apt-get succeeds as root. It asks for no password."""
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    return succeeds("env", *prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", *arguments)


def apt_get_install(*packages):
    apt_get("update")  # a stale list of another repository is no reason to stop: the installation itself shows whether it works
    return apt_get("install", "-y", "--no-install-recommends", *packages)


def ensure_debian_packages(number):
    if not (shutil.which("apt-get") and shutil.which("dpkg-query")):
        say("This system has no apt-get: cmake will look for nlohmann-json, CLI11, fmt, pcre2, Boost.Math, "
            "GoogleTest and Google Benchmark in the system; install those that are missing, and ccache.")
        return
    found = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", *DEBIAN_PACKAGES], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=False).stdout.splitlines()
    if missing := [name for name in DEBIAN_PACKAGES if f"installed {name}" not in found]:
        with step(number, "Debian packages"):
            if not apt_get_install(*missing):
                raise SetupError("Debian packages are missing, and apt-get (its words are above) did not install them; type: "
                                 f"sudo apt-get install --no-install-recommends {' '.join(missing)}")


def ensure_browser(number):
    """Chromium for the tests of the report's page; without it they are skipped, so that nothing else waits for it."""
    if any(shutil.which(name) for name in BROWSERS):
        return
    with step(number, "browser"):
        installed = shutil.which("apt-get") and apt_get_install("chromium")
    if not installed:
        say(f"There is no browser ({', '.join(BROWSERS)}), so the tests of the report's page will be skipped; Debian's is the package chromium.")


# --- Folders made once -----------------------------------------------------------------------------

def is_complete(folder):
    python = folder / "bin/python"  # a dangling link once the Python it was made with is gone
    return (folder / ".complete").is_file() and (python.exists() or not python.is_symlink())


def ensure_folder(folder, number, what, gigabytes, make):
    """Fills `folder` with make(folder, lock) once, even if others try at the same time. The stamp comes last."""
    if is_complete(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "setup.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{number} another set-up is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if is_complete(folder):
            return
        shutil.rmtree(folder, ignore_errors=True)  # what an interrupted set-up left
        free = shutil.disk_usage(folder.parent).free / 10**9
        if free < gigabytes:
            raise SetupError(f"{folder.parent} has {free:.1f} GB free and the set-up needs {gigabytes} GB; "
                             "free some, or set XDG_CACHE_HOME to a folder on a larger disk.")
        with step(number, what):
            make(folder, lock)
            (folder / ".complete").touch()


def run_step(lock, *command, **variables):
    """Runs a program. It holds the lock, too, because the pip of a killed set-up may outlive the set-up."""
    if not succeeds(*command, pass_fds=[lock.fileno()], env={**os.environ, **variables}):
        raise SetupError(f"`{' '.join(map(str, command))}` failed (its words are above); run this again when the network "
                         "or the package index is back.")


def pip_install(lock, folder, package, *arguments):
    """The environment's pip fills `folder`, whose disk also takes its downloads. `package` is then there."""
    (temporary := folder / "tmp").mkdir()
    run_step(lock, environment() / "bin/python", "-I", "-m", "pip", "install", "--require-hashes", "--only-binary", ":all:",
             "--disable-pip-version-check", *arguments, TMPDIR=str(temporary))
    shutil.rmtree(temporary)
    if not package.is_dir():
        raise SetupError(f"pip has installed nothing in {package.parent}: `python3 -m pip config list` shows a target, "
                         "prefix or root; take it out, and run this again.")


def make_environment(folder, lock):
    # The base interpreter, so that an activated environment never becomes the parent of this one.
    run_step(lock, getattr(sys, "_base_executable", sys.executable), "-m", "venv", folder)
    site_packages = folder / "lib/python{}.{}/site-packages".format(*sys.version_info)
    pip_install(lock, folder, site_packages / "torch", "-r", ROOT / "requirements.txt")
    (folder / "site-packages").symlink_to(site_packages.relative_to(folder))
    link_cuda_libraries(site_packages / "nvidia/cu13")


def link_cuda_libraries(toolkit):
    """Adds the names a linker looks for, which the packages leave out: libX.so, and lib64."""
    for library in sorted(toolkit.glob("lib/lib*.so.*")):  # none on a system without CUDA packages
        name = library.parent / re.sub(r"\.so\.[0-9.]+$", ".so", library.name)
        if not name.exists():
            name.symlink_to(library.name)
    if toolkit.is_dir() and not (toolkit / "lib64").exists():
        (toolkit / "lib64").symlink_to("lib")


def make_test_packages(folder, lock):
    folder.mkdir()
    pip_install(lock, folder, folder / "pytest", "--no-deps", "--target", folder, "-r", ROOT / "requirements-test.txt")


def check_python():
    if sys.version_info < OLDEST_PYTHON:
        raise SetupError("python3 is {}.{} and the locked packages need {}.{} or newer; put a newer python3 first "
                         "on PATH.".format(*sys.version_info[:2], *OLDEST_PYTHON))
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise SetupError(f"{sys.executable} has no module {module}, so it cannot make an environment; "
                             "type: sudo apt-get install python3-venv")


def ensure_all(with_tests, steps):
    check_python()
    ensure_debian_packages(f"[1/{steps}]")
    ensure_folder(environment(), f"[2/{steps}]", "LibTorch and tools (2.6 GB to fetch; with CUDA's, also without a GPU)", 11,
                  make_environment)
    if with_tests:
        ensure_browser(f"[3/{steps}]")
        ensure_folder(test_packages(), f"[4/{steps}]", "packages of the tests", 1, make_test_packages)


def exit_status(script, work):
    """Of a set-up script: says what went wrong in one line."""
    try:
        work()
    except (SetupError, OSError) as error:
        say(f"setup/{script}: {error}")
        return 2
    except KeyboardInterrupt:
        say(f"setup/{script}: interrupted; the next run starts the unfinished step again.")
        return 130
    return 0


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Makes everything the compiler needs.")
    parser.add_argument("--tests", action="store_true", help="also the packages that only the tests import")
    parser.add_argument("--steps", type=int, help="how many steps there are with those that follow")
    for name, value, what in (("env", environment, "the environment's path"), ("tests", test_packages, "the path of the tests' packages"),
                              ("jobs", jobs, "how many compilers fit this machine")):
        parser.add_argument(f"--print-{name}", dest="printed", action="append_const", const=value, default=[], help=f"only print {what}")
    options = parser.parse_args(arguments)
    for value in options.printed:
        print(value())
    if options.printed:
        return 0
    return exit_status("toolchain.py", lambda: ensure_all(options.tests, options.steps or (4 if options.tests else 2)))


if __name__ == "__main__":
    sys.exit(main())
