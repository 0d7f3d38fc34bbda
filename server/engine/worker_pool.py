"""A pool of processes in which clients train; a process that ends is replaced.

A worker runs the client of the next message, as a deployed client would: it reads the client's durable state from its
file and writes it back before it replies. ``context.state`` travels with message and reply. So a worker that dies or
hangs loses only its current job, and another worker replaces it.

Finished updates wait in files, not in memory. A slow client does not delay the others, and the server has one update at
a time in memory.
"""

import pickle
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Self

from flwr.app import Context, Message, RecordDict

from aoi_fl.science.errors import AoiError
from aoi_fl.server.engine.machine import usable_memory
from aoi_fl.server.engine.worker_process import LATE, Job, Worker

# pebble.ProcessPool has timeouts and restarts, but no memory cap. Its workers are daemons, which cannot start the
# children of a DataLoader, and results wait in memory. So the pool stays our own.
_PATIENCE = 0.5  # seconds that a poll for replies may wait for the next one
_SHARE = 0.8  # of the machine's memory is for the workers, in equal parts

Outcome = str | tuple[Message, RecordDict]  # why a message failed; or the reply, and the client's ``context.state``


class Workers:
    """Processes that run clients for the length of a ``with`` block.

    Parameters
    ----------
    app : ``"module:attribute"`` of the ClientApp
    count : number of processes
    threads : threads of torch and other numerical libraries in each process
    memory : bytes that each process may take; by default an equal part of four fifths of the machine's memory
    """

    def __init__(self, app: str, count: int, threads: int = 1, memory: int | None = None) -> None:
        self._about = (app, threads, int(_SHARE * usable_memory() / count) if memory is None else memory)
        self._pool = ThreadPoolExecutor(count)  # a thread for each worker: no worker waits for the server or another
        self._count = count
        self._free: queue.LifoQueue[Worker | None] = queue.LifoQueue()  # None: it could not start
        self._outcomes: dict[str, Future[str | None]] = {}  # by message: its failure; None: the reply is in its file
        self._starting = threading.Lock()
        self._workers: list[Worker] = []
        self._closed = False

    def __enter__(self) -> Self:
        self._spool = Path(tempfile.mkdtemp(prefix="aoi-workers-"))
        for _ in range(self._count):
            self._pool.submit(self._start)
        return self

    def __exit__(self, *raised: object) -> None:
        with self._starting:
            self._closed = True
        for worker in self._workers:
            worker.process.kill()
        self._pool.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.process.join()
        shutil.rmtree(self._spool, ignore_errors=True)

    def submit(self, message: Message, context: Context, expires: float) -> None:
        """Queue a message for the next free worker; it lapses after ``expires`` (monotonic seconds)."""
        i = message.metadata.message_id
        self._outcomes[i] = self._pool.submit(self._play, (message, context, str(self._spool / i)), expires)

    def take(self, ids: Iterable[str], until: float) -> dict[str, Outcome]:
        """Return the outcomes of finished messages; wait briefly if there are none.

        Raises
        ------
        AoiError : the workers cannot start.
        """
        waited = {i: self._outcomes[i] for i in ids}
        wait(waited.values(), max(0.0, min(_PATIENCE, until - time.monotonic())), FIRST_COMPLETED)
        done = {i: future.result() for i, future in waited.items() if future.done()}
        for i in done:
            del self._outcomes[i]
        return {i: self._collect(i) if reason is None else reason for i, reason in done.items()}

    def forget(self, message_id: str) -> None:
        """Drop the reply to an expired message."""
        self._outcomes.pop(message_id).cancel()
        (self._spool / message_id).unlink(missing_ok=True)

    def _collect(self, message_id: str) -> Outcome:
        path = self._spool / message_id
        try:
            outcome: Outcome = pickle.loads(path.read_bytes())
        except Exception as error:  # the reply may contain objects that this process cannot make
            return f"the reply cannot be read: {error!r}"
        else:
            return outcome
        finally:
            path.unlink(missing_ok=True)

    def _start(self) -> None:
        """Start a worker, while the server prepares; a job tries again where it cannot start."""
        worker = None
        try:
            worker = self._replace(None)
        finally:
            self._free.put(worker)

    def _play(self, job: Job, expires: float) -> str | None:
        """Run a job in a free worker, and replace the worker if it is spent; return the failure."""
        if expires <= time.monotonic():
            return LATE
        worker = self._free.get()
        try:
            if worker is None or not worker.process.is_alive():  # it was killed between two messages: no client failed
                worker = self._replace(worker)
            reason = worker.play(job, expires)
            if worker.spent:
                worker = self._replace(worker)
            return reason
        finally:
            self._free.put(worker)

    def _replace(self, former: Worker | None) -> Worker:
        """Return a new worker when it is ready."""
        if former is not None:
            former.end()
        with self._starting:
            if self._closed:
                raise AoiError("the run has ended")
            worker = Worker(*self._about, str(self._spool))
            self._workers = [*(one for one in self._workers if one is not former), worker]
        if problem := worker.ready():
            raise AoiError(f"the workers (--workers) cannot start: {problem.strip().splitlines()[-1]}")
        return worker
