"""``aoi device``: the status, receipts and apps of an enrolled device, and its move."""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Show what a device does, approve its apps, or move its client.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--dir", help="The client's folder, made by aoi enroll.")]


@app.callback()
def device() -> None:
    """Show the status, receipts and apps of a device, or move its client."""


@app.command("status")
def status(folder: Folder = Path()) -> None:
    """Show whether the client may take part now, what has left the device, and what its rules have stopped."""
    from aoi_fl.client.device.status import status as lines

    for line in lines(folder):
        print(line)


@app.command("receipts")
def receipts(
    folder: Folder = Path(),
    verify: Annotated[bool, typer.Option("--verify", help="Check that no receipt was cut, edited or forged.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Show a receipt for each message on data; with --verify end with status 1 if one is not genuine."""
    from aoi_fl.client.device import receipts as signed

    entries, problems = signed.read(folder, verify=verify)
    if as_json:
        print(json.dumps({"receipts": entries, **({"genuine": not problems, "problems": problems} if verify else {})}))
    else:
        for entry in entries:
            print(signed.line(entry))
        for problem in problems:
            print(f"not genuine: {problem}", file=sys.stderr)
        if verify and not problems:
            print(f"{len(entries)} receipts are genuine")
    sys.exit(bool(problems))


@app.command("apps")
def apps(folder: Folder = Path()) -> None:
    """Show the apps that have asked to run on this device."""
    from aoi_fl.client.device.receipts import apps_of

    for digest, known, may_run in apps_of(folder):
        asked = f"asked {datetime.fromtimestamp(known.asked):%Y-%m-%d %H:%M}" if known.asked else "has not asked"
        print(f"{digest}  {'may run' if may_run else 'may not run'}, {asked}, run {known.run or '-'}")


@app.command("approve")
def approve(
    digest: Annotated[str, typer.Argument(help="The app's digest, as aoi device apps shows it.")],
    folder: Folder = Path(),
) -> None:
    """Let an app run on this device, at once; for apps = "approved" or a list of digests."""
    from aoi_fl.client.device.receipts import approve as let_in

    let_in(folder, digest)
    print(f"{digest} may run on this device")


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
