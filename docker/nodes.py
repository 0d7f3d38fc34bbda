"""Look at the registered clients, and revoke one: ``python -m aoi_fl.docker.nodes [revoke NAME]``."""

import sys

import grpc

from aoi_fl.docker.arrivals import AUTHORITY, CONTROL, ENROLMENT, say
from aoi_fl.docker.control import Control, read_key
from aoi_fl.protocol.files import write_whole
from aoi_fl.science.errors import AoiError, ConfigError


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


def show(control: Control) -> None:
    """List the clients, and the files of keys that are of no use."""
    for public in sorted(ENROLMENT.glob("*.pub")):
        try:
            say(" ".join(map(str, (public.stem, *control.standing(public)))))
        except ConfigError as error:
            say(f"passed over: {error}")


def main() -> None:
    """List the clients, or revoke the one named on the command line; a mistake or a silent SuperLink ends with 2."""
    try:
        if sys.argv[1:2] == ["revoke"] and len(sys.argv) == 3:
            revoke(Control(CONTROL, AUTHORITY), sys.argv[2])
        elif len(sys.argv) == 1:
            show(Control(CONTROL, AUTHORITY))
        else:
            sys.exit("usage: python -m aoi_fl.docker.nodes [revoke NAME]")
    except AoiError as error:
        say(f"aoi: {' '.join(str(error).split())}")
        sys.exit(2)
    except grpc.RpcError:
        say(f"aoi: the SuperLink at {CONTROL} does not answer: see `docker compose logs superlink`, and ask again.")
        sys.exit(2)


if __name__ == "__main__":
    main()
