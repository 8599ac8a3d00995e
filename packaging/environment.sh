# Sourced by `ladder-gpt2`, `micro` and `gpu-check`, which set `home` to the bundle's folder: finds the libraries of the PyTorch that is
# installed here. It looks torch up and does not import it, which would take seconds.

LADDER_PYTHON=${LADDER_PYTHON:-python3}
if ! LADDER_PYTHON=$(command -v "$LADDER_PYTHON"); then
  echo "ladder: there is no python3 on PATH (or LADDER_PYTHON names none); install python3 with torch 2.11, or name one:" \
    "LADDER_PYTHON=/path/to/python" >&2
  exit 3
fi
case $LADDER_PYTHON in /*) ;; *) LADDER_PYTHON=$PWD/$LADDER_PYTHON ;; esac

ladder_libraries=$("$LADDER_PYTHON" -c '
import glob, importlib.util, os, re, sys

def refuse(fault):
    import sysconfig
    words = f"{sys.executable} -m pip install torch==2.11.0, or name another python with LADDER_PYTHON"
    if sys.prefix == sys.base_prefix and os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")):
        # Its own pip refuses.
        words = f"{sys.executable} -m venv ~/torch && ~/torch/bin/pip install torch==2.11.0, and set LADDER_PYTHON=~/torch/bin/python"
    print(f"ladder: {sys.executable} has {fault}; type: {words}", file=sys.stderr)
    sys.exit(3)

sys.path[:] = [folder for folder in sys.path if folder]  # a folder "torch" in the working directory is not PyTorch
spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    refuse("no torch, and 2.11 is needed")
root = os.path.dirname(os.path.abspath(spec.origin))
try:
    with open(os.path.join(root, "version.py"), encoding="utf-8") as file:
        text = file.read()
except OSError:
    text = ""
values = {name: re.search(rf"""^{name}\b[^=\n]*=\s*["\x27]([^"\x27]+)""", text, re.M) for name in ("__version__", "cuda")}
version, cuda = (found[1] if found else "" for found in values.values())
if version.split("+")[0].split(".")[:2] != ["2", "11"]:
    words = version or "of an unknown version"
    refuse(f"torch {words} in {root}, and 2.11 is needed")
if cuda.split(".")[0] != "13":
    built = f"for CUDA {cuda}" if cuda else "without CUDA"
    refuse(f"torch {version} in {root}, built {built}, and the build for CUDA 13 is needed (it runs without a GPU, too)")
print(":".join([os.path.join(root, "lib"), *sorted(glob.glob(os.path.join(glob.escape(os.path.dirname(root)), "nvidia/*/lib")))]))
') || {
  ladder_status=$?
  [ $ladder_status = 3 ] || echo "ladder: $LADDER_PYTHON does not work (exit status $ladder_status);" \
    "LADDER_PYTHON names another python" >&2
  exit 3
}

# A peer's Python brings its own PyTorch, and must not load this one (ablations/gpt2/child.cpp).
LADDER_USERS_LIBRARY_PATH=${LADDER_USERS_LIBRARY_PATH-${LD_LIBRARY_PATH-}}
LD_LIBRARY_PATH=$ladder_libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LADDER_PYTHON LADDER_USERS_LIBRARY_PATH LD_LIBRARY_PATH
