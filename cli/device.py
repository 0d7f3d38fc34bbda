"""``aoi enroll``, ``doctor`` and ``device``: make a client's folder, check it, show what left it, or move it."""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from aoi_fl.cli.options import Json

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
    as_json: Json = False,
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
        if not entries and not problems:
            print("no message on data has asked this device yet")
        elif verify and not problems:
            print(f"{len(entries)} receipts are genuine")
    sys.exit(bool(problems))


@app.command("apps")
def apps(folder: Folder = Path()) -> None:
    """Show the apps that have asked to run on this device."""
    from aoi_fl.client.device.receipts import apps_of

    if not (found := [*apps_of(folder)]):
        print("no app has asked this device yet")
    for digest, known, may_run in found:
        asked = f"asked {datetime.fromtimestamp(known.asked):%Y-%m-%d %H:%M}" if known.asked else "has not asked"
        print(f"{digest}  {'may run' if may_run else 'may not run'}, {asked}, run {known.run or '-'}")


@app.command("approve")
def approve(
    digest: Annotated[str, typer.Argument(metavar="DIGEST", hidden=True)],
    folder: Folder = Path(),
) -> None:
    """Let an app run on this device, at once; for apps = "approved" or a list of digests.

    DIGEST is the app's, as aoi device apps shows it.
    """
    from aoi_fl.client.device.receipts import approve as let_in

    let_in(folder, digest)
    print(f"{digest} may run on this device")


@app.command("move")
def move(
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", hidden=True)],
    folder: Annotated[Path, typer.Option("--dir", help="The client's folder, here or on the new device.")] = Path(),
) -> None:
    """Move a client to another device: packs it into a new file, or unpacks an existing file.

    ARCHIVE is the file. It holds the client's private key.
    """
    from aoi_fl.client.device import move as moving

    if archive.exists():
        units = moving.unpack(archive, folder)
        print(f"The client is in {folder}. Delete {archive}, check it by aoi doctor --dir {folder}, and install:")
        print("\n".join(map(str, units)))
    else:
        moving.pack(folder, archive)
        print(f"The client is in {archive}, and cannot start here any more. On the new device:")
        print(f"  aoi device move {archive.name} --dir {folder.absolute().name}")


def doctor(
    folder: Folder = Path(),
    as_json: Json = False,
) -> None:
    """Check a client's requirements and connection to the SuperLink.

    It checks torch, gate, disk and keys, and asks the SuperLink about this client and its clock.

    It ends with status 1 if a check fails. The last check connects as the client and disconnects at once.
    """
    from aoi_fl.client.device import doctor as checks

    findings = list(checks.examine(folder))
    failed = any(finding.status == "fail" for finding in findings)
    if as_json:
        print(json.dumps({"healthy": not failed, "checks": [vars(finding) for finding in findings]}))
    else:
        for finding in findings:
            print(f"{finding.status:4}  {finding.check}: {finding.found}")
            if finding.remedy:
                print(f"      → {finding.remedy}")
    sys.exit(failed)


def enroll(
    name: Annotated[str | None, typer.Option(help="The client's name, which must not change later.")] = None,
    superlink: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The SuperLink's Fleet API, port 9092.")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option(help="Certificate (PEM) of the authority behind the SuperLink's certificate.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder of key and configuration; by default the client's name.")
    ] = None,
    renew: Annotated[
        bool, typer.Option("--new-key", help="Only replace the key of the client in --dir; rules and data stay.")
    ] = False,
    timer: Annotated[
        bool, typer.Option("--timer", help="End the process between its rounds; a systemd timer starts it again.")
    ] = False,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Run the server's app in a unit of its own, without network and key.")
    ] = False,
) -> None:
    """Make this client's key, configuration and systemd unit.

    It prints the public key, which the operator registers.
    """
    from aoi_fl.client.device import enroll as enrolment
    from aoi_fl.science.errors import ConfigError

    if renew:
        public, former = enrolment.new_key(folder or Path(name or "."))
        print(f"The client has a new key. Ask the operator to register {public}:\n\n{public.read_text()}")
        print(f"Then restart the client, and delete the former key: {former}")
        return
    if name is None or superlink is None or ca is None:
        missing = [
            option for option, value in (("--name", name), ("--superlink", superlink), ("--ca", ca)) if not value
        ]
        raise ConfigError(", ".join(missing), None, "given for a new client", "Give it, or replace a key by --new-key.")
    made = enrolment.enroll(name, superlink, ca, folder or Path(name), timed=timer, sandbox=sandbox)
    print(enrolment.next_steps(made))
