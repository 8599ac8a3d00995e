"""Whether torch.compile finds here what it compiles with. Standard library only: gpu-check asks it, too, without torch."""

import os
import pathlib
import shutil
import sysconfig


def obstacle(on_cuda: bool) -> str:
    """Why torch.compile cannot work, and what to do; empty where nothing is in the way.

    For a CPU Inductor compiles C++. For a GPU Triton compiles kernels itself, but their launcher with a C compiler and Python's
    headers (triton/runtime/build.py)."""
    if not on_cuda:
        compiler = os.environ.get("CXX", "g++")
        return "" if shutil.which(compiler) else (
            f"torch.compile needs a C++ compiler, and {compiler} is not there: install g++, or name another with CXX")
    named = os.environ.get("CC")
    if not any(shutil.which(name) for name in ([named] if named else ["gcc", "clang"])):
        return f"torch.compile needs a C compiler, and {named or 'gcc'} is not there: install gcc, or name another with CC"
    scheme = sysconfig.get_default_scheme()
    scheme = "posix_prefix" if scheme == "posix_local" else scheme  # Debian's own, which Triton passes over, too
    header = pathlib.Path(sysconfig.get_paths(scheme)["include"]) / "Python.h"
    return "" if header.is_file() else f"torch.compile needs Python's headers, and {header} is not there: install python3-dev"
