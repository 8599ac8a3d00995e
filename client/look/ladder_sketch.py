"""Sketches of a training's first steps: of each parameter its weights, and at each step its gradient and what the step changed.

A sketch of n numbers is their norm and eight sums of them with random signs, in float64. The mean square of the eight differences of two
sketches estimates the square of the distance between the two (Alon, Matias and Szegedy 1996), with a standard error of half of it.
The signs depend on the index of a number alone. So two parameters of the same shape can be compared whatever their names, and neither
strides nor the device matter.
Gradients are taken as the optimizer is about to use them: clipped, and without the scale of a gradient scaler.
Rounding is what the same program does when the results of its products, norms and attentions are off by a number type's unit roundoff.
"""

import gc
import math
import os
import sys
import time

STEPS = 3  # steps of each optimizer that are sketched
SUMS = 8
BLOCK = 1 << 16  # indices with signs of their own; those of a later block are all times the block's own signs
AT_ONCE = 16 * BLOCK  # numbers converted to float64 at once
WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}  # of DDP, compile, FSDP, checkpointing

# Operations whose results depend on the order of their sums, or on the number type of their inputs. Only these are perturbed: a random
# index that is made of floating-point numbers must stay as it is.
ROUNDING = ("mm", "bmm", "mv", "addmm", "baddbmm", "addbmm", "addmv", "linear", "convolution", "attention", "norm", "softmax", "gelu", "silu",
            "embedding_dense_backward", "_scaled_mm", "_grouped_mm")
# PyTorch's sums of these over the batch are rounded at each term to the number type, on a CPU: with n terms the result is off by about
# sqrt(n) roundoffs times 0.2 (layer norm's weight in bfloat16, 128 to 16384 terms; probabilistic bound: Higham and Mary 2019).
SUMS_IN_TYPE = ("native_layer_norm_backward", "embedding_dense_backward")

# What an optimizer is set to, by the names of PyTorch's. How it is computed (fused, foreach) is none of them.
SETTINGS = ("lr", "weight_decay", "betas", "eps", "momentum", "dampening", "nesterov", "amsgrad", "maximize", "alpha", "centered", "rho",
            "decoupled_weight_decay")

paused = []  # the sketch that is made: its own sums are exact


def signs(torch, first, count, device):
    """(count, SUMS) of +1 and -1 in float64: bits of splitmix64 (Steele, Lea and Flood 2014) at the indices from `first`."""
    at = torch.arange(first, first + count, device=device)
    at = at * (0x9E3779B97F4A7C15 - 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64), (31, 1)):
        at = (at ^ ((at >> shift) & (2 ** (64 - shift) - 1))) * factor
    bits = (at[:, None] >> torch.arange(SUMS, device=device)) & 1
    return (2 * bits - 1).double()


