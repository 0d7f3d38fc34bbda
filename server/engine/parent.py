"""Processes that end with their parent, however the parent ends."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.connection import wait
from typing import Any, TypeVar

from aoi_fl.server.engine.machine import check_main

_Result = TypeVar("_Result")


def leave_with_parent(tidy: Callable[[], object] = lambda: None) -> None:
    """End this process as soon as its parent has ended, whatever it is doing.

    Parameters
    ----------
    tidy : called before the process ends
    """
    threading.Thread(target=_watch, args=(tidy,), daemon=True).start()


def _watch(tidy: Callable[[], object]) -> None:
    parent = multiprocessing.parent_process()
    if parent is None:  # multiprocessing did not start this process
        return
    wait([parent.sentinel])
    tidy()
    os._exit(1)


def unordered(function: Callable[[Any], _Result], items: Sequence[Any], workers: int) -> Iterator[_Result]:
    """Yield a function's result for each item, as it completes, from ``workers`` processes."""
    if workers == 1 or len(items) < 2:
        yield from map(function, items)
        return
    check_main(workers)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), leave_with_parent) as pool:
        try:
            for future in as_completed([pool.submit(function, item) for item in items]):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
