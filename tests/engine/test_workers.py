"""Clients in worker processes: the same results as in one, and no client can take the run or a worker with it."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import flwr.clientapp
import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict

from aoi_fl.client.state import written_together
from aoi_fl.science.errors import AoiError
from aoi_fl.server.checkpoint import Checkpoints
from aoi_fl.server.engine import worker_process
from aoi_fl.server.engine.machine import usable_cores
from aoi_fl.server.engine.worker_grid import WorkerGrid
from aoi_fl.server.engine.worker_pool import Workers
from aoi_fl.server.engine.worker_process import load
from aoi_fl.server.ledger import Ledger
from aoi_fl.server.observe import Recorder
from aoi_fl.strategies import RandomSelection, RoundOptions
from tests.fakes import zeros
from tests.ledgers import left_behind, parts_of, rounds_of
from tests.processes import ROOT

UNRULY = ROOT / "tests/apps/unruly"
MEMORY = 1 << 30
# The villain is the first client, behind whom ordered replies queue. What it does, and what becomes known of it.
MISDEEDS = {
    "raise": ("failed", ["ValueError: no power"]),
    "kill": ("failed", ["killed", "SIGKILL"]),
    "exit": ("failed", ["ended with status 7"]),
    "allocate": ("failed", ["out of memory", f"{MEMORY / 1e6:.0f} MB"]),
    "hang": ("late", ["no reply by the deadline"]),  # the last: later rounds do not wait as long for it
}
FEW = ("raise", "kill", "hang")  # each costs a worker, which takes seconds to start
LAST, SLOW, CLIENTS = 9, 9, 4


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children_of(pid):
    return [int(p) for task in Path(f"/proc/{pid}/task").iterdir() for p in (task / "children").read_text().split()]


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return met


def pids_of(workers):
    return [worker.process.pid for worker in workers._workers]


def worked(home):
    return {int(path.name[7:]) for path in (home / "notes").glob("worker-*")}


class Tell(Recorder):
    """The server's own observer; the round in which a client hangs has a short deadline, and its worker ends later."""

    def round_done(self, record, *rest):
        super().round_done(record, *rest)
        if self.misdeeds.get(record.round) == "hang":
            assert wait_until(lambda: pids_of(self.workers) != self.before, 30)
        self.before = pids_of(self.workers)
        seconds = 3.0 if self.misdeeds.get(record.round + 1) == "hang" else 60.0
        run = self.strategy._run
        run.options = replace(run.options, train_timeout=seconds)


@pytest.fixture(scope="module", params=[FEW, pytest.param(tuple(MISDEEDS), marks=pytest.mark.slow)], ids=["few", "all"])
def unruly(request, tmp_path_factory):
    """Return what a run with a misdeed a round left: ledger rows, worker pids, who worked, a later exchange, spools."""
    home = tmp_path_factory.mktemp("unruly")
    config = {"villain": 0, "slow-round": SLOW, "notes": str(home / "notes"), "runs-dir": str(home)}
    misdeeds = dict(enumerate(request.param, 2))
    config |= {f"round-{r}": how for r, how in misdeeds.items()}
    (home / "notes").mkdir()
    sys.path.insert(0, str(UNRULY))
    try:
        with Workers("unruly:app", 2, memory=MEMORY) as workers, written_together(alone=False) as write:
            grid = WorkerGrid(load("unruly:app"), config, CLIENTS, write, workers)
            observer = Tell(Ledger(home / "ledger.sqlite"), Checkpoints(home / "checkpoints"), LAST)
            observer.workers, observer.misdeeds = workers, misdeeds
            options = RoundOptions(run="r", seed=1, deterministic=True, train_timeout=60.0, evaluate_clients=0)
            observer.strategy = RandomSelection(CLIENTS, options=options, observer=observer)
            model = zeros(3)
            result = observer.strategy.start(grid, model, LAST)
            content = RecordDict({"arrays": model, "config": ConfigRecord({"server-round": SLOW})})
            nodes = list(grid.get_node_ids())

            def exchange():
                replies = grid.send_and_receive([Message(content, node, "train") for node in nodes])
                return [nodes.index(reply.metadata.src_node_id) for reply in replies]

            wait_until(lambda: exchange() and worked(home) == set(pids_of(workers)), 60)  # a new worker takes its time
            order = exchange()
            pids, spool = pids_of(workers), workers._spool
            assert all(map(alive, pids)) and spool.is_dir() and not list(spool.iterdir())
    finally:
        sys.path.remove(str(UNRULY))
    return {
        "misdeeds": misdeeds,
        "rounds": {r["round"]: r for r in rounds_of(home)},
        "parts": parts_of(home),
        "model": result.arrays["w"].numpy().tolist(),
        "order": order,
        "pids": pids,
        "spool": spool,
        "worked": worked(home),
        "states": {p.stem: json.loads(p.read_text())["age"]["last"] for p in (home / "r/clients").glob("*.json")},
    }


def test_a_misdeed_costs_its_client_alone_and_is_named(unruly):
    for round_, misdeed in unruly["misdeeds"].items():
        outcome, words = MISDEEDS[misdeed]
        parts = {p["client"]: p for p in unruly["parts"] if p["round"] == round_}
        assert [parts[client]["outcome"] for client in range(CLIENTS)] == [outcome] + ["trained"] * (CLIENTS - 1)
        assert parts[0]["name"] == "client-0" and all(word in parts[0]["reason"] for word in words)
        assert unruly["rounds"][round_]["dropped"] == 1


