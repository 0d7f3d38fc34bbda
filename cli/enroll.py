"""``aoi enroll``: prepare this device as a client of a SuperLink."""

from pathlib import Path
from typing import Annotated

import typer


def enroll(
    name: Annotated[str, typer.Option(help="The client's name, which must not change later.")],
    superlink: Annotated[str, typer.Option(metavar="HOST:PORT", help="The SuperLink's Fleet API, port 9092.")],
    ca: Annotated[Path, typer.Option(help="Certificate (PEM) of the authority behind the SuperLink's certificate.")],
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder of key and configuration; by default the client's name.")
    ] = None,
    timer: Annotated[
        bool, typer.Option("--timer", help="End the process between its rounds; a systemd timer starts it again.")
    ] = False,
) -> None:
    """Make this client's key, configuration and systemd unit.

    It prints the public key, which the operator registers.
    """
    from aoi_fl.client.device import enroll as enrolment

    made = enrolment.enroll(name, superlink, ca, folder or Path(name), timed=timer)
    print(enrolment.next_steps(made))
