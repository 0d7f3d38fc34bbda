"""Ten thousand clients that sleep between their rounds."""

from aoi_fl.flower.versions import OVER_GRPC
from aoi_fl.lab.benchmarks.base import Skipped
from aoi_fl.lab.benchmarks.fleet import found, rows

CLIENTS, PER_ROUND = 10_000, 100
ROUND = 120.0  # seconds: longer than a SuperLink needs for a hundred updates and the joining clients
START = 600  # clients at the first round
JOINING, JOINING_HTTP = 4320, 3960  # clients that join in a round: 36 and 33 a second
SECONDS = 2400.0


def run(data, http=False):
    """Run rounds at a fixed pace, so that clients know how long they can sleep.

    Clients join gradually, because thousands of awake clients poll and send more heartbeats than a SuperLink can
    answer. Clients that wake up too early, when rounds take longer than announced, do the same.
    """
    if http == OVER_GRPC:
        raise Skipped("the installed Flower speaks the other protocol")
    played = found(
        clients=CLIENTS,
        per_round=PER_ROUND,
        behaviour="asleep",
        round_seconds=ROUND,
        rounds=3,
        seconds=SECONDS,
        timeout=60.0,
        start=START,
        joining=JOINING_HTTP if http else JOINING,
    )
    yield from rows(played, first=300.0, round=6.0, between=50.0, memory=1024.0)
