"""Which calls a SuperLink with one port answers from outside its inner network."""

import asyncio

import pytest

from aoi_fl.flower import doors
from aoi_fl.flower.versions import Seam

INNER, OUTER = "172.20.0.2", "172.21.0.2"


def status(address: str, path: str) -> int:
    """Return the status of the answer to a call that arrives at an address."""
    sent: list[dict[str, object]] = []

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})

    async def keep(message):
        sent.append(message)

    scope = {"type": "http", "path": path, "server": (address, 9092)}
    asyncio.run(doors.Doors(answer, INNER)(scope, None, keep))
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("path", "outside"),
    [
        ("/v1/fleet/pull-messages", 200),
        ("/health", 200),
        ("/v1/control/start-run", 403),
        ("/v1/runtime/get-nodes", 403),
        ("/v1/fleetx", 403),
        ("//v1/control/start-run", 403),
        ("/docs", 403),
    ],
)
def test_outside_only_calls_of_clients_are_answered(path, outside):
    assert (status(OUTER, path), status(INNER, path)) == (outside, 200)


def test_a_flower_that_cannot_close_its_doors_does_not_start(monkeypatch):
    monkeypatch.setattr(doors, "DOORS", Seam("x", "doors", "no.such: thing", "it is open"))
    with pytest.raises(SystemExit, match="it is open"):
        doors.close_doors(INNER)
