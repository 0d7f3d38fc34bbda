"""Flower's SuperExec for a client, which starts the ClientApp from a process that has its libraries loaded.

Flower runs the ClientApp in a new process for every message, and that process spends seconds on imports before it looks
at what it was sent: on a small board longer than on the training. Here one process imports Flower and torch, where
there is one, when the SuperNode starts, and forks itself for each message (Python's *forkserver*): each message still
has a process of its own, which may hang, raise or be killed as before, and the app's own modules are loaded in it, from
what the server sent. The process in between holds no connection and has started no thread, so that it may be forked.
"""

import argparse
import sys
import time
from multiprocessing import forkserver, get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# As `-c`: were it a script or `-m`, every forked process would import it as its main module, and so this installation's
# rooms before the app's own.
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
        keywords = {
            "runtime_api_address": spec.runtime_api_address,
            "token": spec.token,
            "insecure": spec.insecure,
            "certificates": Path(certificates).read_bytes() if certificates else None,
            "parent_pid": spec.parent_pid,
            "runtime_dependency_install": spec.runtime_dependency_install,
        }
        self._context.Process(target=run_clientapp, kwargs=keywords).start()
        return LaunchResult.accepted()


def main() -> None:
    """Run Flower's SuperExec with an executor that forks; the options are those that a SuperNode gives it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--appio-api-address", required=True)
    parser.add_argument("--plugin-type", choices=["clientapp"], required=True)
    parser.add_argument("--parent-pid", type=int, required=True)
    parser.add_argument("--insecure", action="store_true")
    parser.add_argument("--root-certificates")
    parser.add_argument("--allow-runtime-dependency-installation", action="store_true")
    given = parser.parse_args()
    executor = Forking()  # first, so that the imports go on while the SuperNode connects
    from flwr.proto.runtime_pb2_grpc import RuntimeStub
    from flwr.supercore.superexec import run_superexec
    from flwr.supercore.superexec.plugin import ClientAppExecPlugin

    run_superexec.get_executor = lambda *_, **__: executor
    run_superexec.time = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, _LOOK)))  # type: ignore[attr-defined]
    run_superexec.run_superexec(
        plugin_class=ClientAppExecPlugin,
        stub_class=RuntimeStub,
        runtime_api_address=given.appio_api_address,
        insecure=given.insecure,
        root_certificates_path=given.root_certificates,
        parent_pid=given.parent_pid,
        runtime_dependency_install=given.allow_runtime_dependency_installation,
    )
