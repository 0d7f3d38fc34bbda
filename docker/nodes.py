"""The registered clients of a cluster: list them, and revoke one."""

from pathlib import Path

from aoi_fl.docker.arrivals import ENROLMENT, say
from aoi_fl.docker.control import Control, read_key
from aoi_fl.protocol.files import write_whole
from aoi_fl.science.errors import ConfigError


def revoke(control: Control, name: str) -> None:
    """Take a client's key back, so that it is not let in any more."""
    public = ENROLMENT / f"{name}.pub"
    if not public.exists():
        names = sorted(known.stem for known in ENROLMENT.glob("*.pub"))
        raise ConfigError(
            "client",
            name,
            tuple(names) or "an enrolled client, and there is none",
            "Choose one of the enrolled clients.",
        )
    found = control.revoke(public)
    write_whole(public.with_suffix(".revoked"), read_key(public))  # `submit` does not register it again
    public.with_suffix(".registered").unlink(missing_ok=True)
    say(f"{name} (node {found}) is revoked")


def _container(public: Path) -> list[str]:
    """Return the container that a client runs in, where it runs in one."""
    try:
        return [read_key(public.with_suffix(".container")).decode(errors="replace")]
    except ConfigError:
        return []


def show(control: Control) -> None:
    """List the clients, and the files of keys that are of no use."""
    for public in sorted(ENROLMENT.glob("*.pub")):
        try:
            say(" ".join(map(str, (public.stem, *control.standing(public), *_container(public)))))
        except ConfigError as error:
            say(f"skipped: {error}")
