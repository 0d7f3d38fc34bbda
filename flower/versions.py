"""Where this project holds on to what Flower does not promise: each seam, on which versions it is, and what it brings.

Strategies, clients and engines need Flower's public API, which has been the same since 1.32. What is more lies behind
a :class:`Seam`. Whoever needs one asks whether it is :attr:`~Seam.there`; where it is not, things go the plain way, and
one warning says what is lost.
"""

import importlib
import inspect
import logging
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

logger = logging.getLogger("flwr")

_NEED = re.compile(r"(?P<module>[\w.]+):(?P<attribute>[\w.]+)(?:\((?P<parameters>[\w, ]*)\))?")


def parse(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, without what follows them: ``"1.34.0rc1"`` is (1, 34, 0)."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


FLOWER = version("flwr")  # the one that is installed
INSTALLED = parse(FLOWER)


@cache
def warn_once(text: str) -> None:
    """Warn, but of the same thing once only."""
    logger.warning("%s", text)


@dataclass(frozen=True)
class Seam:
    """Something of Flower's inside that one module of this room uses.

    Attributes
    ----------
    name : what it is for
    module : the module of this room
    needs : names of Flower's, ``"module:attribute"``, of a function with the parameters that are given to it
    lost : what is lost without it; empty if Flower itself does what is wanted there
    since, before : versions of Flower that have it, from the first up to the second, which does not; None: no end known
    named : whether a version without it has not got all of the names either; else it has, and nobody answers
    """

    name: str
    module: str
    needs: tuple[str, ...]
    lost: str = ""
    since: str = "1.32"
    before: str | None = None
    named: bool = True

    @property
    def there(self) -> bool:
        """Whether the installed version is one of those that have it."""
        return parse(self.since) <= INSTALLED and (self.before is None or parse(self.before) > INSTALLED)

    def say_what_is_lost(self) -> None:
        """Warn of what is lost; once, however often it is called."""
        warn_once(f"Flower {FLOWER}: {self.lost}. It needs a Flower {self.versions}.")

    @property
    def versions(self) -> str:
        """The versions that have it, in words."""
        return f"from {self.since} on" if self.before is None else f"from {self.since} to below {self.before}"

    def missing(self) -> list[str]:
        """Return those of its needs that the installed version does not have."""
        return [need for need in self.needs if not _has(need)]


def _has(need: str) -> bool:
    found = _NEED.fullmatch(need)
    if found is None:
        raise ValueError(f"{need!r} is no need: write it as 'module:attribute' or 'module:function(parameter, …)'")
    try:
        thing = importlib.import_module(found["module"])
        for part in found["attribute"].split("."):
            thing = getattr(thing, part)
    except (ImportError, AttributeError):
        return False
    wanted = set(re.findall(r"\w+", found["parameters"] or ""))
    return not wanted or wanted <= inspect.signature(thing).parameters.keys()  # type: ignore[arg-type]


MESSAGES = Seam(
    "messages and runs outside of Flower's own",
    "messages",
    (
        "flwr.supercore.run:Run.create_empty",
        "flwr.app.message.message:Message.__init__(metadata)",
        "flwr.app.metadata:Metadata.run_id",
        "flwr.app.metadata:Metadata.src_node_id",
        "flwr.app.metadata:Metadata.message_id",
    ),
    "messages cannot be made outside of a run, which the local engine needs",
)
IDENTITY = Seam(
    "who makes a message",
    "messages",
    (
        "flwr.supercore.task_identity:TaskIdentity.__class__.run_id",
        "flwr.supercore.task_identity:TaskIdentity.__class__.node_id",
        "flwr.supercore.task_identity:TaskIdentity.__class__.task_id",
    ),
    since="1.38",
)
ERRORS = Seam(
    "the codes of error replies",
    "errors",
    (
        "flwr.common.constant:ErrorCode.CLIENT_APP_RAISED_EXCEPTION",
        "flwr.common.constant:ErrorCode.NODE_UNAVAILABLE",
    ),
    "a client that is gone cannot be told from one that failed",
)
LOOP = Seam(
    "the waits of a SuperNode",
    "supernode",
    (
        "flwr.supernode.cli:flower_supernode",
        "flwr.supernode.start_client_internal:time.sleep",
        "flwr.supernode.start_client_internal:subprocess.Popen",
    ),
    "this SuperNode looks for messages every three seconds, however many there are",
)
BEATS = Seam(
    "heartbeats at intervals of one's own",
    "supernode",
    (
        "flwr.client.grpc_rere_client.connection:HeartbeatSender(heartbeat_fn)",
        "flwr.client.grpc_rere_client.connection:HEARTBEAT_DEFAULT_INTERVAL",
    ),
    since="1.34",
    before="1.40",
    named=False,
)
WARM = Seam(
    "a SuperExec that has its libraries loaded",
    "superexec",
    (
        "flwr.supernode.runtime.run_clientapp:run_clientapp"
        "(runtime_api_address, token, insecure, certificates, parent_pid, runtime_dependency_install)",
        "flwr.supercore.superexec.executor.types:LaunchResult.accepted",
        "flwr.supercore.superexec.executor.types:LaunchResult.failed",
        "flwr.proto.runtime_pb2_grpc:RuntimeStub",
        "flwr.supercore.superexec.plugin:ClientAppExecPlugin",
        "flwr.supercore.superexec.run_superexec:get_executor",
        "flwr.supercore.superexec.run_superexec:time.sleep",
        "flwr.supercore.superexec.run_superexec:run_superexec"
        "(plugin_class, stub_class, runtime_api_address, insecure, root_certificates_path, parent_pid, "
        "runtime_dependency_install)",
    ),
    "this client starts a program for each message, which imports its libraries anew",
    since="1.34",
    before="1.35",
)
CONTROL = Seam(
    "keys and runs, asked over gRPC",
    "control",
    (
        "flwr.proto.control_pb2_grpc:ControlStub",
        "flwr.proto.control_pb2:RegisterNodeRequest",
        "flwr.proto.control_pb2:UnregisterNodeRequest",
        "flwr.proto.control_pb2:ListNodesRequest",
        "flwr.proto.control_pb2:ListRunsRequest",
        "flwr.proto.control_pb2:StreamLogsRequest",
    ),
    "the SuperLink's Control API speaks HTTP, which `docker compose up` cannot: its images need the extra deploy",
    before="1.37",
    named=False,
)
FLEET = Seam(
    "a client's key, tried over gRPC",
    "fleet",
    (
        "flwr.proto.fleet_pb2_grpc:FleetStub",
        "flwr.proto.fleet_pb2:ActivateNodeRequest",
        "flwr.proto.fleet_pb2:DeactivateNodeRequest",
        "flwr.proto.heartbeat_pb2:SendNodeHeartbeatRequest",
        "flwr.proto.node_pb2:Node",
        "flwr.common.constant:HEARTBEAT_MIN_INTERVAL",
        "flwr.common.constant:PUBLIC_KEY_HEADER",
        "flwr.common.constant:SIGNATURE_HEADER",
        "flwr.common.constant:TIMESTAMP_HEADER",
        "flwr.common.constant:SYSTEM_TIME_TOLERANCE",
        "flwr.common.constant:TIMESTAMP_TOLERANCE",
        "flwr.supercore.primitives.asymmetric:public_key_to_bytes",
        "flwr.supercore.primitives.asymmetric:sign_message",
    ),
    "the SuperLink's Fleet API speaks HTTP: `aoi doctor` cannot tell whether it knows this client's key",
    before="1.40",
    named=False,
)
VIRTUAL = Seam(
    "many SuperNodes in one process",
    "virtual",
    (
        "flwr.proto.fleet_pb2_grpc:FleetStub",
        "flwr.proto.fleet_pb2:PullMessagesRequest",
        "flwr.proto.fleet_pb2:PushMessagesRequest",
        "flwr.proto.fab_pb2:GetFabRequest",
        "flwr.proto.run_pb2:GetRunRequest",
        "flwr.proto.message_pb2:PullObjectRequest",
        "flwr.proto.message_pb2:PushObjectRequest",
        "flwr.proto.message_pb2:ConfirmMessageReceivedRequest",
        "flwr.common.config:get_fused_config_from_fab",
        "flwr.common.serde:message_from_proto",
        "flwr.common.serde:message_to_proto",
        "flwr.common.serde:run_from_proto",
        "flwr.supercore.inflatable.inflatable_object:get_all_nested_objects",
        "flwr.supercore.inflatable.inflatable_object:get_object_tree",
        "flwr.supercore.inflatable.inflatable_object:iterate_object_tree",
        "flwr.supercore.inflatable.inflatable_object:no_object_id_recompute",
        "flwr.supercore.inflatable.inflatable_utils:inflate_object_from_contents",
    ),
    "a fleet cannot be played, which the benchmark of that name does",
    since="1.34",
    before="1.40",
    named=False,
)
SIZES = Seam(
    "bytes on the wire",
    "sizes",
    (
        "flwr.common.serde:message_to_proto",
        "flwr.common.serde:message_from_proto",
        "flwr.supercore.inflatable.inflatable_object:get_all_nested_objects",
    ),
    "what a message takes on the wire cannot be counted",
)
REPLIES = Seam(
    "replies looked for together",
    "replies",
    (
        "flwr.superlink.grid.grpc_grid:GrpcGrid.pull_messages(message_ids)",
        "flwr.superlink.grid.grpc_grid:GrpcGrid._stub",
        "flwr.superlink.grid.grpc_grid:GrpcGrid.run",
        "flwr.proto.runtime_pb2:PullAppMessagesRequest",
        "flwr.proto.message_pb2:PullObjectRequest",
        "flwr.proto.message_pb2:ConfirmMessageReceivedRequest",
        "flwr.common.constant:ErrorCode.MESSAGE_UNAVAILABLE",
        "flwr.common.serde:message_from_proto",
        "flwr.supercore.inflatable.inflatable_object:iterate_object_tree",
        "flwr.supercore.inflatable.inflatable_utils:inflate_object_from_contents",
    ),
    "each reply is asked for by itself",
    since="1.34",
    before="1.35",
)
GRPC_GRID = Seam(
    "replies over gRPC, and calls that are tried again",
    "grids",
    (
        "flwr.superlink.grid.grpc_grid:GrpcGrid",
        "flwr.superlink.grid.grpc_grid:make_simple_grpc_retry_invoker",
        "flwr.supercore.retry:RetryInvoker(should_giveup, on_success)",
    ),
    before="1.35",
)
HTTP_GRID = Seam("replies over HTTP", "grids", ("flwr.superlink.grid.http_grid:HttpGrid",), since="1.35")

SEAMS = (MESSAGES, IDENTITY, ERRORS, REPLIES, GRPC_GRID, HTTP_GRID, LOOP, BEATS, WARM, CONTROL, FLEET, VIRTUAL, SIZES)
