"""Looks at a PyTorch program, or times its steps, without a change of the program: `ladder measure` puts this folder before PYTHONPATH.

LADDER_LOOK=FILE (never in a timed run): after a few steps of the optimizer ladder_look.py writes what the program did into FILE.
LADDER_LOOK_ROUNDING=BITS+SEED, with it: what the first steps computed when results are off by up to 2^-BITS (ladder_sketch.py), only.
LADDER_CODE=FILE (never in a timed run): the path of each Python file that is executed is appended to FILE.
LADDER_HOOK=1 with LADDER_LOG=FILE: ../ladder_client.py writes a line for each step of the optimizer, without a loss.
The other two work by a hook that PyTorch (2.0 and later) calls after each step of any optimizer, unless a CUDA graph replays the step.
Both also time how long the program waits for batches: of PyTorch's DataLoader, and of tf.data outside of a tf.function.
Nothing here imports torch, and nothing here ends the program: the first fault is said, and nothing is done from then on.
"""

import contextlib
import functools
import importlib.util
import os
import sys
import traceback
import weakref
from importlib.machinery import PathFinder

HERE = os.path.dirname(os.path.abspath(__file__))
OPTIMIZERS = "torch.optim.optimizer"  # the module that has the hook
ITERATORS = {"torch.utils.data.dataloader": "_BaseDataLoaderIter", "tensorflow.python.data.ops.iterator_ops": "OwnedIterator"}


has_failed = False


def harmless(do, *arguments):
    global has_failed
    if has_failed:
        return None
    try:
        return do(*arguments)
    except Exception:  # noqa: BLE001
        has_failed = True
        with contextlib.suppress(Exception):
            traceback.print_exc()


def load(folder, name):
    """A module of ours, hidden from the program's own imports."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hooked(do):
    """A hook of the optimizer's that ends nothing, also where torch.compile compiles the optimizer's step."""
    def hook(*arguments):
        harmless(do, *arguments)

    hook._torchdynamo_disable = True
    return hook


def at_each_step(torch_module, do):
    """Calls do(optimizer, whether a round ended): several optimizers may step in turn, and a round ends with the first one's."""
    first = None

    def step(optimizer):
        nonlocal first
        if first is None or first() is None:  # the program has dropped it
            first = weakref.ref(optimizer)
        do(optimizer, first() is optimizer)

    return torch_module.register_optimizer_step_post_hook(hooked(lambda optimizer, *_: step(optimizer)))


@functools.lru_cache(maxsize=None)
def client():
    return load(os.path.dirname(HERE), "ladder_client")


def watch(module):
    """When PyTorch's optimizers, or what batches come from, have been imported."""
    if module.__name__ in ITERATORS:
        iterator = getattr(module, ITERATORS[module.__name__])
        iterator.__next__ = client().timed(iterator.__next__)
        return
    if not hasattr(module, "register_optimizer_step_post_hook"):
        return
    if os.environ.get("LADDER_HOOK"):
        at_each_step(module, lambda _, ended: client().step() if ended else None)
    if os.environ.get("LADDER_LOOK"):
        sketch = load(HERE, "ladder_sketch").Sketch()
        look = load(HERE, "ladder_look").Look(os.environ["LADDER_LOOK"], client(), sketch)
        look.handle = at_each_step(module, look.step)
        module.register_optimizer_step_pre_hook(hooked(sketch.before))
        sketch.watch(module.Optimizer, getattr(sys.modules.get("torch.amp.grad_scaler"), "GradScaler", None))


def tell_code(path):
    """By Python's audit events: of a module, and of the main program, the compiled code is executed once."""
    file, told = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), set()

    def hook(event, arguments):
        if event == "exec" and (name := getattr(arguments[0], "co_filename", "<")) not in told and not name.startswith("<"):
            told.add(name)
            with contextlib.suppress(Exception):
                os.write(file, os.fsencode(os.path.abspath(name) + "\n"))

    sys.addaudithook(hook)


class Finder:
    """Calls watch() once such a module is imported."""

    awaited = {OPTIMIZERS, *ITERATORS}

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return harmless(watched, name) if name in cls.awaited else None


def watched(name):
    Finder.awaited.remove(name)
    spec = importlib.util.find_spec(name)
    execute = spec.loader.exec_module

    def exec_module(module):
        execute(module)
        harmless(watch, module)

    spec.loader.exec_module = exec_module
    return spec


if os.environ.get("LADDER_LOOK"):  # so that `ladder measure` knows that it was loaded
    harmless(lambda: open(os.environ["LADDER_LOOK"] + ".loaded", "w").close())
if os.environ.get("LADDER_CODE"):
    harmless(tell_code, os.environ["LADDER_CODE"])

if os.environ.get("LADDER_HOOK") or os.environ.get("LADDER_LOOK"):
    for name in Finder.awaited & set(sys.modules):  # a .pth file has imported torch
        Finder.awaited.remove(name)
        harmless(watch, sys.modules[name])
    sys.meta_path.insert(0, Finder)

# The program's own sitecustomize, which this one hides.
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
own = PathFinder.find_spec("sitecustomize", sys.path)
if own is not None:
    sys.modules["sitecustomize"] = module = importlib.util.module_from_spec(own)
    own.loader.exec_module(module)
