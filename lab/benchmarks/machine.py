"""The machine of a measurement: processor, memory, system, versions."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import psutil

from aoi_fl.lab.benchmarks.base import ROOT

_PACKAGES = ("flwr", "ray", "numpy", "torch")


def machine():
    """Return this machine's properties that affect times; unknown ones are None."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory-GiB": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.system(),
        "kernel": platform.release().partition("-")[0],
        "numpy-simd": list(np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])),  # type: ignore[call-overload]
        "commit": _commit(),
    }


def versions():
    """Return the versions of Python and of the packages that affect times."""
    installed = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def processor():
    """Return the processor's name."""
    return _field("model name") or platform.processor() or platform.machine()


def _processor():
    """Return the processor's name and, if a virtual machine hides it, its family and model."""
    name, family, model = processor(), _field("cpu family"), _field("model\t")
    return f"{name} (family {family}, model {model})" if family and model else name


def _field(name):
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith(name)), None)
    except OSError:
        return None


def _commit():
    """Return the present commit, with a plus if files other than documents have changed."""
    try:
        parsed = _git("rev-parse", "--short=12", "HEAD")
        if parsed.returncode:
            return None
        changed = _git("diff", "--quiet", "HEAD", "--", ".", ":(exclude)docs").returncode
    except OSError:
        return None
    return parsed.stdout.strip() + ("+" if changed else "")


def _git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
