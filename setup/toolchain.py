#!/usr/bin/env python3
"""Makes everything the compiler needs: Debian's libraries and a private Python environment.

LibTorch, nvcc, cmake and ninja come as Python packages, pinned by hash in requirements.txt. Nothing is installed into the user's
own Python. A folder counts only if it has its `.complete` stamp, which is written last.

    setup/toolchain.py [--tests]     make what is missing (quick, and no network, when nothing is)
    setup/toolchain.py --wheel       only what `make wheel` needs: no LibTorch, and a compiler that links for old systems
    setup/toolchain.py --print-env   only print the environment's path; --print-tests: the path of the tests' packages;
                                     --print-wheel: that of the wheel's tools; --print-jobs: how many compilers fit into memory
"""
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


def wheel_tools():
    return keyed("wheel-tools", "packaging/requirements.txt")


def test_packages():
    return keyed("test-packages", "requirements-test.txt")


def jobs():
    """How many compilers at once: one per processor, unless memory holds fewer."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory // MEMORY_PER_JOB))


@contextlib.contextmanager
def step(what):
    """One line with the time it took. What goes wrong is said by the programs that are run."""
    print(f"[setup] {what} ... ", end="", file=sys.stderr, flush=True)
    start = time.monotonic()
    yield
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    say(f"{minutes} min {seconds} s" if minutes else f"{seconds} s")


def succeeds(*command, **options):
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False, **options).returncode == 0


def apt_get_install(*packages):
    """Whether apt-get, as root, has them installed. It asks for no password."""
    apt_get = [*([] if os.geteuid() == 0 else ["sudo", "-n"]), "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o",
               "DPkg::Lock::Timeout=120"]
    succeeds(*apt_get, "update")  # a stale list of another repository is no reason to stop: the installation shows whether it works
    return succeeds(*apt_get, "install", "-y", "--no-install-recommends", "--no-upgrade", *packages)


def ensure_debian_packages():
    if not (shutil.which("apt-get") and shutil.which("dpkg-query")):
        say("This system has no apt-get: cmake will look for nlohmann-json, CLI11, fmt, pcre2, Boost.Math, "
            "GoogleTest and Google Benchmark in the system; install those that are missing, and ccache.")
        return
    found = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}\n", *DEBIAN_PACKAGES], capture_output=True, text=True,
                           check=False).stdout.split()
    if found != ["installed"] * len(DEBIAN_PACKAGES):
        with step("Debian packages"):
            if not apt_get_install(*DEBIAN_PACKAGES):
                raise SetupError("Debian packages are missing, and apt-get (its words are above) did not install them; type: "
                                 f"sudo apt-get install --no-install-recommends {' '.join(DEBIAN_PACKAGES)}")


def ensure_browser():
    """Chromium for the tests of the report's page; without it they are skipped, so that nothing else waits for it."""
    if any(shutil.which(name) for name in BROWSERS):
        return
    with step("browser"):
        installed = shutil.which("apt-get") and apt_get_install("chromium")
    if not installed:
        say(f"There is no browser ({', '.join(BROWSERS)}), so the tests of the report's page will be skipped; Debian's is the package chromium.")


def is_complete(folder):
    python = folder / "bin/python"  # a dangling link once the Python it was made with is gone
    return (folder / ".complete").is_file() and (python.exists() or not python.is_symlink())


def ensure_folder(folder, what, make):
    """Fills `folder` with make(folder, lock) once; who comes second waits. The stamp comes last."""
    if is_complete(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with step(what), open(folder.parent / "setup.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_complete(folder):
            shutil.rmtree(folder, ignore_errors=True)  # what an interrupted set-up left
            make(folder, lock)
            (folder / ".complete").touch()


def run_step(lock, *command, **variables):
    """Runs a program. It holds the lock, too, because the pip of a killed set-up may outlive the set-up."""
    if not succeeds(*command, pass_fds=[lock.fileno()], env={**os.environ, **variables}):
        raise SetupError(f"`{' '.join(map(str, command))}` failed (its words are above). Run this again when the network or the "
                         "package index is back; on a full disk, set XDG_CACHE_HOME to a folder on a larger one.")


def pip_install(python, lock, folder, package, *arguments):
    """The disk of `folder` also takes the downloads. `package` is then there."""
    run_step(lock, python, "-I", "-m", "pip", "install", "-q", "--require-hashes", "--only-binary", ":all:", "--disable-pip-version-check",
             *arguments, TMPDIR=str(folder))
    if not package.is_dir():
        raise SetupError(f"pip has installed nothing in {package.parent}: `python3 -m pip config list` shows a target, "
                         "prefix or root; take it out, and run this again.")


def make_venv(folder, lock, package, requirements):
    """The environment's site-packages."""
    # The base interpreter, so that an activated environment never becomes the parent of this one.
    run_step(lock, getattr(sys, "_base_executable", sys.executable), "-m", "venv", folder)
    site_packages = folder / "lib/python{}.{}/site-packages".format(*sys.version_info)
    pip_install(folder / "bin/python", lock, folder, site_packages / package, "-r", ROOT / requirements)
    return site_packages


def make_environment(folder, lock):
    site_packages = make_venv(folder, lock, "torch", "requirements.txt")
    (folder / "site-packages").symlink_to(site_packages.relative_to(folder))
    link_cuda_libraries(site_packages / "nvidia/cu13")


def make_wheel_tools(folder, lock):
    zig = make_venv(folder, lock, "ziglang", "packaging/requirements.txt") / "ziglang/zig"
    (folder / "bin/zig").symlink_to(os.path.relpath(zig, folder / "bin"))  # which the package keeps to itself


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
    pip_install(environment() / "bin/python", lock, folder, folder / "pytest", "--no-deps", "--target", folder, "-r",
                ROOT / "requirements-test.txt")


def check_python():
    if sys.version_info < OLDEST_PYTHON:
        raise SetupError("python3 is {}.{} and the locked packages need {}.{} or newer; put a newer python3 first "
                         "on PATH.".format(*sys.version_info[:2], *OLDEST_PYTHON))
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise SetupError(f"{sys.executable} has no module {module}, so it cannot make an environment; "
                             "type: sudo apt-get install python3-venv")


def ensure_all(with_tests, for_wheel):
    check_python()
    ensure_debian_packages()
    if for_wheel:
        ensure_folder(wheel_tools(), "the wheel's tools (0.1 GB to fetch)", make_wheel_tools)
        return
    ensure_folder(environment(), "LibTorch and tools (2.6 GB to fetch, some minutes; 11 GB on disk, also without a GPU)", make_environment)
    if with_tests:
        ensure_browser()
        ensure_folder(test_packages(), "packages of the tests", make_test_packages)


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


def main(arguments):
    printed = {"--print-env": environment, "--print-tests": test_packages, "--print-wheel": wheel_tools, "--print-jobs": jobs}
    value = printed.get(" ".join(arguments))
    if value:
        print(value())
        return 0
    if arguments not in ([], ["--tests"], ["--wheel"]):
        say(f"usage: setup/toolchain.py [--tests | --wheel | {' | '.join(printed)}]")
        return 2
    return exit_status("toolchain.py", lambda: ensure_all("--tests" in arguments, "--wheel" in arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
