"""Flower's SuperExec for a client, which starts the ClientApp from a process that has its libraries loaded.

Flower runs the ClientApp in a new process for every message, and that process spends seconds on imports before it looks
at what it was sent: on a small board longer than on the training. Here one process imports Flower and torch, where
there is one, when the SuperNode starts, and forks itself for each message (Python's *forkserver*): each message still
has a process of its own, which may hang, raise or be killed as before, and the app's own modules are loaded in it, from
what the server sent. The process in between holds no connection and has started no thread, so that it may be forked.

It takes what ``flower-superexec`` takes, and is started as ``python -c "from client.superexec import main; main()"``:
were it a script or ``-m``, Python would import it again in every child, and ``client`` with it, before the app's own.
"""

import sys
import time
from multiprocessing import forkserver, get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

COMMAND = (sys.executable, "-c", "from client.superexec import main; main()")
_PRELOAD = ["flwr.supernode.runtime.run_clientapp", "torch"]  # what cannot be imported is left out
_LOOK = 0.25  # seconds between two looks for work in the SuperNode, in place of Flower's one second


class Forking:
    """An executor, as the SuperExec knows it, that forks the ClientApp's process."""

    def __init__(self) -> None:
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOAD)
        forkserver.ensure_running()

    def wait_for_capacity(self) -> None:
        """Return at once: the SuperNode hands out one message at a time."""

    def launch(self, spec: Any) -> Any:
        """Start the process of one message; ``spec`` is Flower's ``ExecutionSpec``, the result its ``LaunchResult``."""
        from flwr.supercore.superexec.executor.types import LaunchResult
        from flwr.supernode.runtime.run_clientapp import run_clientapp

        certificates = spec.root_certificates_path
        self._context.Process(
            target=run_clientapp,
            kwargs={
                "runtime_api_address": spec.runtime_api_address,
                "token": spec.token,
                "insecure": spec.insecure,
                "certificates": Path(certificates).read_bytes() if certificates else None,
                "parent_pid": spec.parent_pid,
                "runtime_dependency_install": spec.runtime_dependency_install,
            },
        ).start()
        return LaunchResult.accepted()


def main() -> None:
    """Run Flower's command with an executor that forks."""
    executor = Forking()  # first, so that the imports go on while the SuperNode connects
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.superexec import run_superexec

    run_superexec.get_executor = lambda *_, **__: executor
    run_superexec.time = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, _LOOK)))
    flower_superexec()
