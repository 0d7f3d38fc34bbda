"""One worker process, and the object through which the server sends it messages.

The process loads the ClientApp and runs one client after another. It ends with the server, however the server ends, and
has a limit of memory.
"""

import contextlib
import importlib
import multiprocessing
import os
import pickle
import resource
import shutil
import signal
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from aoi_fl.protocol.own_code import error_and_place, is_stop
from aoi_fl.server.engine.local import answer
from aoi_fl.server.engine.parent import leave_with_parent

LATE = "no reply by the deadline"
# Never fork: torch's and gRPC's threads do not survive it. A spawned process inherits no other worker's files.
_SPAWN = multiprocessing.get_context("spawn")


Job: TypeAlias = tuple[Message, Context, str]
"""Arguments of the ClientApp, and the path to which the worker writes the reply and ``context.state``."""


class Worker:
    """The server's handle of one worker process; ``spent`` once it must be replaced."""

    def __init__(self, app: str, threads: int, memory: int, spool: str) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        # Not a daemon in multiprocessing's sense, which could have no children: a client may use a DataLoader.
        self.process = _SPAWN.Process(target=work, args=(theirs, app, threads, memory, spool))
        self.process.start()
        theirs.close()
        self.spent = False

    def ready(self) -> str:
        """Wait until the process has imported the ClientApp; return the error, or ``""``."""
        problem = self._receive()
        self.spent = bool(problem)
        return problem or ""

    def play(self, job: Job, expires: float) -> str | None:
        """Run a job and return its failure, or None; without a reply by then the worker is spent."""
        try:
            self._pipe.send(job)
            if not self._pipe.poll(max(0.0, expires - time.monotonic())):
                self.spent = True
                return LATE
        except OSError:
            self.process.kill()  # it may have closed its end only
        except Exception as error:
            return f"the message cannot be sent to a worker: {error!r}"
        return self._receive()

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.join()
        self._pipe.close()

    def _receive(self) -> str | None:
        reason: str | None
        try:
            reason, self.spent = self._pipe.recv()
        except (EOFError, OSError):
            self.spent = True
            self.process.join(1)
            self.process.kill()  # it may have closed its end only
            self.process.join()
            code = self.process.exitcode or 0
            if code >= 0:
                return f"the process of this client ended with status {code} during its work"
            name = signal.Signals(-code).name
            perhaps = ", as the system does where memory runs out" if name == "SIGKILL" else ""
            return f"the process of this client was killed ({name}{perhaps})"
        return reason


def load(app: str) -> ClientApp:
    """Import a ClientApp from ``"module:attribute"``."""
    module, _, attribute = app.partition(":")
    client_app: ClientApp = getattr(importlib.import_module(module), attribute)
    return client_app


def work(pipe: Connection, app: str, threads: int, memory: int, spool: str) -> None:
    """Run the client of each received message until the server ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt from the keyboard is the server's to handle
    leave_with_parent(lambda: shutil.rmtree(spool, ignore_errors=True))
    os.environ["OMP_NUM_THREADS"] = str(threads)  # before anything numerical is imported
    _limit_memory(memory)
    try:
        client_app = load(app)
    except BaseException:
        pipe.send((traceback.format_exc(), True))
        return
    pipe.send((None, False))
    while True:
        try:
            message, context, file = pipe.recv()
        except EOFError:
            return
        pipe.send(_play(client_app, message, context, Path(file), memory))


def _play(app: ClientApp, message: Message, context: Context, file: Path, memory: int) -> tuple[str | None, bool]:
    """Run one message's client; return its failure, and whether the worker is spent."""
    try:
        reply = answer(app, message, context)
        file.write_bytes(pickle.dumps((reply, context.state), pickle.HIGHEST_PROTOCOL))
    except BaseException as error:
        if is_stop(error):
            raise
        file.unlink(missing_ok=True)
        reason = error_and_place(error)
        # The memory may stay full for the clients that follow.
        full = _full(error, memory)
        if full:
            reason += f"\nout of memory: {full} ({error!r:.100})"
        return reason, bool(full)
    return None, False


def _full(error: BaseException, memory: int) -> str:
    """Return which memory an error found full, or ``""``; works without torch."""
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return f"a client of a worker may take {memory / 1e6:.0f} MB"
    # torch.OutOfMemoryError is a RuntimeError. Only the text identifies the errors of the driver and of cuBLAS.
    words = ("CUDA out of memory", "CUDA error: out of memory", "STATUS_ALLOC_FAILED")
    if isinstance(error, RuntimeError) and any(word in str(error) for word in words):
        return "the GPU has no room left for this client"
    return ""


def _limit_memory(memory: int) -> None:
    """Let an allocation beyond a worker's limit fail, and let the kernel kill workers first."""
    # RLIMIT_DATA, not the address space: CUDA and torch reserve far more of that than they use.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (memory, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
