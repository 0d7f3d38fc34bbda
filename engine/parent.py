"""Processes that end with the one that started them, however that ends."""

import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import wait


def leave_with_parent(tidy: Callable[[], object] = lambda: None) -> None:
    """End this process, whatever it is doing, when its parent's ends without having said so.

    Parameters
    ----------
    tidy : what is done before
    """
    threading.Thread(target=_watch, args=(tidy,), daemon=True).start()


def _watch(tidy: Callable[[], object]) -> None:
    parent = multiprocessing.parent_process()
    if parent is None:  # nobody of ours started it
        return
    wait([parent.sentinel])
    tidy()
    os._exit(1)
