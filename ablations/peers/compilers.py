"""Checks that torch.compile finds its compilers here. Standard library only, because gpu-check starts without torch."""

import os
import pathlib
import shutil
import sysconfig


def obstacle(on_cuda: bool) -> str:
    """Why torch.compile cannot work, and what to do; empty if it can.

    For a CPU Inductor compiles C++. For a GPU Triton compiles kernels itself, but their launcher with a C compiler
    (triton/runtime/build.py). Both with Python's headers."""
    language, variable, usual = ("C", "CC", ["gcc", "clang"]) if on_cuda else ("C++", "CXX", ["g++"])
    named = os.environ.get(variable)
    if not any(shutil.which(name) for name in ([named] if named else usual)):
        return (f"torch.compile needs a {language} compiler, and {named or usual[0]} is not there: install {usual[0]}, or name another "
                f"with {variable}")
    scheme = sysconfig.get_default_scheme()
    scheme = "posix_prefix" if scheme == "posix_local" else scheme  # Debian's own, which Triton passes over, too
    header = pathlib.Path(sysconfig.get_paths(scheme)["include"]) / "Python.h"
    return "" if header.is_file() else f"torch.compile needs Python's headers, and {header} is not there: install python3-dev"
