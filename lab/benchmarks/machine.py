"""The machine of a measurement: processor, memory, system, versions."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import psutil

from aoi_fl.lab.benchmarks.base import ROOT
from aoi_fl.lab.experiments.harness.processor import field, processor

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


def _processor():
    """Return the processor's name and, if a virtual machine hides it, its family and model."""
    name, family, model = processor(), field("cpu family"), field("model\t")
    return f"{name} (family {family}, model {model})" if family and model else name


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
