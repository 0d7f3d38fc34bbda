"""The cores and the memory that this process may use for workers."""

import ast
import contextlib
import inspect
import os
from pathlib import Path

from aoi_fl.science.errors import ConfigError, check_whole

_GROUP = Path("/sys/fs/cgroup")  # of this process, seen from inside a container


def check(workers: int, threads: int) -> None:
    """Raise ConfigError if workers times threads exceed the cores: fewer of them are faster."""
    cores = usable_cores()
    check_whole("--workers", workers)
    if workers == 1 and threads > cores:
        allowed = f"at most {cores}, the cores of this process"
        raise ConfigError("threads", threads, allowed, "Lower them.")
    if workers * threads > cores:
        each = "" if threads == 1 else f" for {threads} threads each"
        allowed = f"at most {max(1, cores // threads)}: this process has {cores} cores{each}"
        raise ConfigError("--workers", workers, allowed, f"Lower --workers{' or threads' if threads > 1 else ''}.")


def usable_cores(group: Path = _GROUP) -> int:
    """Return the number of whole cores that affinity and control group allow this process."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # no quota reads "max 100000"
        quota, period = map(int, (group / "cpu.max").read_text().split())
        cores = max(1, min(cores, quota // period))
    return cores


def usable_memory() -> int:
    """Return the bytes of memory of this machine, or of this process's control group if fewer."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with contextlib.suppress(OSError, ValueError):
        limits.append(int((_GROUP / "memory.max").read_text()))
    return min(limits)


def check_main(workers: int) -> None:
    """Refuse workers in a script that each of them would run again: its call is behind no main guard."""
    for caller in inspect.stack(context=0):
        about = caller.frame.f_globals
        if caller.function != "<module>" or about.get("__name__") != "__main__" or "__file__" not in about:
            continue
        script = Path(about["__file__"])
        if not script.is_file() and about.get("__spec__") is None:
            remedy = "Save the program in a file, with the call behind if __name__ == '__main__':."
            raise ConfigError("workers", workers, "1 in a program that Python reads from a pipe", remedy)
        body = ast.parse(script.read_bytes()).body if script.is_file() else []
        guards = [one for one in body if isinstance(one, ast.If) and "__name__ == '__main__'" in ast.unparse(one.test)]
        if body and not any(one.lineno <= caller.lineno <= (one.end_lineno or 0) for one in guards):
            remedy = f"Write in {script.name}: if __name__ == '__main__': and, indented below it, the call."
            raise ConfigError("workers", workers, "1, or called behind a main guard", remedy)
