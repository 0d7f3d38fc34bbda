"""Which calls a SuperLink with one port answers from outside its inner network."""

import asyncio
import json
import logging

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.proto.node_pb2 import Node

from aoi_fl.flower import doors, lane
from aoi_fl.flower.fleet import signature
from aoi_fl.flower.seams import LANE
from aoi_fl.flower.versions import Seam
from aoi_fl.lab.benchmarks.fleet import http_channel
from aoi_fl.lab.benchmarks.fleet.virtual import public_pem
from tests.flower.objects import running
from tests.processes import python

INNER, OUTER = "172.20.0.2", "172.21.0.2"


def status(address: str, path: str, body=(b"",), **headers: str) -> int:
    """Return the status of the answer to a call that arrives at an address; the rest of its body never arrives."""
    sent: list[dict[str, object]] = []

    parts = list(body)

    async def answer(scope, receive, send):
        if address == OUTER:
            assert (await receive())["body"] == b"".join(body)
        await send({"type": "http.response.start", "status": 200})

    async def receive():
        if not parts:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts) or body[-1] != b""}

    async def keep(message):
        sent.append(message)

    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "path": path, "server": (address, 9092), "headers": named}
    asyncio.run(doors.Doors(answer, INNER)(scope, receive, keep))
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


@pytest.mark.parametrize(
    ("path", "headers", "outside"),
    [
        ("/v1/fleet/pull-messages", {"content_length": str(3 << 20)}, 413),
        ("/v1/fleet/push-object", {"content_length": str(6 << 20)}, 200),
        ("/v1/fleet/push-object", {"content_length": str(1 << 30)}, 413),
        ("/v1/fleet/push-object", {"transfer_encoding": "chunked"}, 411),
        ("/v1/fleet/push-object", {"content_length": "9" * 5000}, 413),
        ("/v1/fleet/push-object", {"content_length": "-1"}, 400),
    ],
)
def test_a_body_from_outside_has_a_bound_that_is_known_before_it_is_read(path, headers, outside):
    assert (status(OUTER, path, **headers), status(INNER, path, **headers)) == (outside, 200)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, 200) for host in ("superlink:9092", "127.0.0.1", "[::1]:9092", "a_b.example", "")),
        *((host, 400) for host in ("[", "a?", "a/v1/fleet/", "a#", "a@b", "a b", "a:b", "a\\b", "é")),
    ],
)
def test_a_host_that_would_hide_a_path_is_refused_at_every_address(host, expected):
    assert [status(at, "/v1/fleet/pull-messages", host=host) for at in (OUTER, INNER)] == [expected] * 2


def test_a_body_that_stops_is_answered_after_its_time(monkeypatch):
    monkeypatch.setattr(doors, "_MOST_ELSE", (1 << 20, 0.05))
    assert status(OUTER, "/v1/fleet/pull-messages", body=(b"half",)) == 408
    assert status(OUTER, "/v1/fleet/pull-messages", body=(b"half", b"other", b"")) == 200


ORDER = """
import json
from aoi_fl.docker import superlink
from flwr.superlink.main import create_app
superlink.run_command = lambda name: print(json.dumps([m.cls.__module__ for m in create_app().user_middleware[:2]]))
superlink.main()
"""


@pytest.mark.skipif(not LANE.there, reason="over gRPC a call passes through no middleware")
@pytest.mark.parametrize("enterprise", [False, True])
def test_doors_are_before_the_short_way_which_gives_way_to_flowers_enterprise_package(enterprise):
    ee = "import importlib.machinery as m, sys, types; e = types.ModuleType('flwr.ee')\n"
    ee += "e.__spec__ = m.ModuleSpec('flwr.ee', None); import flwr.superlink.main; sys.modules['flwr.ee'] = e\n"
    done = python("-c", (ee if enterprise else "") + ORDER, "--inner-host", "127.0.0.1")
    first, second = json.loads(done.stdout.splitlines()[-1])
    assert first == "aoi_fl.flower.doors" and (second == "aoi_fl.flower.lane") is not enterprise


def test_a_flower_that_cannot_close_its_doors_does_not_start(monkeypatch):
    monkeypatch.setattr(doors, "DOORS", Seam("x", "doors", "no.such: thing", "it is open"))
    with pytest.raises(SystemExit, match="it is open"):
        doors.close_doors(INNER)


@pytest.mark.skipif(not LANE.there, reason="over gRPC a call passes through no middleware")
def test_the_short_way_gives_the_answers_of_the_long_one():
    """Each call of a client and of a ServerApp, well-formed or not, against Flower's own application."""
    from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES
    from flwr.superlink.main import create_app
    from starlette.testclient import TestClient

    app = create_app()
    state = app.state.linkstate_factory.state()
    key, stranger = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    node = state.create_node("", "", public_pem(key), 30.0)
    assert state.activate_node(node, 30.0)
    run, _, token = running(state)

    def forbidden(scope, receive, send):
        raise AssertionError(scope["path"])

    short = lane.Lane(forbidden)

    async def shortened(scope, receive, send):
        scope["app"] = app
        await short(scope, receive, send)

    long, short_client = TestClient(app, raise_server_exceptions=False), TestClient(shortened)
    plain = {"content-type": "application/protobuf"}
    statuses = set()
    for path in short._calls:
        kind = PROTOBUF_REQUEST_TYPES["POST", path]
        fields = {field.name for field in kind.DESCRIPTOR.fields}
        about = {"node": Node(node_id=node), "run_id": run, "heartbeat_interval": 30.0, "public_key": public_pem(key)}
        body = kind(**{name: value for name, value in about.items() if name in fields}).SerializeToString()
        signed = plain | http_channel._headers(signature(key, public_pem(key)))
        forged = plain | http_channel._headers(signature(stranger, public_pem(key)))
        other = plain | http_channel._headers(signature(stranger, public_pem(stranger)))
        mine = signed | {"flwr-task-token": token}
        for headers, content in (
            (mine, body),
            (signed, body),
            (forged, body),
            (other, body),
            (plain, body),
            (mine, b"\xff"),
            (mine | {"content-type": "text/plain"}, body),
            (mine | {"flwr-package-version": "9.9.9"}, body),
        ):
            answers = [client.post(path, content=content, headers=headers) for client in (long, short_client)]
            expected, found = ((a.status_code, a.content, a.headers.get("content-type")) for a in answers)
            assert found == expected, (path, headers)
            statuses.add(found[0])
    assert statuses >= {200, 401} and short_client.get("/health", headers={"host": "["}).status_code == 400


@pytest.mark.skipif(not LANE.there, reason="over gRPC no call has a line in the log")
def test_a_routine_call_has_a_line_in_the_log_only_if_it_fails(caplog):
    access = logging.Logger("calls")
    access.addHandler(caplog.handler)
    lane._drop_routine(access)
    for path, status in (("/v1/fleet/pull-object?x=1", 200), ("/v1/fleet/pull-object", 401), ("/v1/control/x", 200)):
        access.info('%s - "%s %s HTTP/%s" %d', "1.2.3.4:5", "POST", path, "1.1", status)
    assert [record.args[2::2] for record in caplog.records] == [("/v1/fleet/pull-object", 401), ("/v1/control/x", 200)]
