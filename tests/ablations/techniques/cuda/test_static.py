"""What nvcc makes of each kernel for sm_90 is what the head of its file says: registers, threads, how many of a
multiprocessor's 64 warps run at once, and 16-byte accesses. No kernel spills registers or has a stack."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
TECHNIQUES = ROOT / "ablations/techniques"
SOURCES = sorted(TECHNIQUES.glob("*/*.cu"))
STATED = re.compile(r"^// +(\w+_kernel)(?:<([\d, ]+)>)? +(\d+) registers, (\d+) threads, (\d+) warps of 64"
                    r"(?:, (\d+) bytes)?(?:, 16-byte (loads)( and stores)?)?$", re.M)

REGISTERS, SHARED_BYTES, MOST_BLOCKS, MOST_WARPS = 65536, 228 << 10, 32, 64  # of a multiprocessor of sm_90


def nvcc() -> str:
    found = os.environ.get("NVCC") or shutil.which("nvcc")
    if not found or not os.access(found, os.X_OK):
        pytest.skip("nvcc was not found")
    version = re.search(r"release (\S+),", subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout)
    if version is None or version[1] != "13.0":
        pytest.skip(f"the files' heads say what nvcc 13.0 makes, and {found} is {version and version[1]}")
    return found


def cuobjdump() -> str:
    """The toolkit's, or that of triton's wheel, which comes with PyTorch's."""
    folders = [pathlib.Path(nvcc()).parent, *(pathlib.Path(p) / "triton/backends/nvidia/bin" for p in sys.path)]
    found = next((str(folder / "cuobjdump") for folder in folders if (folder / "cuobjdump").is_file()), shutil.which("cuobjdump"))
    if not found:
        pytest.skip("cuobjdump was not found")
    return found


def warps(registers: int, threads: int, shared: int) -> int:
    """How many run at once: registers go to a warp in blocks of 256, shared memory to a block with 1 KiB for the system."""
    own = threads // 32
    by_registers = REGISTERS // (-(-registers * 32 // 256) * 256) // own
    return own * min(by_registers, SHARED_BYTES // (shared + 1024), MOST_BLOCKS, MOST_WARPS // own)


def stated_in(source: pathlib.Path) -> dict:
    """(kernel, its numbers among the template's arguments or "" for all others) -> (registers, threads, warps, bytes of dynamic
    shared memory, loads, stores)."""
    lines = STATED.findall(source.read_text())
    assert lines, f"{source} states nothing"
    return {(name, form): (*(int(number or 0) for number in numbers), bool(loads), bool(stores))
            for name, form, *numbers, loads, stores in lines}


def key_of(mangled: str, stated) -> tuple[str, str]:
    names = {name for name, _ in stated if f"{len(name)}{name}" in mangled}
    assert len(names) == 1, f"{mangled} is none of those that the file's head states"
    name = names.pop()
    form = ", ".join(re.findall(r"Li(\d+)E", mangled))
    return (name, form) if (name, form) in stated else (name, "")


@pytest.fixture(scope="module", name="built")
def fixture_built(tmp_path_factory):
    """For each file: the cubin, and what ptxas says of each kernel: (registers, stack and spilled bytes, shared bytes, threads)."""
    folder, all_files = tmp_path_factory.mktemp("cubin"), {}
    running = {}
    for source in SOURCES:
        keep = folder / source.stem
        keep.mkdir()
        command = [nvcc(), "-std=c++20", "-O3", "-arch=sm_90", "-cubin", "-Xptxas", "-v", "--keep", "--keep-dir", keep, "-I", ROOT,
                   source, "-o", keep / "kernels.cubin"]
        running[source] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for source, process in running.items():
        said, _ = process.communicate()
        assert process.returncode == 0, said
        keep = folder / source.stem
        kernels = {}
        for part in said.split("Compiling entry function '")[1:]:
            on_stack = sum(map(int, re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill", part).groups()))
            registers, shared = re.search(r"Used (\d+) registers", part), re.search(r"(\d+) bytes smem", part)
            kernels[part.split("'")[0]] = (int(registers[1]), on_stack, int(shared[1]) if shared else 0)
        ptx = next(keep.glob("*.ptx")).read_text()
        threads = dict(re.findall(r"\.entry (\w+)\([^{]*?\.maxntid (\d+)", ptx, re.S))
        all_files[source] = (keep / "kernels.cubin", {k: (*v, int(threads[k])) for k, v in kernels.items()})
    return all_files


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.stem)
def test_resources_are_as_the_file_says(source, built) -> None:
    stated = stated_in(source)
    found = dict.fromkeys(stated, (0, MOST_WARPS))
    for mangled, (registers, on_stack, shared, threads) in built[source][1].items():
        key = key_of(mangled, stated)
        assert on_stack == 0, f"{mangled} has a stack or spills: {on_stack} bytes"
        assert threads == stated[key][1], mangled
        found[key] = (max(found[key][0], registers), min(found[key][1], warps(registers, threads, shared + stated[key][3])))
    # Of all forms that a line stands for: the most registers, the fewest warps.
    assert found == {key: (values[0], values[2]) for key, values in stated.items()}


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.stem)
def test_vectors_are_16_bytes(source, built) -> None:
    """In every form of a kernel but the one for rows that are no multiple of 16 bytes, whose width is the 1 in its name."""
    stated = stated_in(source)
    code = subprocess.run([cuobjdump(), "-sass", built[source][0]], capture_output=True, text=True, check=True).stdout
    seen = set()
    for function in code.split("Function : ")[1:]:
        mangled = function.split()[0]
        key = key_of(mangled, stated)
        assert "LDL" not in function and "STL" not in function, f"{mangled} has local memory"
        if "Li1E" in mangled:
            continue
        seen.add(key)
        if stated[key][4]:
            assert re.search(r"LDG(STS)?\.\S*128", function), f"{mangled} loads less than 16 bytes at a time"
        if stated[key][5]:
            assert re.search(r"STG\.\S*128", function), f"{mangled} stores less than 16 bytes at a time"
    assert seen == set(stated)


def test_kernels_know_nothing_of_torch() -> None:
    for file in [*SOURCES, TECHNIQUES / "cuda/device.h", TECHNIQUES / "cuda/types.h", TECHNIQUES / "products/column_strips.h"]:
        for header in re.findall(r"^#include [<\"](.+)[>\"]", file.read_text(), re.M):
            assert not header.startswith(("ATen", "c10", "torch")), f"{file} includes {header}"
            assert "<<<" not in file.read_text(), f"{file} launches a kernel without launch()"
