"""Environments in which this project is installed as a user installs it, or not at all."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
_UV = (sys.executable, "-m", "uv", "--quiet")
# What would let another copy of this project in.
_OURS = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}


class Environment:
    """A fresh virtual environment that finds this one's libraries, but not this project.

    A path file adds a folder and does not read the path files in it, so an editable installation there is out of sight.
    """

    def __init__(self, folder):
        subprocess.run([*_UV, "venv", "--python", sys.executable, folder], check=True)
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")
        (self.site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
        for script in Path(sysconfig.get_path("scripts")).glob("fl*"):
            self._copy(script)

    def _copy(self, script):
        """Give Flower's commands, which call each other by name, this environment's interpreter."""
        _, _, rest = script.read_text().partition("\n")
        copy = self.python.with_name(script.name)
        copy.write_text(f"#!{self.python}\n{rest}")
        copy.chmod(0o755)

    def install(self, *what):
        """Install wheels or folders (after ``--editable``), and nothing that they depend on."""
        subprocess.run([*_UV, "pip", "install", "--python", self.python, "--no-deps", *what], check=True)
        return self

    def run(self, code, folder):
        """Run a program in a folder, with nothing else of this project on its path."""
        clean = {key: value for key, value in os.environ.items() if key not in _OURS}
        command = [str(self.python), "-c", code]
        return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True)


def build_wheel(folder):
    """Build this project's wheel as ``uv pip install .`` does."""
    subprocess.run([*_UV, "build", "--wheel", "--out-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("aoi_fl-*.whl")
    return wheel
