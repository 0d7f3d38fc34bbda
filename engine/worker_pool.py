"""The processes in which clients train, a few at a time: whatever happens to one, there are as many again.

A worker plays whichever client's message comes next, as a deployed client would: it reads the client's durable state
from its file and writes it back before it replies. ``context.state`` travels with message and reply. So a worker that
dies, hangs or is killed takes nothing along but the work at hand, and another takes its place.

Finished updates wait in files, not in memory: one client that is slow does not hold up the others, and the server has
one update at a time in memory, however many wait their turn.
"""

import pickle
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Self

from flwr.app import Context, Message, RecordDict

from aoi_fl.engine.machine import usable_memory
from aoi_fl.engine.worker_process import Job, Worker
from aoi_fl.science.errors import AoiError

# pebble.ProcessPool has timeouts and restarts, but no memory cap. Its workers are daemons, which cannot start the
# children of a DataLoader, and results wait in memory. So the pool stays our own.
_PATIENCE = 0.5  # seconds that a look for replies may wait for the next one
_SHARE = 0.8  # of the machine's memory is for the workers, in equal parts

Outcome = str | tuple[Message, RecordDict]  # why a message failed; or the reply, and what the client remembers


class Workers:
    """Processes that play clients, for the length of a ``with`` block.

    Parameters
    ----------
    app : ``"module:attribute"`` of the ClientApp
    count : how many processes
    threads : of torch and other numerical libraries in each
    memory : bytes that each may take; by default its part of four fifths of the machine's
    """

    def __init__(self, app: str, count: int, threads: int = 1, memory: int | None = None) -> None:
        self._about = (app, threads, int(_SHARE * usable_memory() / count) if memory is None else memory)
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._news = threading.Condition()
        self._done: dict[str, str | None] = {}  # message id: why it failed; None: the reply is in its file
        self._broken = ""
        self._starting = threading.Lock()
        self._processes: dict[int, BaseProcess] = {}
        self._closed = False
        self._threads = [threading.Thread(target=self._serve, args=(i,), daemon=True) for i in range(count)]

    def __enter__(self) -> Self:
        self._spool = Path(tempfile.mkdtemp(prefix="aoi-workers-"))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._starting:
            self._closed = True
            for process in self._processes.values():
                process.kill()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        for process in self._processes.values():
            process.join()
        shutil.rmtree(self._spool, ignore_errors=True)

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        with self._starting:
            return [process.pid for process in self._processes.values() if process.pid is not None]

    def submit(self, message: Message, context: Context, expires: float) -> None:
        """Have a message played by the next worker that is free, unless that is after ``expires`` (monotonic)."""
        self._jobs.put(Job(message, context, expires, str(self._spool / message.metadata.message_id)))

    def take(self, ids: Iterable[str], until: float) -> dict[str, Outcome]:
        """Return what has come of messages; wait a little if nothing has.

        Raises
        ------
        AoiError : the workers cannot start.
        """
        patience = max(0.0, min(_PATIENCE, until - time.monotonic()))
        with self._news:
            self._news.wait_for(lambda: self._done or self._broken, patience)
            if self._broken:
                raise AoiError(f"the workers (--workers) cannot start: {self._broken}")
            found = {i: self._done.pop(i) for i in ids if i in self._done}
        return {i: self._collect(i) if reason is None else reason for i, reason in found.items()}

    def forget(self, message_id: str) -> None:
        """Drop a reply that nobody waits for any more."""
        with self._news:
            self._done.pop(message_id, None)
        (self._spool / message_id).unlink(missing_ok=True)

    def _collect(self, message_id: str) -> Outcome:
        path = self._spool / message_id
        try:
            outcome: Outcome = pickle.loads(path.read_bytes())
        except Exception as error:  # the reply holds what this process cannot make
            return f"the reply cannot be read: {error!r}"
        else:
            return outcome
        finally:
            path.unlink(missing_ok=True)

    # One thread stands by each worker, so that no worker waits for the server or for another. -------------------------

    def _serve(self, place: int) -> None:
        worker = self._start(place)
        while worker is not None and (job := self._jobs.get()) is not None:
            if job.left <= 0:
                continue
            if not worker.alive:  # it was killed between two messages, which is no client's fault
                worker = self._start(place)
                if worker is None:
                    return
            reason = worker.play(job)
            if worker.spent:
                worker.end()
                worker = self._start(place)
            if job.left > 0:
                with self._news:
                    self._done[job.message.metadata.message_id] = reason
                    self._news.notify_all()

    def _start(self, place: int) -> Worker | None:
        """Start a worker and return it when it is ready; None if there is to be none."""
        with self._starting:
            if self._closed:
                return None
            worker = Worker(*self._about, str(self._spool))
            self._processes[place] = worker.process
        if not worker.spent and (problem := worker.ready()) and not self._closed:
            with self._news:
                self._broken = problem.strip().splitlines()[-1]
                self._news.notify_all()
        return None if self._closed or worker.spent else worker
