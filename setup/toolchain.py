#!/usr/bin/env python3
"""Makes everything the compiler needs: Debian's libraries and a private Python environment.

LibTorch, nvcc, cmake and ninja come as Python packages, pinned by hash in requirements.txt, so the
environment is a build tool here and nothing is installed into the user's own Python.
A folder counts only if it has its `.complete` stamp, which is written last. A folder without a stamp
is an interrupted set-up: it is removed and made again.

    setup/toolchain.py [--tests]     make what is missing (quick, and no network, when nothing is); --steps N: of N steps
    setup/toolchain.py --print-env   print the environment's path and do nothing else; --print-tests: that of
                                     the tests' packages; --print-jobs: how many compilers fit into memory
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
REQUIREMENTS = ROOT / "requirements.txt"
TEST_REQUIREMENTS = ROOT / "requirements-test.txt"
OLDEST_PYTHON = (3, 11)  # what requirements.txt is locked for
DEBIAN_PACKAGES = [
    "nlohmann-json3-dev", "libcli11-dev", "libfmt-dev", "libpcre2-dev", "libboost-math-dev",
    "libgtest-dev", "libbenchmark-dev", "ccache",
]
BROWSERS = ["chromium", "google-chrome", "chromium-browser"]  # any of them will do
GB = 10**9
MEMORY_PER_JOB = 2 * GB  # one LibTorch source file at -O2, with room to spare


class SetupError(Exception):
    """One line for the user: what was found, what is needed, what to do. The exit status is 2."""


def say(line):
    print(line, file=sys.stderr, flush=True)


def duration(seconds):
    return f"{seconds / 60:.0f} min {seconds % 60:.0f} s" if seconds >= 60 else f"{seconds:.0f} s"


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
        with open(file, "ab") as log:
            log.truncate(0)
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


def succeeds(command, **options):
    return subprocess.run(command, stdout=log, stderr=log, check=False, **options).returncode == 0


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules say that a relative path here is to be ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "gpt2-ladder"


def key(requirements):
    digest = hashlib.sha256(requirements.read_bytes())
    digest.update("{}.{}".format(*sys.version_info).encode())
    return digest.hexdigest()[:12]


def environment():
    return cache_folder() / f"toolchain-{key(REQUIREMENTS)}"


def test_packages():
    return cache_folder() / f"test-packages-{key(TEST_REQUIREMENTS)}"


def is_complete(folder):
    python = folder / "bin/python"  # a dangling link once the Python it was made with is gone
    return (folder / ".complete").is_file() and (python.exists() or not python.is_symlink())


def jobs():
    """How many compilers at once: one per processor, unless memory holds fewer."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory // MEMORY_PER_JOB))


# --- Debian packages -------------------------------------------------------------------------------

def missing_debian_packages():
    found = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", *DEBIAN_PACKAGES],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.splitlines()
    return [name for name in DEBIAN_PACKAGES if f"installed {name}" not in found]


def root_prefix():
    """The words before a command that make it run as root without asking, or None."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo"):
        asked = subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        if asked.returncode == 0:
            return ["sudo", "-n"]
    return None


def apt_get_install(prefix, packages):
    """Whether apt-get installed them."""
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120"]
    # A stale list of another repository is no reason to stop: the installation itself shows whether it works.
    succeeds([*apt, "update"])
    return succeeds([*apt, "install", "-y", "--no-install-recommends", *packages])


def ensure_debian_packages(number):
    if not (shutil.which("apt-get") and shutil.which("dpkg-query")):
        say("This system has no apt-get: cmake will look for nlohmann-json, CLI11, fmt, pcre2, Boost.Math, "
            "GoogleTest and Google Benchmark in the system; install those that are missing, and ccache.")
        return
    missing = missing_debian_packages()
    if not missing:
        return
    prefix = root_prefix()
    if prefix is None:
        raise SetupError("Debian packages are missing and this user cannot become root without a password; "
                         f"type: sudo apt-get install --no-install-recommends {' '.join(missing)}")
    with step(number, "Debian packages"):
        if not apt_get_install(prefix, missing):
            raise SetupError("apt-get (its words are above) did not install the Debian packages "
                             f"{' '.join(missing)}; install them, then run this again.")


def ensure_browser(number):
    """Chromium for the tests of the report's page; without it they are skipped, so that nothing else waits for it."""
    if any(shutil.which(name) for name in BROWSERS):
        return
    skipped = "the tests of the report's page will be skipped"
    prefix = root_prefix() if shutil.which("apt-get") else None
    if prefix is None:
        say(f"There is no browser ({', '.join(BROWSERS)}), so {skipped}; Debian's is the package chromium.")
        return
    with step(number, "browser"):
        installed = apt_get_install(prefix, ["chromium"])
    if not installed:
        say(f"apt-get did not install chromium, so {skipped}; why is in {cache_folder()}/setup.log.")


