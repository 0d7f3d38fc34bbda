"""Diagnose a device as a client, from torch to its registration at the SuperLink."""

from collections.abc import Iterator
from pathlib import Path

from aoi_fl.client.device import checks, enroll, reach
from aoi_fl.client.device.reach import Finding
from aoi_fl.protocol.files import read_regular


def examine(folder: Path) -> Iterator[Finding]:
    """Run every check on a folder made by ``aoi enroll``, the last ones over the network."""
    yield from (checks.torch(), *checks.configuration(folder))
    private, finding = checks.client_key(folder / enroll.KEY)
    yield finding
    try:
        words = read_regular(folder / enroll.SUPERLINK).decode().split()
        host, port = reach.split_address(next(w.partition("=")[2] for w in words if w.startswith("SUPERLINK=")))
        ca = read_regular(folder / enroll.CA)
    except (OSError, ValueError, StopIteration) as error:
        remedy = f"Write SUPERLINK=HOST:PORT into {enroll.SUPERLINK}, and copy {enroll.CA} from the operator."
        yield Finding("network", "fail", f"{folder} names no SuperLink: {error}", remedy)
        return
    yield (finding := reach.tcp(host, port))
    if finding.status == "fail":
        return
    yield (finding := reach.tls(host, port, ca))
    if finding.status == "ok" and private is not None:
        from aoi_fl.client.device.registration import registration

        yield registration(host, port, ca, private)
