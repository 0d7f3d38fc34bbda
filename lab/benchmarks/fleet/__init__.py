"""The time of a round with thousands of virtual SuperNodes.

Virtual nodes in one process, each with its registered key, call Flower's Fleet API over TLS. The SuperLink has SQLite
on disk; the ServerApp has its own process. Nodes behave as Flower's own SuperNode or as ours, awake or asleep between
their rounds. Their ClientApp returns the model at once. All processes share this machine, so times are upper bounds.

``python -m aoi_fl.lab.benchmarks fleet`` runs two hundred nodes and a thousand, ``asleep`` two and ten thousand,
``stock`` Flower's own until rounds time out. ``python -m aoi_fl.lab.benchmarks.fleet --clients 50 --per-round 5`` runs
one scenario with any of its settings and prints all that was measured: ``--server stock`` is Flower's SuperLink,
``--model resnet18`` a model of 122 arrays.
"""

import statistics
from dataclasses import asdict

from aoi_fl.flower.versions import OVER_GRPC, check_deployable
from aoi_fl.lab.benchmarks.base import Row, Skipped

SOME, MANY, PER_ROUND, RESTARTS = 200, 1000, 20, 20
_TOLD = {
    "ours": "SuperNodes, awake",
    "asleep": "SuperNodes, asleep between rounds",
    "stock": "stock SuperNodes on our SuperLink",
    "all stock": "stock SuperNodes on Flower's SuperLink",
    "superlink": "SuperLink",
    "serverapp": "ServerApp",
}


def run(data):
    """Measure reserve with kills, with few and with many nodes, poll, and many kills of the SuperLink."""
    few = {"clients": SOME, "per_round": PER_ROUND, "killing": True, "rounds": 4, "seconds": 420.0, "timeout": 30.0}
    many = few | {"clients": MANY, "rounds": 5, "seconds": 700.0}
    poll = {"clients": MANY, "per_round": PER_ROUND, "coordination": "poll", "timeout": 300.0, "rounds": 2}
    yield from rows(found(**few), first=60.0)
    yield from rows(found(**many), first=45.0, round=3.0)
    yield from rows(found(**poll, seconds=600.0), first=60.0, round=25.0)
    yield restarted(found(**few | {"killing": False, "restarts": RESTARTS, "seconds": 900.0}))


def found(**settings):
    """Run a scenario and return its measurements."""
    check_deployable()
    from aoi_fl.lab.benchmarks.fleet.play import play
    from aoi_fl.lab.benchmarks.fleet.scenario import Scenario

    return play(Scenario(**settings))


def rows(found, **limits):
    """Return the rows of a run; ``limits`` of ``first``, ``round``, ``between`` and ``memory``.

    Where nodes join during the run, ``first`` is the limit of the time until all are greeted. Raises Skipped if the run
    was not complete in time.
    """
    scenario = found.scenario
    nodes = _TOLD["all stock" if scenario.server == "stock" else scenario.behaviour]
    over = "" if OVER_GRPC else ", over HTTP"
    who = f"{scenario.clients} {nodes}, {scenario.coordination}{over}"
    _check(found, who)
    connected = f"connecting took {found.registered + found.connected:.0f} s more"
    if scenario.joining:
        pace = scenario.joining / scenario.round_seconds
        note = f"{scenario.start} at once, then {pace:.0f} join each second; {found.newcomer_cpu:.0f} ms of the "
        note += f"SuperLink's processor each; {connected}"
        yield Row(f"{who}: until all are greeted", "–", limits.get("first"), found.greeted, "s", note, asdict(found))
    else:
        yield Row(f"{who}: the first round", "–", limits.get("first"), found.first, "s", connected, asdict(found))
    cpu = " and ".join(f"{getattr(found, key):.2f}" for key in ("superlink_cpu", "serverapp_cpu"))
    requests, size = sum(found.requests.values()), found.bytes / 1e6
    yield Row(
        f"{who}: a round after the first, k = {scenario.per_round}",
        "–",
        limits.get("round"),
        statistics.median(found.rounds),
        "s",
        note=f"at most {max(found.rounds):.1f}; SuperLink and ServerApp take {cpu} of a processor, all nodes "
        f"{found.own_cpu:.2f}; {requests:.0f} requests a second, {size:.2f} MB a round",
    )
    yield Row(f"{who}: looks and heartbeats a second", "–", limits.get("between"), found.between, "/s")
    for where in ("superlink", "serverapp"):
        peak = getattr(found, f"{where}_peak")
        yield Row(f"{who}: the {_TOLD[where]}'s peak memory", "–", limits.get("memory"), peak, "MiB")
    if scenario.killing:
        kills = "; ".join(f"{name} {kill['seconds']:.1f} s" for name, kill in found.kills.items())
        note = f"seconds of the round in which it was: {kills}; {found.late} late, {found.failed} calls failed"
        yield Row(f"{who}: replies lost that were sent, kills included", "–", 0, found.lost, "replies", note=note)


def restarted(found):
    """Return the row of a run in which the SuperLink was killed again and again."""
    _check(found, "repeated kills of the SuperLink")
    seconds = [kill["seconds"] for kill in found.kills.values()]
    return Row(
        f"{found.scenario.clients} SuperNodes, the SuperLink killed {len(seconds)} times in mid-round: "
        "replies lost that were sent",
        "–",
        0,
        found.lost,
        "replies",
        note=f"a round with a kill: {statistics.median(seconds):.1f} s, at most {max(seconds):.1f}; "
        f"{found.trained} updates, {found.late} late",
        details=asdict(found),
    )


def _check(found, who):
    if not found.complete:
        raise Skipped(f"{who}: the rounds did not complete in {found.scenario.seconds:g} s")