def test_later_rounds_have_all_clients_and_all_workers(unruly):
    trained = [unruly["rounds"][r]["trained"] for r in range(1, LAST + 1)]
    assert trained == [4 - (r in unruly["misdeeds"]) for r in range(1, LAST + 1)]
    assert unruly["model"] == [LAST] * 3
    assert unruly["worked"] == set(unruly["pids"]) and len(unruly["worked"]) == 2


def test_client_state_follows_to_any_worker(unruly):
    counted = {c: [p["examples"] for p in unruly["parts"] if p["client"] == c and p["examples"]] for c in range(4)}
    assert counted == {
        0: [*range(1, LAST - len(unruly["misdeeds"]) + 1)],
        **{c: [*range(1, LAST + 1)] for c in (1, 2, 3)},
    }
    assert unruly["states"] == {f"client-{c}": LAST for c in range(4)}


def test_replies_arrive_as_ready_and_workers_leave_nothing(unruly):
    assert sorted(unruly["order"]) == [0, 1, 2, 3] and unruly["order"][0] != 0  # the first client is slow
    assert not any(map(alive, unruly["pids"])) and not unruly["spool"].exists()


SERVER = """
import sys
sys.path[:0] = [{root!r}, {unruly!r}]
from flwr.app import ConfigRecord, Message, RecordDict
from aoi_fl.server.engine.worker_process import load
from aoi_fl.server.engine.worker_grid import WorkerGrid
from aoi_fl.server.engine.worker_pool import Workers
config = {{"villain": 0, "round-1": "hang", "slow-round": 0, "notes": {notes!r}}}
with Workers("unruly:app", 1) as workers:
    grid = WorkerGrid(load("unruly:app"), config, 1, lambda: None, workers)
    content = RecordDict({{"config": ConfigRecord({{"server-round": 1}})}})
    grid.send_and_receive([Message(content, node, "train") for node in grid.get_node_ids()])
"""


def test_hanging_workers_end_with_a_killed_server(tmp_path):
    code = SERVER.format(root=str(ROOT), unruly=str(UNRULY), notes=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(tmp_path)}) as server:
        assert wait_until((tmp_path / "misdeed").exists, 60)
        assert list(tmp_path.glob("aoi-workers-*"))
        children = children_of(server.pid)
        server.kill()
    assert children and wait_until(lambda: not any(map(alive, children)), 20)
    assert wait_until(lambda: not list(tmp_path.glob("aoi-workers-*")), 5)


MESSAGE = (
    Message(RecordDict(), 1, "train"),
    Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={}),
)


def test_an_app_that_workers_cannot_import_is_an_error():
    with Workers("no_such_app:app", 1) as workers, pytest.raises(AoiError, match=r"--workers.* start: .*no_such_app"):
        workers.submit(*MESSAGE, time.monotonic() + 60)
        while not workers.take([""], time.monotonic() + 1):
            pass


def test_more_workers_or_threads_than_cores_are_refused(refusal, tmp_path):
    cores = usable_cores()
    several = max(2, cores)
    for arguments, *words in [
        (f"--workers {cores + 1}", f"--workers is {cores + 1}", f"at most {cores}"),
        (f"--workers {several} -c threads=2", f"--workers is {several}", "or threads"),
        (f"-c threads={cores + 1}", f"threads is {cores + 1}"),
    ]:
        message = refusal(f"run -c run-name=r {arguments}")
        assert all(word in message for word in [*words, f"{cores}"]), message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), ("1600000 100000", 8), ("many", 8), (None, 8)],
)
def test_the_quota_of_a_control_group_limits_the_cores(quota, cores, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    if quota is not None:
        (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert usable_cores(tmp_path) == cores


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."), "out of memory: the GPU"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "the GPU"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "out of memory: a client of a worker"),
        (MemoryError(), "out of memory: a client of a worker may take 7 MB"),
        (RuntimeError("CUDA error: device-side assert triggered"), ""),
        (ValueError("CUDA out of memory is a phrase"), ""),
    ],
)
def test_a_worker_without_memory_is_replaced(tmp_path, error, words):
    app = flwr.clientapp.ClientApp()

    @app.train()
    def train(message, context):
        raise error

    reason, spent = worker_process._play(app, *MESSAGE, tmp_path / "reply", 7_000_000)
    assert spent is bool(words) and words in reason.splitlines()[-1]
    assert not list(tmp_path.iterdir())


KEYS = (
    "-cnum-clients=12 -cclients-per-round=5 -cnum-server-rounds=6 -clocal-epochs=5 -cevaluate-clients=3 -cseed=5 "
    "-cdevice=cpu -cpreset=papers -cpolicy=systematic -ccoordination=reserve -crates=size -csizes=zipf:1.5 "
    "-cweights=unbiased -cjitter=0.2 -crun-name="
)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(usable_cores() < 2, reason="two workers need two cores")
def test_a_run_by_workers_equals_a_single_process(aoi, tmp_path):
    for name in ("one", "two --workers 2"):
        status, _, err = aoi(f"run {KEYS}{name}")
        assert status == 0, err
    assert left_behind(tmp_path / "runs/one") == left_behind(tmp_path / "runs/two")
