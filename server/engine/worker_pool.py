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
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Self

from flwr.app import Context, Message, RecordDict

from aoi_fl.science.errors import AoiError
from aoi_fl.server.engine.machine import usable_memory
from aoi_fl.server.engine.worker_process import Job, Worker

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
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._news = threading.Condition()
        self._done: dict[str, str | None] = {}  # message id: the failure; None: the reply is in its file
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

    def __exit__(self, *raised: object) -> None:
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
        """The process ids of the workers."""
        with self._starting:
            return [process.pid for process in self._processes.values() if process.pid is not None]

    def submit(self, message: Message, context: Context, expires: float) -> None:
        """Queue a message for the next free worker; it lapses after ``expires`` (monotonic seconds)."""
        self._jobs.put(Job(message, context, expires, str(self._spool / message.metadata.message_id)))

    def take(self, ids: Iterable[str], until: float) -> dict[str, Outcome]:
        """Return the outcomes of finished messages; wait briefly if there are none.

        Raises
        ------
        AoiError : the workers cannot start.
        """
        patience = max(0.0, min(_PATIENCE, until - time.monotonic()))
        with self._news:
            self._news.wait_for(lambda: self._done or self._broken, patience)
            if self._broken:
                raise AoiError(f"the workers (--workers) cannot start: {self._broken}")
            outcomes = {i: self._done.pop(i) for i in ids if i in self._done}
        return {i: self._collect(i) if reason is None else reason for i, reason in outcomes.items()}

    def forget(self, message_id: str) -> None:
        """Drop the reply to an expired message."""
        with self._news:
            self._done.pop(message_id, None)
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

    # Each worker has a thread, so that no worker waits for the server or for another worker. --------------------------

    def _serve(self, place: int) -> None:
        worker = self._start(place)
        while worker is not None and (job := self._jobs.get()) is not None:
            if job.left <= 0:
                continue
            if not worker.process.is_alive():  # it was killed between two messages, so no client failed
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
        """Start a worker and return it when it is ready; None if it fails or the pool is closed."""
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
