"""Tells `ladder measure` when each step of a training ends, and its loss. One file to put beside your script; it needs nothing.

    import ladder_client as ladder
    ...
    optimizer.step()
    ladder.step(loss, tokens=inputs.numel())      # loss: a number, a tensor of PyTorch, an array of JAX or NumPy, or None

    for batch in ladder.wait(loader):             # if you like: each step's line has the time for which it waited for input

    Trainer(..., callbacks=[ladder.HF()])         # transformers: the loss is the one that it logs
    Trainer(..., callbacks=[ladder.Lightning()])  # lightning or pytorch_lightning

Nothing happens without the environment variable LADDER_LOG, so these lines can stay in the script. With it, the process of rank 0
appends lines of JSON to the file that LADDER_LOG names, and each other rank to one beside it: that of rank 3 ends in ".3". A step ends
when the last rank has ended it; the losses are those of rank 0. A second process that would write into a file writes nothing.

    {"ladder": 1, "pid": 4711, "device": "cuda:0", "clock": 1795827812.31, "rank": 0, "ranks": 8, "host": "node-1"}
    {"step": 0, "t": 812.447113, "loss": 10.98, "tokens": 16384}
    {"step": 1, "t": 812.477215, "device_ms": 30.102, "wait_ms": 9.2, "loss": 10.87, "tokens": 16384}

t is in seconds of CLOCK_MONOTONIC, which is time.monotonic(); clock is how far the time of day is ahead of it. A container may have a
CLOCK_MONOTONIC of its own; the time of day is the same for all. A loss that is not finite is "nan", "inf" or "-inf". A single process
tells no rank.
On a CPU t is the time of the call, after the loss was read.
With PyTorch on a GPU the first call waits for the device. Later calls only record a CUDA event, and copy the loss behind it.
There t is the host's time of the first event plus the device's time since then; device_ms is the device's time since the event before.
A line is written by the first later call that finds its event reached, or at the end of the program.
With JAX a thread waits for the loss, and t is the time at which it was there.
wait_ms is the time that the thread has waited for batches since the step before: of the host, which may be ahead of the device.
Calls while a CUDA graph is captured do not count.
Nothing in here ends or changes the training: the first fault is said on standard error, and nothing is written from then on.
How many steps `ladder measure` wants is told to nobody.
"""

import atexit
import collections
import functools
import json
import math
import os
import queue
import signal
import sys
import threading
import time


# What launchers set: torchrun and others, Open MPI, MPICH and Intel MPI, srun. A Slurm script that is no step has a SLURM_PROCID, too.
LAUNCHED = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
            ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))


