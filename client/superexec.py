"""Flower's SuperExec for a client, which starts the ClientApp from a process that has its libraries loaded.

Flower runs the ClientApp in a new process for every message, and that process spends seconds on imports before it looks
at what it was sent: on a small board longer than on the training. Here one process imports Flower and torch, where
there is one, when the SuperNode starts, and forks itself for each message (Python's *forkserver*): each message still
has a process of its own, which may hang, raise or be killed as before, and the app's own modules are loaded in it, from
what the server sent. The process in between holds no connection, and knows nothing of this project.
"""

import argparse
import sys
import time
from multiprocessing import forkserver, get_context
from typing import Any

from aoi_fl.flower import superexec as flower

# As `-c`: were it a script or `-m`, every forked process would import it as its main module, and so this installation's
# rooms before the app's own.
COMMAND = (sys.executable, "-c", "from aoi_fl.client.superexec import main; main()")
_ATTEMPTS = 20  # to start the process to fork from
_LOOK = 0.25  # seconds between two looks for work in the SuperNode, in place of Flower's one second

# What a forked process does. It must not draw the random numbers that the one before it drew.
_ANSWER = f"""
import sys
if "torch" in sys.modules:
    sys.modules["torch"].seed()
{flower.ANSWER}"""


class Forking:
    """An executor, as the SuperExec knows it, that forks the ClientApp's process."""

    def __init__(self) -> None:
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([flower.MODULE, "torch"])  # what is not installed is left out
        forkserver.ensure_running()

    def wait_for_capacity(self) -> None:
        """Return at once: the SuperNode hands out one message at a time."""

    def launch(self, spec: Any) -> Any:
        """Start the process of one message; ``spec`` is Flower's ``ExecutionSpec``, the result its ``LaunchResult``."""
        keywords = flower.keywords(spec)
        for _ in range(_ATTEMPTS):
            try:
                self._context.Process(target=exec, args=(_ANSWER, {"keywords": keywords})).start()
            except (OSError, EOFError):  # a torch that is there and broken takes the process down that imports it
                print("torch cannot be loaded beforehand; each message's process starts without it", flush=True)
                self._context.set_forkserver_preload([flower.MODULE])
                time.sleep(_LOOK)  # until what is left of it is gone
            else:
                return flower.launched()
        return flower.launched("no process could be started to fork the ClientApp's from")


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
    flower.run(executor, lambda seconds: time.sleep(min(seconds, _LOOK)), given)
