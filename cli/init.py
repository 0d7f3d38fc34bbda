"""``aoi init``: write a small Flower app."""

from pathlib import Path
from typing import Annotated

import typer

from aoi_fl.config.policies import DEFAULT


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)],
    policy: Annotated[str, typer.Option(help="Selection policy without a budget, named as in aoi run.")] = DEFAULT,
) -> None:
    """Write a small Flower app of your own, with tests.

    NAME is the name of the new folder, for instance my-app. The Python package has _ for -.
    """
    from aoi_fl.cli import scaffold

    package = scaffold.package_of(name)  # before a folder of that name exists, which Python may import as a module
    folder = scaffold.write(name, policy, Path())
    print(
        f"Created {folder}. Run it:\n  cd {folder}\n  python -m {package}\n"
        "  GRPC_ENABLE_FORK_SUPPORT=0 flwr run . --stream"
    )
