"""Print the image's requirements from pyproject.toml, one per line.

The image has the base installation with the extras ``deploy`` and ``sim``, but without Ray and matplotlib.
"""

import re
import sys
import tomllib
from pathlib import Path

_NOT_IN_A_CLUSTER = {"aoi-fl", "flwr", "matplotlib"}  # flwr[simulation] is Ray; the base installation has flwr itself


def requirements(pyproject: Path, flower: str = "") -> list[str]:
    """Return the image's requirements from the project file; ``flower`` is the deployed version."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    simulated = [r for r in (*extras["report"], *extras["sim"]) if _name(r) not in _NOT_IN_A_CLUSTER]
    deployed = [flower if flower and _name(r) == "flwr" else r for r in extras["deploy"]]
    return [*project["dependencies"], *deployed, *simulated]


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=!~ ;]", requirement, maxsplit=1)[0]


if __name__ == "__main__":
    print("\n".join(requirements(Path(sys.argv[1]), *sys.argv[2:])))
