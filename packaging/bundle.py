#!/usr/bin/env python3
"""packaging/bundle.py --build-dir build/release --out bundle: one folder that runs wherever PyTorch 2.11 is.

A bundle is what the wheel installs (wheel.py), the programs that need PyTorch, the default text's tokens, and those libraries of
this machine that PyTorch does not bring. `cmake --install` changes the programs' library path from this machine's to the bundle's
own `lib`. The launchers of programs that need PyTorch find it on the machine where they run (environment.sh).
"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "setup"))
from toolchain import cache_folder, say  # noqa: E402

LARGEST = 48 * 10**6  # bytes
PROGRAMS = ["ladder", "ladder-gpt2", "micro", "tests/device_tests"]  # as built
# Part of the compiler and the C library, on every machine.
SYSTEM = re.compile(r"ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so")


class BundleError(Exception):
    """One line for the user: what was found, what is needed, what to do. The exit status is 2."""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip()
        raise BundleError(f"`{' '.join(map(str, command))}` failed with status {done.returncode}: {words}")
    return done.stdout


def cached(build, name):
    """A value of the build folder's CMake cache."""
    file = build / "CMakeCache.txt"
    found = re.search(rf"^{name}:\w+=(.+)$", file.read_text() if file.is_file() else "", re.M)
    if not found:
        raise BundleError(f"{build}: no {name} in its CMakeCache.txt; `make bundle` configures and builds first")
    return found[1]


def install(build, folder, component):
    """What CMakeLists.txt installs of that component, with stripped programs."""
    run(cached(build, "CMAKE_COMMAND"), "--install", build, "--component", component, "--strip", "--prefix", folder)


def needed(file):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", file))


def newest(symbols, files):
    """The newest version of GLIBC's or GLIBCXX's symbols that the programs and libraries need: "2.34"."""
    found = [version for file in files for version in re.findall(rf"Name: {symbols}_([\d.]+)", run("readelf", "--version-info", file))]
    return max(found, key=lambda text: [int(part) for part in text.split(".")])


def libraries(program, torch_folders):
    """{name: file} of the libraries that the program needs, directly or not, and that neither the system nor PyTorch has."""
    places = dict(re.findall(r"^\s*(\S+) => (/.+) \(0x", run("ldd", program), re.M))
    found, names = {}, needed(program)
    if "libcuda.so.1" in names:
        raise BundleError(f"{program} needs libcuda.so.1 and would not start without a driver; load it with dlopen")
    for name in names:  # which grows meanwhile
        if SYSTEM.match(name) or name in found:
            continue
        if name not in places:
            raise BundleError(f"{program} needs {name}, which is not on this machine")
        file = Path(places[name])
        if file.parent.resolve() not in torch_folders:
            found[name] = file
            names += needed(file)
    return found


def assemble(build, folder):
    for component in ("core", "bundle"):
        install(build, folder, component)
    torch_folders = {Path(cached(build, name)).resolve().parent for name in ("LIB_torch_cpu", "LIB_cudart")}
    (folder / "lib").mkdir()
    for built in PROGRAMS:
        for name, file in libraries(build / built, torch_folders).items():
            shutil.copy(file, folder / "lib" / name)
    data = cache_folder() / "data"
    for name in ("shakespeare.txt", "gpt2.tiktoken"):
        if not (data / name).is_file():
            raise BundleError(f"{data / name} is missing; `make data` fetches it")
    (made := folder / "share" / "gpt2-ladder" / "data").mkdir()
    run(build / "ladder", "tokenize", "--data", data / "shakespeare.txt", "--vocab", data / "gpt2.tiktoken",
        "--out", made / "shakespeare.bin")


def bundle(build, out):
    """Makes `out` again. It is assembled beside it first, so that a failure leaves the old one."""
    if out.exists() and not (out / "environment.sh").is_file():
        raise BundleError(f"{out} exists and is not a bundle; remove it, or name another folder with --out")
    stage = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    try:
        assemble(build, stage)
        size = sum(file.stat().st_size for file in stage.rglob("*") if file.is_file())
        if size > LARGEST:
            raise BundleError(f"the bundle has {size / 1e6:.1f} MB; at most {LARGEST / 1e6:.0f} MB are allowed")
        brought = ", ".join(sorted(file.name for file in (stage / "lib").iterdir())) or "none"
        files = [*(stage / "bin").iterdir(), *(stage / "lib").iterdir()]
        system = f"glibc {newest('GLIBC', files)}, GLIBCXX {newest('GLIBCXX', files)}"
        shutil.rmtree(out, ignore_errors=True)
        stage.rename(out)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    say(f"[bundle] {out}: {size / 1e6:.1f} MB; needs {system}; libraries of this machine in it: {brought}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Puts the built program and all it needs into one folder.")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", type=Path, default=ROOT / "bundle")
    options = parser.parse_args(arguments)
    try:
        bundle(options.build_dir.resolve(), options.out.absolute())
    except (BundleError, OSError) as error:
        say(f"packaging/bundle.py: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