def rank_of_ranks():
    """Which process this is, and of how many that train together."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    for own, of_all in LAUNCHED:
        if os.environ.get(own):
            rank = int(os.environ[own])
            return rank, max(rank + 1, int(os.environ.get(of_all) or 1))
    return 0, 1


def rank():
    return rank_of_ranks()[0]


_waited = {}  # seconds for which each thread has waited for batches; none has, if nobody times that
_waiting = set()  # threads that do so now


def waited():
    """Seconds for which this thread has waited for batches so far; None: nobody times that."""
    return _waited.get(threading.get_ident())


def timed(next_batch):
    """next_batch, whose time is a wait. Of one within another the outer one counts."""

    @functools.wraps(next_batch)
    def wait_for_next(*arguments):
        thread = threading.get_ident()
        if thread in _waiting:
            return next_batch(*arguments)
        _waiting.add(thread)
        begun = time.monotonic()
        try:
            return next_batch(*arguments)
        finally:
            _waiting.discard(thread)
            _waited[thread] = _waited.get(thread, 0.0) + time.monotonic() - begun

    wait_for_next._torchdynamo_disable = True  # torch.compile leaves it alone
    return wait_for_next


class _Batches:
    """A loader, or its iterator, whose batches are waited for."""

    def __init__(self, batches):
        self._batches = batches

    def __iter__(self):
        return _Batches(iter(self._batches))

    def __next__(self):
        return timed(next)(self._batches)

    def __len__(self):
        return len(self._batches)

    def __getattr__(self, name):
        return getattr(self._batches, name)


def _harmless(call):
    """The call, which a fault does not leave."""

    @functools.wraps(call)
    def harmless(*arguments, **named):
        global _log
        try:
            return call(*arguments, **named)
        except Exception as error:  # noqa: BLE001
            said, _log = _log is None, None
            try:
                if not said:
                    sys.stderr.write(f"ladder_client writes nothing more: {type(error).__name__}: {error}\n")
            except Exception:  # noqa: BLE001, S110
                pass

    harmless._torchdynamo_disable = True  # torch.compile leaves it alone
    return harmless


class _Log:
    """The lines of one training."""

    def __init__(self, path):
        self.path, self.steps, self.on = path, 0, True
        self.inside = self.ended = False  # a step() is running; SIGTERM has come
        self.waited = 0.0  # by the last step's thread until then
        self.cuda = self.arrays = self.last_event = None  # torch.cuda, if the program uses it; the losses of JAX
        self.pending = collections.deque()  # of (line, CUDA event or None)

    def begin(self, loss):
        import fcntl  # not on Windows
        self.rank, ranks = rank_of_ranks()
        path = f"{self.path}.{self.rank}" if self.rank else self.path
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)  # a pipe does not block
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.on = False
            return
        os.register_at_fork(after_in_child=self.forked)
        atexit.register(self.flush)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self.end)
        torch, device = sys.modules.get("torch"), getattr(loss, "device", "cpu")
        if hasattr(loss, "block_until_ready"):
            self.arrays = queue.Queue()
            threading.Thread(target=self.follow, daemon=True).start()
        elif torch is not None and torch.cuda.is_initialized():
            self.cuda = torch.cuda
            self.device = device = device if getattr(loss, "is_cuda", False) else torch.device("cuda", torch.cuda.current_device())
        who = {"rank": self.rank, "ranks": ranks, "host": os.uname().nodename} if ranks > 1 else {}
        self.write({"ladder": 1, "pid": os.getpid(), "device": str(device), "clock": time.time() - time.monotonic(), **who})

    @_harmless
    def step(self, loss, tokens, keep=0):
        """Ends a step. The last `keep` lines are not written yet."""
        self.inside = True
        try:
            if self.on and self.steps == 0:
                self.begin(loss)
            if not self.on or (self.cuda is not None and self.cuda.is_current_stream_capturing()):
                return
            line = {"step": self.steps} if tokens is None else {"step": self.steps, "tokens": int(tokens)}
            self.steps += 1
            if waited() is not None:
                line["wait_ms"], self.waited = round(1e3 * (waited() - self.waited), 3), waited()
            if hasattr(loss, "detach"):
                loss = loss.detach()
            if getattr(loss, "ndim", 0):
                loss = loss.mean()
            if loss is not None and (self.rank == 0 or self.cuda is None):  # to read it is to wait for the device
                line["loss"] = loss
            if self.arrays is not None:
                self.arrays.put(line)
            elif self.cuda is not None:
                self.pending.append((line, self.event(line)))
            else:
                self.read_loss(line)
                line["t"] = time.monotonic()
                self.pending.append((line, None))
            self.drain(keep)
        finally:
            self.inside = False
            if self.ended:
                self.end()

    def say(self, line):
        if self.on and self.steps > 0:
            self.write(line)

    def event(self, line):
        """A CUDA event behind all that was asked for; before it the loss's copy to the host."""
        if getattr(line.get("loss"), "is_cuda", False):
            line["loss"] = line["loss"].to("cpu", non_blocking=True)  # into pinned memory
        event = self.cuda.Event(enable_timing=True)
        event.record(self.cuda.current_stream(self.device))
        if line["step"] == 0:
            event.synchronize()
            self.now = time.monotonic()
        return event

    def drain(self, keep=0, wait=False):
        """Writes the lines whose events the device has reached."""
        while len(self.pending) > keep:
            line, event = self.pending[0]
            if event is not None:
                if wait:
                    event.synchronize()
                elif not event.query():
                    return
                if self.last_event is not None:
                    line["device_ms"] = self.last_event.elapsed_time(event)
                    self.now += 1e-3 * line["device_ms"]
                line["t"], self.last_event = self.now, event
            self.write(line)
            self.pending.popleft()

    def follow(self):
        """A thread, with JAX: waits for the losses in turn."""
        while True:
            self.wait_for(self.arrays.get())
            self.arrays.task_done()

    @_harmless
    def wait_for(self, line):
        try:
            self.read_loss(line)
        except RuntimeError:  # the program has given the array's memory away
            del line["loss"]
        line["t"] = time.monotonic()
        self.write(line)

    def read_loss(self, line):
        if "loss" in line:
            loss = float(line["loss"])
            line["loss"] = loss if math.isfinite(loss) else str(loss)

    def write(self, line):
        self.read_loss(line)
        os.write(self.file, (json.dumps(line) + "\n").encode())

    @_harmless
    def flush(self):
        if self.on:
            if self.arrays is not None:
                self.arrays.join()
            self.drain(wait=True)

    def end(self, *_):
        """On SIGTERM: writes what is left, then ends as the program would have."""
        self.ended = True
        if not self.inside:
            self.flush()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    def forked(self):
        self.on = self.inside = False


