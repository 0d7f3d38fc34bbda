"""``aoi device``: the client's status, for the owner of an enrolled device."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Show the owner the state of an enrolled device.", no_args_is_help=True)


@app.callback()
def device() -> None:
    """Show the owner of a device the state of its client."""


@app.command("status")
def status(
    folder: Annotated[Path, typer.Option("--dir", help="The client's folder, made by aoi enroll.")] = Path(),
) -> None:
    """Show whether the client may take part now, and its history in each run."""
    from aoi_fl.client.device.status import status as lines

    for line in lines(folder):
        print(line)
