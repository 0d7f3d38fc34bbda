"""``aoi doctor``: check whether this device can be a client."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def doctor(
    folder: Annotated[
        Path | None, typer.Option("--dir", help="A folder made by aoi enroll; it replaces the other options.")
    ] = None,
    superlink: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The SuperLink's Fleet API, port 9092.")
    ] = None,
    ca: Annotated[Path | None, typer.Option(help="The authority's certificate.")] = None,
    key: Annotated[Path | None, typer.Option(help="The client's private key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Check a client's requirements and connection to the SuperLink.

    It checks Python, torch, disk, clock and keys, and asks the SuperLink about this client.

    It ends with status 1 if a check fails. The last check connects as the client and disconnects at once.
    """
    from aoi_fl.client.device import doctor as checks

    findings = checks.examine(folder, superlink, ca, key)
    failed = any(finding.status == "fail" for finding in findings)
    if as_json:
        print(json.dumps({"healthy": not failed, "checks": [vars(finding) for finding in findings]}))
    else:
        for finding in findings:
            print(f"{finding.status:4}  {finding.check}: {finding.found}")
            if finding.remedy:
                print(f"      → {finding.remedy}")
    sys.exit(failed)