_log = _Log(os.environ["LADDER_LOG"]) if os.environ.get("LADDER_LOG") else None


def step(loss=None, tokens=None):
    """A step has ended: its loss, and the tokens (or samples) that it trained on."""
    if _log is not None:
        _log.step(loss, tokens)


def wait(batches):
    """The same batches, from a loader or an iterator. The time until each is there is told with the step."""
    return batches if _log is None else _Batches(batches)


@_harmless
def stated(**what):
    """What the program says of itself, shown as such: ladder.stated(attention="flash", compiled=True). After the first step()."""
    if _log is not None:
        _log.say({"stated": {name: str(value) for name, value in what.items()}})


@_harmless
def proof(field, passed, expected, observed):
    """What the program has checked of itself. A command with a failed one has no number. After the first step()."""
    if _log is not None:
        _log.say({"proof": {"field": field, "passed": bool(passed), "expected": str(expected), "observed": str(observed)}})


def HF():  # noqa: N802  (it makes an object, as a class does)
    """A callback for Trainer of transformers. A line waits for the next step, because the loss is logged after the step."""
    from transformers import TrainerCallback

    class Steps(TrainerCallback):
        seen = 0

        @_harmless
        def on_step_end(self, args, state, control, **_):
            if _log is not None:
                tokens, self.seen = state.num_input_tokens_seen - self.seen, state.num_input_tokens_seen
                _log.step(None, tokens or None, keep=1)

        @_harmless
        def on_log(self, args, state, control, logs=None, **_):
            if _log is not None and _log.pending and "loss" in (logs or {}):
                _log.pending[-1][0]["loss"] = logs["loss"]

    return Steps()


def Lightning():  # noqa: N802
    """A callback for Trainer of lightning or pytorch_lightning, whichever the program has imported. It counts the optimizer's steps."""
    names = [name for name in ("lightning.pytorch", "pytorch_lightning") if name in sys.modules]
    bases = [sys.modules[name].Callback for name in names]
    if not bases:
        from lightning.pytorch import Callback
        bases = [Callback]

    class Steps(*bases):
        @_harmless
        def on_train_start(self, trainer, pl_module):
            self.done = trainer.global_step  # more than 0 after a checkpoint

        @_harmless
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if trainer.global_step != self.done:
                self.done = trainer.global_step
                step(outputs.get("loss") if isinstance(outputs, dict) else outputs)

    return Steps()
