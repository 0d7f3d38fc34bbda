"""Every policy and every wire, played by a real cluster: it selects whom the same run in one process selects.

What is played comes from the registry: each policy once, each wire once with each module of policies that knows it, and
each module with clients that may bid once more with bids.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, groupby, islice
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from aoi_fl.config.fields import variable
from aoi_fl.config.policies import BUDGETED, REGISTRY, PolicyRow
from aoi_fl.protocol import ASKING, WIRES
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import read
from tests.e2e.cluster import Cluster, queue, start

Command: TypeAlias = Callable[..., tuple[int, str, str]]

ROUNDS = 2
COUNTS = ("round", "messages", "asked", "willing", "declined", "dropped", "trained", "forced")
BY_SECONDS = {"oort", "fedcs"}  # after the first round they go by the seconds that clients took, which differ


def cases(policies: Sequence[PolicyRow]) -> Iterator[dict[str, str]]:
    """Yield the run keys of each run."""
    for _, rows in groupby(policies, lambda policy: policy.maker.partition(":")[0]):
        module = list(rows)
        wired = [policy.name for policy in module if "coordination" in policy.keys]
        for name, wire in islice(zip(cycle(wired), cycle(WIRES), strict=False), max(len(wired), len(WIRES))):
            yield {"policy": name, "coordination": wire}
        for policy in module:
            if policy.name not in wired:
                yield {"policy": policy.name}
        for policy in module[:1]:
            if "index-source" in policy.keys:
                yield {"policy": policy.name, "index-source": "bid"}


CASES = list(cases(list(REGISTRY.values())))


def name_of(keys: dict[str, str]) -> str:
    """Return the name of a run."""
    return "-".join(keys.values())


@pytest.fixture(scope="module")
def submitted(cluster: Cluster) -> Callable[[dict[str, str]], str]:
    """Return a function that returns the container that follows a run; the next run waits in the queue meanwhile."""
    following: dict[str, str] = {}

    def follow(keys: dict[str, str]) -> str:
        at = CASES.index(keys)
        for ahead in CASES[at : at + 2]:
            run = name_of(ahead)
            settings: dict[str, Any] = {variable(key): value for key, value in ahead.items()}
            if not following:
                start(cluster, run, ROUNDS, **settings)
                following[run] = cluster.container("submit")
            elif run not in following:
                following[run] = queue(cluster, run, ROUNDS, **settings)
        return following[name_of(keys)]

    return follow


@pytest.mark.parametrize("keys", CASES, ids=name_of)
def test_a_cluster_selects_the_clients_that_one_process_selects(
    cluster: Cluster, submitted: Callable[[dict[str, str]], str], aoi: Command, keys: dict[str, str]
) -> None:
    run, container = name_of(keys), submitted(keys)
    assert cluster.await_end(submit=container) == 0, cluster.docker("logs", container)
    ledger = cluster.ledger(run)
    assert ledger["run"]["status"] == "completed"
    assert {part["outcome"] for part in ledger["participations"]} == {"trained"}, cluster.docker("logs", container)

    told = keys | {"num-server-rounds": str(ROUNDS), "num-clients": "4", "run-name": run}
    told |= {"preset": "papers"}
    told |= {} if keys["policy"] in BUDGETED else {"clients-per-round": "2"}
    status, _, errors = aoi("run", *(part for key, value in told.items() for part in ("-c", f"{key}={value}")))
    assert status == 0, errors
    path, rounds = Path("runs") / run / LEDGER, 1 if keys["policy"] in BY_SECONDS else ROUNDS
    alone = {table: [dict(row) for row in read(path, table)] for table in ("rounds", "participations")}
    if (
        keys["policy"].startswith("markov") and keys["coordination"] in ASKING
    ):  # over a network newcomers are asked at once
        alone["rounds"][0]["messages"] -= 2 * 4
    assert [_counts(row) for row in ledger["rounds"][:rounds]] == [_counts(row) for row in alone["rounds"][:rounds]]
    assert _selected(ledger, rounds) == _selected(alone, rounds)


def _counts(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in COUNTS}


def _selected(ledger: dict[str, Any], rounds: int) -> set[tuple[int, int]]:
    return {(part["round"], part["client"]) for part in ledger["participations"] if part["round"] <= rounds}
