"""``aoi enroll``: prepare this device as a client of a SuperLink."""

from pathlib import Path
from typing import Annotated

import typer


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
