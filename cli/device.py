"""``aoi device``: the client's status and its move, for the owner of an enrolled device."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Show the state of an enrolled device, or move its client.", no_args_is_help=True)


@app.callback()
def device() -> None:
    """Show the state of a device's client, or move the client."""


@app.command("status")
def status(
    folder: Annotated[Path, typer.Option("--dir", help="The client's folder, made by aoi enroll.")] = Path(),
) -> None:
    """Show whether the client may take part now, and its history in each run."""
    from aoi_fl.client.device.status import status as lines

    for line in lines(folder):
        print(line)


@app.command("move")
def move(
    archive: Annotated[Path, typer.Argument(help="The file that carries the client; it holds the private key.")],
    folder: Annotated[Path, typer.Option("--dir", help="The client's folder, here or on the new device.")] = Path(),
) -> None:
    """Move a client to another device: packs it into a new file, or unpacks an existing file."""
    from aoi_fl.client.device import move as moving

    if archive.exists():
        units = moving.unpack(archive, folder)
        print(f"The client is in {folder}. Delete {archive}, check it by aoi doctor --dir {folder}, and install:")
        print("\n".join(map(str, units)))
    else:
        moving.pack(folder, archive)
        print(f"The client is in {archive}, and cannot start here any more. On the new device:")
        print(f"  aoi device move {archive.name} --dir {folder.absolute().name}")
