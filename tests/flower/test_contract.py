"""What this project holds on to inside Flower, name by name: a version that changed it fails here, and says what."""

import inspect
import re
import subprocess
import threading
import time
from types import SimpleNamespace

import flwr.serverapp
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict

from aoi_fl.client.poll_schedule import HEARTBEAT, LONGEST_HEARTBEAT
from aoi_fl.flower import supernode, versions
from aoi_fl.flower.grids import say_what_ray_needs, uploads
from aoi_fl.flower.messages import bytes_of
from aoi_fl.flower.seams import SEAMS
from aoi_fl.flower.versions import FLOWER, GRPC, HTTP, OVER_GRPC, Seam
from tests.flower.objects import CallFailed


@pytest.mark.parametrize("seam", [pytest.param(seam, id=seam.name) for seam in SEAMS if seam.there])
def test_flower_has_what_a_seam_needs(seam):
    assert not seam.missing(), (
        f"Flower {FLOWER} has no {seam.missing()}: aoi_fl/flower/{seam.module}.py ({seam.name}) needs it, and "
        f"aoi_fl/flower/seams.py says that it is there"
    )


def test_a_grid_is_told_by_the_name_of_its_class():
    def grid(name, base=flwr.serverapp.Grid):
        module, _, name = name.rpartition(".")
        kind = type(name, (base,), {"__module__": module})
        kind.__abstractmethods__ = frozenset()
        return kind()

    here = grid("mine.LocalGrid")
    assert not uploads(here) and not uploads(grid("flwr.superlink.grid.inmemory_grid.InMemoryGrid"))
    for known in ("grpc_grid.GrpcGrid", "http_grid.HttpGrid"):
        theirs = grid(f"flwr.superlink.grid.{known}")
        assert uploads(theirs) and uploads(grid("mine.Counting", type(theirs)))


def test_a_simulation_in_which_ray_may_not_start_says_what_to_do(monkeypatch, caplog):
    theirs = type("InMemoryGrid", (), {"__module__": "flwr.superlink.grid.inmemory_grid"})()
    monkeypatch.setenv("GRPC_ENABLE_FORK_SUPPORT", "0")
    say_what_ray_needs(theirs)
    monkeypatch.delenv("GRPC_ENABLE_FORK_SUPPORT")
    say_what_ray_needs(object())
    assert not caplog.records
    say_what_ray_needs(theirs)
    (said,) = caplog.messages
    assert "GRPC_ENABLE_FORK_SUPPORT=0 flwr run" in said and "Ray did not start" in said


@pytest.mark.parametrize(
    ("text", "speaks"),
    [("1.33.2", ""), ("1.34.0", GRPC), ("1.35.0", ""), ("1.41.0rc1", ""), ("1.42.0", HTTP), ("2.0.0.dev3", HTTP)],
)
def test_a_version_between_the_transports_deploys_nothing(monkeypatch, text, speaks):
    assert versions.spoken(versions.parse(text)) == speaks
    monkeypatch.setattr(versions, "SPOKEN", speaks)
    seam = Seam("x", "x", "os: path", f"nothing is fast on {text}", GRPC)
    fast = seam.needed(lambda: "fast")
    assert fast() == ("fast" if speaks == GRPC else None)
    if speaks:
        versions.check_deployable()
    else:
        with pytest.raises(SystemExit, match="flwr"):
            versions.check_deployable()


def test_what_is_missing_is_named():
    seam = Seam("x", "x", "os: path.join(a) path.join(b) no_such\nno.such: thing", "much")
    assert seam.missing() == ["os:path.join(b)", "os:no_such", "no.such:thing"]


def test_a_supernodes_loop_uses_the_names_that_are_replaced():
    """It sleeps by ``time``, in the two ways that are told apart, and starts its SuperExec, and that alone, as said."""
    from flwr.supernode import start_client_internal

    source = inspect.getsource(start_client_internal)
    assert re.findall(r"subprocess\.\w+\(.*?\)", source) == ["subprocess.Popen(command)"]
    assert 'command = ["flower-superexec"]' in source
    assert set(re.findall(r"time\.(\w+\(.*?\))", source)) == {"sleep(3)", "sleep(0.5)"}


def test_the_superexec_hosts_an_executor_and_its_waits():
    from flwr.supercore.superexec import run_superexec

    source = inspect.getsource(run_superexec)
    assert set(re.findall(r"time\.(\w+\(.*?\))", source)) == {"sleep(1)" if OVER_GRPC else "sleep(task_poll_interval)"}
    assert len(re.findall(r"executor = get_executor\(", source)) == 1


def test_a_supernode_gets_our_waits_heartbeats_and_superexec(monkeypatch):
    from flwr.supernode import cli, start_client_internal

    calls, connection = [], supernode.link()
    monkeypatch.setattr(connection, "HeartbeatSender", sender := connection.HeartbeatSender)
    monkeypatch.setattr(cli, "flower_supernode", lambda: calls.append("flower"))
    monkeypatch.setattr(start_client_internal, "time", time)
    monkeypatch.setattr(start_client_internal, "subprocess", subprocess)
    supernode.run(waits := SimpleNamespace(sleep=calls.append), calls.append, calls.append)
    assert calls == ["flower"] and start_client_internal.time is waits
    assert connection.HeartbeatSender is not sender
    assert start_client_internal.subprocess.Popen == calls.append


def test_heartbeats_survive_any_status(monkeypatch, caplog):
    from flwr.common import constant

    assert (HEARTBEAT, LONGEST_HEARTBEAT) == (constant.HEARTBEAT_DEFAULT_INTERVAL, constant.HEARTBEAT_MAX_INTERVAL)
    connection = supernode.link()
    monkeypatch.setattr(connection, "HEARTBEAT_DEFAULT_INTERVAL", HEARTBEAT)
    monkeypatch.setattr(supernode, "_FIRST_RETRY", 0.01)
    outcomes = iter([True, CallFailed(), CallFailed(), True])
    why, ended = [], threading.Event()

    def send():
        assert connection.HEARTBEAT_DEFAULT_INTERVAL == 600.0
        match next(outcomes, RuntimeError("not recognised")):
            case Exception() as error:
                raise error
            case came:
                return came

    pace = SimpleNamespace(changed=threading.Event(), heartbeat=lambda: (600.0, 0.01))
    sender = supernode.Heartbeats(send, pace, lambda reason: (why.append(reason), ended.set()))
    sender.start()
    assert ended.wait(10) and next(outcomes, None) is None
    assert why == ["its heartbeats have ended: not recognised"]
    assert caplog.messages == ["a heartbeat has failed (StatusCode.INTERNAL) and is retried"]


def test_a_message_is_little_larger_than_its_arrays():
    arrays = ArrayRecord({"w": Array(np.zeros(1000, np.float32))})
    message, other = (Message(RecordDict({"arrays": arrays}), node, "train") for node in (2, 2**63))
    assert 4000 < bytes_of(message) == bytes_of(other) < 5000
    assert message.metadata.dst_node_id == 2
