"""Show that every package of an edge client has a wheel for 64-bit ARM, and which sets bring CUDA along.

    python .ci/check_aarch64.py [--python 3.11]

pip's resolver does the work, for another machine than this one: it takes wheels of that machine only and builds
nothing. Markers (``platform_machine == "x86_64"``) it would still judge by this machine, so pip is told it runs on
the other; its report says which machine it believed in, and that is checked. Needs the network; installs nothing.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
# The last torch whose wheel for 64-bit ARM is for the CPU is 2.10: docs/edge.md.
PI_TORCH = "torch>=2.4,<2.11"
# What wheels may need at most: the C library of Debian 12 and Raspberry Pi OS 12 is 2.36, that of Ubuntu 24.04 later.
GLIBC = (36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 17)
_CUDA = re.compile(r"(nvidia|cuda|cudnn|triton)", re.IGNORECASE)
_OF_THE_MACHINE = re.compile(r"(aarch64|-any)\.whl$")

# What Python's markers are judged by.
_DEVICE = {"platform_machine": "aarch64", "platform_system": "Linux", "sys_platform": "linux", "os_name": "posix"}
# pip, believing itself on that machine.
_PIP = """
import json, sys
from pip._vendor.packaging import markers
from pip._internal.cli.main import main
here, device = markers.default_environment, json.loads(sys.argv.pop(1))
markers.default_environment = lambda: here() | device
sys.exit(main(sys.argv[1:]))
"""


def _device(python: str) -> dict[str, str]:
    full = f"{python}.0"
    return _DEVICE | {"python_version": python, "python_full_version": full, "implementation_version": full}


def resolve(requirements: list[str], python: str) -> list[dict[str, Any]]:
    """Return what pip would install on 64-bit ARM, its report's entries.

    Raises
    ------
    SystemExit
        A package has no wheel for it, or no set of versions fits.
    """
    digits = python.replace(".", "")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable,
            "-c",
            _PIP,
            json.dumps(_device(python)),
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
        ]
        command += ["--only-binary=:all:", "--target", folder, "--report", str(report), "--python-version", python]
        command += ["--implementation", "cp", "--abi", f"cp{digits}", "--abi", "abi3", "--abi", "none"]
        for minor in GLIBC:
            command += ["--platform", f"manylinux_2_{minor}_aarch64"]
        command += ["--platform", "manylinux2014_aarch64", "--platform", "linux_aarch64"]
        done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"pip finds no set of wheels for 64-bit ARM and Python {python}:\n{done.stderr}")
        found = json.loads(report.read_text())
    believed = found["environment"]["platform_machine"], found["environment"]["python_version"]
    if believed != ("aarch64", python):
        sys.exit(f"this version of pip resolved for {believed} instead: try another")
    return list(found["install"])


def judge(name: str, requirements: list[str], python: str) -> tuple[int, int]:
    """Print a set's packages and return how many have no wheel for the machine, and how many are CUDA's."""
    print(f"\n{name}, Python {python}: {' '.join(requirements)}")
    foreign, cuda = [], []
    for entry in sorted(resolve(requirements, python), key=lambda e: e["metadata"]["name"].lower()):
        package, wheel = entry["metadata"], entry["download_info"]["url"].rsplit("/")[-1]
        if not _OF_THE_MACHINE.search(wheel):
            foreign.append(wheel)
        if _CUDA.search(package["name"]):
            cuda.append(package["name"])
        print(f"  {package['name']} {package['version']}: {wheel}")
    print(f"  → {len(foreign)} without a wheel for 64-bit ARM, {len(cuda)} of CUDA: {', '.join(cuda) or 'none'}")
    return len(foreign), len(cuda)


def main() -> int:
    """Resolve the base installation and the Pi's set; 1 if a wheel is missing or CUDA comes along."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--python", default="3.11", help="the device's version of Python")
    python = arguments.parse_args().python
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    base = [*project["dependencies"], *project["optional-dependencies"]["deploy"]]
    bad = sum(judge("base installation", base, python))
    bad += sum(judge("Raspberry Pi", [*base, PI_TORCH], python))
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
