"""A client's SuperExec, which forks the ClientApp from a process with loaded libraries.

Flower runs the ClientApp in a new process for each message. On a small board the imports of that process take longer
than the training. Here one process imports Flower and torch, if installed, when the SuperNode starts. It forks itself
for each message (Python's *forkserver*). So each message still has its own process, which may hang, raise or be killed,
and which loads the app's own modules as the server sent them. The forking process has no connection and imports nothing
of this project.
"""

import argparse
import signal
import sys
import threading
import time
from multiprocessing import forkserver, get_context
from typing import Any

from aoi_fl.flower import superexec as flower

# With `-c`: every forked process would import a script, or a module given by `-m`, as its main module, and thus this
# installation's packages before the app's own.
COMMAND = (sys.executable, "-c", "from aoi_fl.client.superexec import main; main()")
_LOOK = 0.25  # seconds between two polls for work at the SuperNode; Flower's pause is one second

# The code of a forked process. It must not repeat the random numbers of the process before it.
_ANSWER = f"""
import sys
if "torch" in sys.modules:
    sys.modules["torch"].seed()
{flower.ANSWER}"""


class Forking:
    """An executor of the SuperExec that forks the ClientApp's process."""

    def __init__(self) -> None:
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([flower.MODULE, "torch"])  # skipped if not installed
        forkserver.ensure_running()

    def wait_for_capacity(self, *_: Any, **__: Any) -> None:
        """Return at once, because the SuperNode processes one message at a time."""

    def get_eligible_capacity(self, types: set[Any], **_: Any) -> tuple[set[Any], set[str]]:
        """Return the kinds of tasks that can start now: all, with any app."""
        return types, set()

    def reconcile(self) -> None:
        """Do nothing: no process is kept."""

    def close(self) -> None:
        """Do nothing: the processes end with their SuperNode."""

    def launch(self, spec: Any) -> Any:
        """Start one message's process from Flower's ``ExecutionSpec``; return its ``LaunchResult``."""
        keywords = flower.keywords(spec)
        process = self._context.Process(target=exec, args=(_ANSWER, {"keywords": keywords}))
        try:
            process.start()
        except (OSError, EOFError):  # a broken torch ends the process that imports it
            return flower.launched("the process to fork from has ended. aoi doctor shows whether torch can be imported")
        threading.Thread(target=_name_end, args=(process,), daemon=True).start()
        return flower.launched()


def _name_end(process: Any) -> None:
    """Print why a message's process was killed; the server learns only that it ended."""
    process.join()
    if process.exitcode == -signal.SIGKILL:
        print(
            "the ClientApp's process was killed, as the system does for want of memory: raise the client's limit "
            "(AOI_CLIENT_MEMORY, MemoryMax)",
            file=sys.stderr,
            flush=True,
        )


def main() -> None:
    """Run Flower's SuperExec with an executor that forks; a SuperNode sets the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--appio-api-address", "--runtime-api-address", dest="address", required=True)
    parser.add_argument("--plugin-type", choices=["clientapp"])
    parser.add_argument("--parent-pid", type=int)
    parser.add_argument("--insecure", action="store_true")
    parser.add_argument("--root-certificates")
    parser.add_argument("--allow-runtime-dependency-installation", action="store_true")
    given = parser.parse_args()
    executor = Forking()  # first, so that the imports run while the SuperNode connects
    flower.run(executor, lambda seconds: time.sleep(min(seconds, _LOOK)), given)