# --- Folders made once -----------------------------------------------------------------------------

def ensure_folder(folder, number, what, gigabytes, make):
    """Fills `folder` with make(lock) once, even if others try at the same time. The stamp comes last."""
    if is_complete(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{number} another set-up is making {folder}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if is_complete(folder):
            return
        if folder.exists():
            say(f"{number} {folder} is from an interrupted set-up: removing it and starting again")
            shutil.rmtree(folder)
        free = shutil.disk_usage(folder.parent).free
        if free < gigabytes * GB:
            raise SetupError(f"{folder.parent} has {free / GB:.1f} GB free and the set-up needs {gigabytes} GB; "
                             "free some, or set XDG_CACHE_HOME to a folder on a larger disk.")
        with step(number, what):
            make(lock)
            (folder / ".complete").touch()


# What would have pip install elsewhere, or nothing. Its index and its proxy are the user's.
NO_OTHER_PLACE = {"PIP_USER": "0", "PIP_TARGET": "", "PIP_PREFIX": "", "PIP_ROOT": "", "PIP_DRY_RUN": "0"}


def run_step(command, lock, **more_environment):
    """Runs a step's program. It holds the lock, too, because the pip of a killed set-up may outlive the set-up."""
    if not succeeds(command, pass_fds=[lock.fileno()], env={**os.environ, **NO_OTHER_PLACE, **more_environment}):
        raise SetupError(f"`{' '.join(map(str, command))}` failed (its words are above); run this again when the network "
                         "or the package index is back.")


def pip_install(lock, temporary, *arguments):
    """pip of the environment. Its downloads go to `temporary`, which is on the disk that was checked."""
    temporary.mkdir()
    run_step([environment() / "bin/python", "-I", "-m", "pip", "install", "--require-hashes",
              "--only-binary", ":all:", "--disable-pip-version-check", *arguments], lock, TMPDIR=str(temporary))
    shutil.rmtree(temporary)


def check_installed(package):
    """Checks the place, because a pip.conf may set another one."""
    if not package.is_dir():
        raise SetupError(f"pip has installed nothing in {package.parent}: `python3 -m pip config list` shows a target, "
                         "prefix or root; take it out, and run this again.")


def make_environment(lock):
    folder = environment()
    # The base interpreter, so that an activated environment never becomes the parent of this one.
    run_step([getattr(sys, "_base_executable", sys.executable), "-m", "venv", folder], lock)
    pip_install(lock, folder / "tmp", "-r", REQUIREMENTS)
    site_packages = folder / "lib/python{}.{}/site-packages".format(*sys.version_info)
    check_installed(site_packages / "torch")
    (folder / "site-packages").symlink_to(site_packages.relative_to(folder))
    link_cuda_libraries(site_packages / "nvidia/cu13")


def link_cuda_libraries(toolkit):
    """Adds the names a linker looks for, which the packages leave out: libX.so, and lib64."""
    if not toolkit.is_dir():
        return  # no CUDA packages for this system
    for library in sorted((toolkit / "lib").iterdir()):
        versioned = re.fullmatch(r"(lib.+\.so)\.[0-9.]+", library.name)
        if versioned and not (toolkit / "lib" / versioned[1]).exists():
            (toolkit / "lib" / versioned[1]).symlink_to(library.name)
    if not (toolkit / "lib64").exists():
        (toolkit / "lib64").symlink_to("lib")


def make_test_packages(lock):
    folder = test_packages()
    folder.mkdir()
    pip_install(lock, folder / "tmp", "--no-deps", "--target", folder, "-r", TEST_REQUIREMENTS)
    check_installed(folder / "pytest")


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


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Makes everything the compiler needs.")
    parser.add_argument("--tests", action="store_true", help="also the packages that only the tests import")
    parser.add_argument("--steps", type=int, help="how many steps there are with those that follow")
    parser.add_argument("--print-env", action="store_true", help="only print the environment's path")
    parser.add_argument("--print-tests", action="store_true", help="only print the path of the tests' packages")
    parser.add_argument("--print-jobs", action="store_true", help="only print how many compilers fit this machine")
    options = parser.parse_args(arguments)
    printed = [(options.print_env, environment), (options.print_tests, test_packages), (options.print_jobs, jobs)]
    try:
        if any(wanted for wanted, _ in printed):
            print(*(value() for wanted, value in printed if wanted), sep="\n")
        else:
            ensure_all(options.tests, options.steps or (4 if options.tests else 2))
    except (SetupError, OSError) as error:
        say(f"setup/toolchain.py: {error}")
        return 2
    except KeyboardInterrupt:
        say("setup/toolchain.py: interrupted; the next run starts the unfinished step again.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
