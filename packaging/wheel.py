#!/usr/bin/env python3
"""packaging/wheel.py --build-dir build/wheel-x86_64 --out build: the wheel of `ladder`, the program that needs no PyTorch.

pip puts the program on PATH and its files into PREFIX/share/gpt2-ladder. The tag says which C library the program needs, and which
processor. The same program makes the same bytes.
"""
import argparse
import base64
import hashlib
import re
import sys
import tempfile
import zipfile
from pathlib import Path

from bundle import ROOT, BundleError, cached, install, needed, newest
from toolchain import say

MODULES = ["client/ladder_client.py"]  # files that Python imports from anywhere
# glibc's parts, which its older versions kept apart, and the compiler's.
EVERYWHERE = re.compile(r"ld-linux-(x86-64|aarch64)|lib(c|m|dl|rt|pthread|gcc_s)\.so")
OLDEST_PYTHON = "3.10"  # that of Ubuntu 22.04: for what plots and client have
PROCESSORS = {62: "x86_64", 183: "aarch64"}  # by the number in an ELF file's head, e_machine
# What is compiled into the program, and may be passed on with its licence only: Debian's packages, which have that text.
LICENCES = {"LICENSE": ROOT / "LICENSE"} | {f"{name}.txt": Path("/usr/share/doc", name, "copyright")
                                            for name in ("libpcre2-dev", "nlohmann-json3-dev", "libcli11-dev")}

# What PyPI shows.
DESCRIPTION = """
`ladder` says whether a change makes a training program faster. It runs the commands in turn, each in a fresh process, and reads steps
and losses from what they print, in any language:

    pip install gpt2-ladder
    ladder measure 'python train.py' '+ --compile'            # is the flag faster, and does it learn the same?
    ladder gate --base main --head HEAD -- python train.py    # slower since main? An exit status for CI
    ladder report STUDY                                       # tables and Markdown; with gpt2-ladder[charts] a page and pictures
"""


def tag(program):
    """"py3-none-manylinux_2_28_x86_64" for a program that needs glibc 2.28."""
    if others := [name for name in needed(program) if not EVERYWHERE.match(name)]:
        raise BundleError(f"{program} needs {', '.join(others)}; install the static libraries, and build it again")
    processor = PROCESSORS[int.from_bytes(program.read_bytes()[18:20], "little")]
    return f"py3-none-manylinux_{'_'.join(newest('GLIBC', [program]).split('.')[:2])}_{processor}"


def metadata(version):
    """Optional packages have the version that was tested, or a newer one."""
    tested = dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "requirements.txt").read_text(), re.M))
    lines = ["Metadata-Version: 2.4", "Name: gpt2-ladder", f"Version: {version}", "License-Expression: MIT AND BSD-3-Clause",
             *(f"License-File: {name}" for name in LICENCES),
             "Summary: Measures what optimizations of a training step bring, with proofs and intervals",
             f"Requires-Python: >={OLDEST_PYTHON}", "Provides-Extra: charts", "Provides-Extra: gpt2"]
    lines += [f'Requires-Dist: {name}>={tested[name]}; extra == "charts"' for name in ("jinja2", "vl-convert-python")]
    lines += ['Requires-Dist: torch=={}.{}.*; extra == "gpt2"'.format(*tested["torch"].split("."))]
    return [*lines, "Description-Content-Type: text/markdown", *DESCRIPTION.splitlines()]


def contents(build, stage):
    """The wheel's name without ".whl", and {path in it: bytes}, of which the last is its list RECORD."""
    install(build, stage, "core")
    version, platform = cached(build, "CMAKE_PROJECT_VERSION"), tag(stage / "bin" / "ladder")
    name = f"gpt2_ladder-{version}"
    files = {f"{name}.data/scripts/ladder": (stage / "bin" / "ladder").read_bytes()}
    files |= {f"{name}.data/data/{path.relative_to(stage)}": path.read_bytes() for path in (stage / "share").rglob("*") if path.is_file()}
    files |= {Path(module).name: (ROOT / module).read_bytes() for module in MODULES}
    about = {"WHEEL": ["Wheel-Version: 1.0", "Generator: packaging/wheel.py", "Root-Is-Purelib: false", f"Tag: {platform}"],
             "METADATA": metadata(version)}
    about |= {f"licenses/{licence}": file.read_text().splitlines() for licence, file in LICENCES.items()}
    files |= {f"{name}.dist-info/{file}": "".join(f"{line}\n" for line in lines).encode() for file, lines in about.items()}
    files = dict(sorted(files.items()))
    hashes = {path: base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode() for path, content in files.items()}
    record = f"{name}.dist-info/RECORD"
    files[record] = "".join([*(f"{path},sha256={hashes[path]},{len(content)}\n" for path, content in files.items()), f"{record},,\n"]).encode()
    return f"{name}-{platform}", files


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Packs the built program without PyTorch for pip.")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "wheel-x86_64")
    parser.add_argument("--out", type=Path, default=ROOT / "build")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as stage:
            name, files = contents(options.build_dir.resolve(), Path(stage))
        with zipfile.ZipFile(wheel := options.out / f"{name}.whl", "w", zipfile.ZIP_DEFLATED) as archive:
            for path, content in files.items():
                entry = zipfile.ZipInfo(path)  # of 1980
                entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    except (BundleError, OSError) as error:
        say(f"packaging/wheel.py: {error}")
        return 2
    say(f"[wheel] {wheel}: {wheel.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
