"""Enrol an edge device: make its keys, its node configuration and its systemd unit.

A client's folder
-----------------
client.key      private key of Flower's SuperNode authentication (EC P-256, OpenSSH's PEM), mode 0600, never overwritten
NAME.pub        its public key, which the operator of the SuperLink registers
ca.crt          the certificate of the authority that signed the SuperLink's certificate
superlink.env   the SuperLink's address
node.toml       the client's configuration: name, state-dir, and the source of its data
data/           a folder for the client's own data file
aoi-NAME.service the systemd unit
aoi-NAME.timer  optional timer of the unit; the client's process then ends between its rounds
"""

import getpass
import grp
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509

from aoi_fl.client.device.keys import halves, make_key
from aoi_fl.client.device.node import read
from aoi_fl.client.device.reach import split_address
from aoi_fl.client.device.unit import TIMER, app_unit, command, node_toml, unit
from aoi_fl.client.session import FILE
from aoi_fl.client.state import checked_name
from aoi_fl.protocol.files import read_regular, sync, write_whole
from aoi_fl.science.errors import ConfigError, refusing

KEY, CA, SUPERLINK, NODE = "client.key", "ca.crt", "superlink.env", "node.toml"


@dataclass(frozen=True)
class Enrolment:
    """An enrolled client: name, folder, the file of its public key (one line, OpenSSH) and files to copy.

    The last of ``units`` is the unit to enable.
    """

    name: str
    folder: Path
    superlink: str
    public_file: Path
    units: tuple[Path, ...]


def enroll(
    name: str, superlink: str, ca: Path, folder: Path, *, timed: bool = False, sandbox: bool = False
) -> Enrolment:
    """Make a client's folder; a node configuration that is there stays.

    Parameters
    ----------
    name : the client's name; also the service's
    superlink : host and port of the SuperLink's Fleet API
    ca : the authority's certificate, PEM
    folder : the folder, created if missing
    timed : whether the client's process ends between its rounds
    sandbox : whether the app's processes have a unit of their own, without network

    Raises
    ------
    ConfigError : the name, address or certificate is invalid, the folder cannot be written, or it has a key already.
    """
    checked_name("client name", name)
    split_address(superlink)
    remedy = "Copy ca.crt from the SuperLink's operator over a trusted channel."
    with refusing((OSError, ValueError), "--ca", ca, "a readable certificate of the authority in PEM form", remedy):
        trusted = read_regular(ca)
        x509.load_pem_x509_certificates(trusted)
    folder = folder.absolute()
    key = folder / KEY
    public, service = folder / f"{name}.pub", folder / f"aoi-{name}.service"
    state = Path("/var/lib/aoi") / name
    user, group = getpass.getuser(), grp.getgrgid(os.getgid()).gr_name
    units = {service: unit(name, folder, state, user, timed=timed, sandbox=sandbox)}
    if sandbox:
        units = {folder / f"aoi-{name}-app.service": app_unit(name, folder, state, group)} | units
    if timed:
        units[service.with_suffix(".timer")] = TIMER.format(name=name)
    if any(c in str(folder) + sys.prefix for c in " %\"'\\$\n"):
        allowed = "free of spaces, quotes, '%', '$' and backslashes, for the systemd unit"
        remedy = "Choose another folder, or another place for Python's environment."
        raise ConfigError("--dir", f"{folder} with Python in {sys.prefix}", allowed, remedy)
    if os.path.lexists(key):
        raise ConfigError(
            "--dir",
            key,
            "a folder without a key, because a key is never overwritten",
            "To use this key, keep it: the operator has registered its public half. For a new client, choose another "
            f"--dir. For a new key: aoi enroll --new-key --dir {folder}.",
        )
    if (folder / NODE).exists() and (known := read_node(folder)["name"]) != name:
        raise ConfigError("--name", name, f"{known}, the name in {folder / NODE}", "Use that name, or another --dir.")
    with refusing(OSError, "--dir", folder, "a folder that you can write", "Choose another --dir."):
        (folder / "data").mkdir(parents=True, exist_ok=True)
        write_whole(folder / CA, trusted, 0o644)
        write_whole(folder / SUPERLINK, f"SUPERLINK={superlink}\n".encode(), 0o644)
        if not (folder / NODE).exists():  # the owner's rules stay
            write_whole(folder / NODE, node_toml(name, state, folder / "data").encode(), 0o600)
        for path, text in units.items():
            write_whole(path, text.encode(), 0o644)
        _make_key(key, public)  # last, so that an interrupted enrolment can be repeated
    return Enrolment(name, folder, superlink, public, tuple(units))


def new_key(folder: Path) -> tuple[Path, Path]:
    """Give an enrolled client a new key; nothing else in its folder changes.

    Returns
    -------
    The file of the new public key, and the file of the former private key.

    Raises
    ------
    ConfigError : the folder is not a client's, or cannot be written.
    """
    folder = folder.absolute()
    name = str(read_node(folder)["name"])
    public, former = folder / f"{name}.pub", folder / f"{KEY}.former"
    remedy = "Run this as the account of the client."
    with refusing(OSError, "--dir", folder, "a folder that you can write", remedy):
        if (folder / KEY).exists():  # else an earlier try ended after this step
            (folder / KEY).replace(former)
        _make_key(folder / KEY, public)
    return public, former


def read_node(folder: Path) -> dict[str, Any]:
    """Return the node configuration of a client's folder, which has ``name`` and ``state-dir``.

    Raises
    ------
    ConfigError : the file is missing, cannot be read, or lacks one of them.
    """
    return read(folder / NODE, "--dir", "name", "state-dir")


def _make_key(key: Path, public: Path) -> None:
    """Write a new key pair in OpenSSH's form, the private key last."""
    secret, shown = halves(make_key())
    write_whole(public, shown + b"\n", 0o644)
    _write_new(key, secret)


def next_steps(made: Enrolment) -> str:
    """Return the next steps, for the operator and on this device."""
    units = " ".join(str(path) for path in made.units)
    return f"""\
{made.name} is enrolled in {made.folder}. Its private key stays on this device.

1. The operator registers the public key, {made.public_file.name}:

   {made.public_file.read_text().strip()}

   docker compose cp {made.public_file.name} submit:/enrolment/{made.public_file.name}

   For a SuperLink without Docker Compose, CONNECTION is its name in the operator's Flower configuration:

   flwr supernode register {made.public_file.name} CONNECTION
2. Set the client's data in {made.folder / NODE}.
3. Check the device:  aoi doctor --dir {made.folder}
4. Start it, now and at every boot:

   sudo install -m 644 {units} /etc/systemd/system/
   sudo systemctl daemon-reload
   sudo systemctl enable --now {made.units[-1].name}
   journalctl --follow --unit aoi-{made.name}.service

   Without systemd, set state-dir in {NODE} to a folder that you can write, and run:

   {command(made.folder, made.superlink, made.folder / FILE)}"""


def _write_new(path: Path, content: bytes) -> None:
    """Write a new file atomically, never readable for other accounts; fail if it exists."""
    aside = path.with_name(f".{path.name}.new")
    write_whole(aside, content, 0o600)
    try:
        os.link(aside, path)  # unlike a rename, it fails if the file exists
    finally:
        aside.unlink()
    sync(path.parent)
