"""``aoi device``: what the owner of an enrolled device sees of its client."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="What the owner of an enrolled device sees.", no_args_is_help=True)


@app.callback()
def device() -> None:
    """Tell the owner of a device about its client."""


@app.command("status")
def status(
    folder: Annotated[Path, typer.Option("--dir", help="The client's folder, made by aoi enroll.")] = Path(),
) -> None:
    """Say whether the client may take part now, and what it has done in each run."""
    from aoi_fl.client.device.status import status as lines

    for line in lines(folder):
        print(line)
