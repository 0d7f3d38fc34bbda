"""Print what the image needs from the package index, as pyproject.toml states it, one requirement a line.

The image holds the base installation with the extra ``deploy``, and of the simulation's extra all but what plays one:
Ray, and the plots of figures.
"""

import re
import sys
import tomllib
from pathlib import Path

_NOT_IN_A_CLUSTER = {"flwr", "matplotlib"}  # flwr[simulation] is Ray; the base names flwr itself


def requirements(pyproject: Path, flower: str = "") -> list[str]:
    """Return the requirements of the image, read from the project file; ``flower`` stands for the deployed version."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    played = [r for r in extras["sim"] if _name(r) not in _NOT_IN_A_CLUSTER]
    deployed = [flower if flower and _name(r) == "flwr" else r for r in extras["deploy"]]
    return [*project["dependencies"], *deployed, *played]


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=!~ ;]", requirement, maxsplit=1)[0]


if __name__ == "__main__":
    print("\n".join(requirements(Path(sys.argv[1]), *sys.argv[2:])))