class Sums:
    """Of tensors, with the same signs: on each device they are made once."""

    def __init__(self, torch):
        self.torch, self.tables = torch, {}

    def of(self, tensor):
        """Norm and sums of a tensor's numbers in the order of their indices: (1 + SUMS) of float64, on its device. None: no such numbers."""
        torch, tensor = self.torch, tensor.detach()
        if hasattr(tensor, "to_local"):  # a shard
            tensor = tensor.to_local()
        if tensor.layout != torch.strided:
            tensor = tensor.to_dense()
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor)
        if not tensor.is_floating_point() or tensor.device.type == "meta":
            return None
        flat, device = tensor.reshape(-1), tensor.device
        if device not in self.tables:
            self.tables[device] = signs(torch, 0, BLOCK, device)
        table, found = self.tables[device], torch.zeros(1 + SUMS, dtype=torch.float64, device=device)
        for begin in range(0, flat.numel(), AT_ONCE):
            part = flat[begin : begin + AT_ONCE].double()
            found[0] += part.dot(part)
            whole = part.numel() // BLOCK
            if begin + part.numel() <= BLOCK:
                found[1:] += part @ table[: part.numel()]
                continue
            own = signs(torch, BLOCK + begin // BLOCK, whole + 1, device)
            found[1:] += (part[: whole * BLOCK].view(whole, BLOCK) @ table * own[:whole]).sum(0)
            found[1:] += part[whole * BLOCK :] @ table[: part.numel() - whole * BLOCK] * own[whole]
        found[0] = found[0].sqrt()
        return found

    def of_all(self, tensors):
        """Lists of numbers, of those that are none a list of zeros. Waits for each device once."""
        found, by_device = [None if one is None else self.of(one) for one in tensors], {}
        for i, one in enumerate(found):
            if one is not None:
                by_device.setdefault(one.device, []).append(i)
        lists = [[0.0] * (1 + SUMS) for _ in tensors]
        for indices in by_device.values():
            for i, numbers in zip(indices, self.torch.stack([found[i] for i in indices]).tolist()):
                lists[i] = numbers
        return lists


def settings_of(optimizer, group):
    """Of a parameter group: the optimizer's class, and a list of numbers by name. A tensor, as a captured step needs, is a number, too."""
    found = {"optimizer": type(optimizer).__name__}
    for name in SETTINGS:
        value = group.get(name)
        try:
            numbers = [float(one) for one in (value if isinstance(value, (tuple, list)) else [value])]
        except (TypeError, ValueError):
            continue  # not set, or no number
        if all(map(math.isfinite, numbers)):
            found[name] = numbers
    return found


def named_parameters(parameters):
    """(name, parameter) of these, and of all others of the modules that have one of them: named by the largest module."""
    Module, wanted = sys.modules["torch.nn"].Module, {id(one) for one in parameters}
    modules = [one for one in gc.get_objects() if issubclass(type(one), Module) and "_modules" in one.__dict__]
    inner = {id(child) for one in modules for child in one._modules.values()}
    roots = []
    for root in (one for one in modules if id(one) not in inner):
        own = list(root.named_parameters())
        if any(id(one) in wanted for _, one in own):
            roots.append((root, own))
    named, names = {}, set()
    for root, own in sorted(roots, key=lambda each: (-len(each[1]), type(each[0]).__name__)):
        for name, one in own:
            name = ".".join(part for part in name.split(".") if part not in WRAPPERS)
            name = f"{type(root).__name__}.{name}" if name in names else name
            if id(one) not in named and name not in names:
                named[id(one)] = name, one
                names.add(name)
    for one in parameters:
        named.setdefault(id(one), ("", one))  # of no module, or one of many with its name
    return list(named.values())


class Sketch:
    """The two hooks of the optimizers, before and after a step. `seconds`: what they have taken. `mode`: of LADDER_LOOK_ROUNDING."""

    def __init__(self, steps=STEPS):
        self.steps, self.seconds, self.entries, self.taken, self.skipped, self.failure, self.mode = steps, 0.0, {}, {}, 0, "", None
        self.settings = []  # of each parameter group

    def watch(self, Optimizer, GradScaler):
        """From the first optimizer on results are off, if asked; before that a program draws its weights. Counts steps that are skipped."""
        of_optimizer, asked = Optimizer.__init__, os.environ.get("LADDER_LOOK_ROUNDING")

        def begin(optimizer, *arguments, **options):
            Optimizer.__init__ = of_optimizer
            torch = sys.modules["torch"]
            torch.set_num_threads(max(1, torch.get_num_threads() // 2))
            self.mode = rounding(torch, *map(int, asked.split("+")))
            self.mode.__enter__()
            of_optimizer(optimizer, *arguments, **options)

        if asked:
            Optimizer.__init__ = begin
        of_scaler = getattr(GradScaler, "step", None)

        def step(scaler, optimizer, *arguments, **options):
            before = self.taken.get(id(optimizer), 0)
            result = of_scaler(scaler, optimizer, *arguments, **options)
            if before < self.steps and self.taken.get(id(optimizer), 0) == before:
                self.skipped += 1
            return result

        if of_scaler:
            GradScaler.step = step

    def before(self, optimizer, arguments, options):
        self.timed(self._before, optimizer, "closure" in options or any(map(callable, arguments)))

    def after(self, optimizer):
        self.timed(self._after, optimizer)

    def timed(self, do, *arguments):
        """Nothing of a sketch is recorded by autograd, and a fault ends it."""
        torch = sys.modules["torch"]
        if self.failure or self.is_done():
            return
        if torch.cuda.is_initialized():
            if torch.cuda.is_current_stream_capturing():
                return
            torch.cuda.synchronize()
        begun = time.monotonic()
        paused.append(self)
        try:
            with torch.no_grad():
                do(torch, *arguments)
        except Exception as error:  # the program must go on
            self.failure = f"{type(error).__name__}: {error}"
        paused.pop()
        self.seconds += time.monotonic() - begun

    def _before(self, torch, optimizer, has_closure):
        count = self.taken.setdefault(id(optimizer), 0)
        if count >= self.steps:
            return
        self.sums = Sums(torch)
        own = [one for group in optimizer.param_groups for one in group["params"]]
        if any(id(one) not in self.entries for one in own):
            new = [(name, one) for name, one in named_parameters(own) if id(one) not in self.entries]
            for (name, one), weights in zip(new, self.sums.of_all([one for _, one in new])):
                self.entries[id(one)] = {"parameter": one, "name": name, "weights": weights, "gradients": [], "changes": []}
        for group in optimizer.param_groups if count == 0 else ():
            for one in group["params"]:
                self.entries[id(one)]["settings"] = len(self.settings)
            self.settings.append(settings_of(optimizer, group))
        if not has_closure:  # which makes the gradients within the step
            self.take_gradients(optimizer, own)

    def take_gradients(self, optimizer, own):
        self.skipped += bool(getattr(optimizer, "found_inf", None))  # of a fused optimizer, which then does nothing
        scale = getattr(optimizer, "grad_scale", None)  # of a fused optimizer, which unscales by itself
        scale = 1.0 if scale is None else float(scale)
        for one, numbers in zip(own, self.sums.of_all([one.grad for one in own])):
            self.entries[id(one)]["gradients"].append([number / scale for number in numbers])

    def _after(self, torch, optimizer):
        count = self.taken.get(id(optimizer), self.steps)
        if count >= self.steps:
            return
        self.taken[id(optimizer)] = count + 1
        own = [one for group in optimizer.param_groups for one in group["params"]]
        if any(len(self.entries[id(one)]["gradients"]) == count for one in own):
            self.take_gradients(optimizer, own)
        for one, now in zip(own, self.sums.of_all(own)):
            entry = self.entries[id(one)]
            before = entry.get("now", entry["weights"])
            entry["changes"].append([now[0], *(new - old for new, old in zip(now[1:], before[1:]))])
            entry["now"] = now

    def is_done(self):
        return bool(self.taken) and min(self.taken.values()) >= self.steps

    def seen(self):
        """As JSON has it. Norms are of gradients and of weights; what a step changed has only sums."""
        def numbers(each):
            return [float(f"{number:.12g}") if math.isfinite(number) else None for number in each]

        if self.failure:
            return {"failure": self.failure}
        parameters = [
            {"name": entry["name"], "shape": list(entry["parameter"].shape), "type": str(entry["parameter"].dtype).replace("torch.", ""),
             "settings": entry.get("settings"), "weights": numbers(entry["weights"]), "gradients": list(map(numbers, entry["gradients"])),
             "changes": list(map(numbers, entry["changes"]))} for entry in self.entries.values()]
        return {"skipped_steps": self.skipped, "has_dropout": bool(self.mode and self.mode.drawn), "settings": self.settings,
                "parameters": parameters}


def is_dropout(name, arguments):
    """Whether it draws random numbers for a dropout."""
    if name == "native_dropout":
        return arguments[1] > 0 and arguments[2] is not False
    return name.startswith("bernoulli") or ("attention" in name and "backward" not in name and
                                            any(isinstance(one, float) and 0 < one < 1 for one in arguments[3:6]))


def rounding(torch, bits, seed):
    """A mode of PyTorch's dispatcher in which results are off by up to a unit roundoff 2^-bits: random, uniform, of each number's size.

    As in Monte Carlo arithmetic (Parker 1997). The program's own random numbers stay as they are.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    generators, drawn = {}, []

    class Rounding(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, arguments=(), options=None):
            found = operation(*arguments, **(options or {}))
            name = operation._schema.name.rpartition("::")[2]
            if is_dropout(name, arguments):
                drawn.append(name)
            if paused or name.endswith("_") or not any(part in name for part in ROUNDING):
                return found
            several = isinstance(found, (tuple, list))
            for one in (found if several and "backward" in name else found[:1] if several else (found,)):
                if isinstance(one, torch.Tensor) and one.is_floating_point() and one.numel() > 0:
                    sums = name in SUMS_IN_TYPE and one.device.type == "cpu"
                    self.perturb(one, max(1.0, arguments[0].numel() / one.numel()) if sums else 1.0)
            return found

        def perturb(self, tensor, terms):
            if tensor.device not in generators:
                generators[tensor.device] = torch.Generator(tensor.device).manual_seed(seed)
            least = torch.finfo(tensor.dtype).eps  # less would be rounded away
            size = max(2.0**-bits, least) * max(1.0, math.sqrt(terms) / 2)
            noise = torch.empty_like(tensor, dtype=torch.float32).uniform_(-size, size, generator=generators[tensor.device])
            tensor.add_(noise.mul_(tensor.float()).to(tensor.dtype))

    mode = Rounding()
    mode.drawn = drawn
    return mode
