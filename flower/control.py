"""Client of the SuperLink's Control API, over gRPC or HTTP: SuperNodes' keys and runs."""

import threading
from contextlib import suppress
from dataclasses import dataclass

from flwr.proto import control_pb2

from aoi_fl.flower.calls import CallError, over_grpc, over_http
from aoi_fl.flower.versions import OVER_GRPC

_MISSING = ("NOT_FOUND", "404")  # codes of an unknown run
_LOG = 10.0  # seconds for the log of a run


@dataclass(frozen=True)
class RunState:
    """A run's status: ``pending``, ``starting``, ``running`` or ``finished`` with an outcome."""

    run_id: int
    status: str
    outcome: str
    details: str
    name: str = ""  # the run's key run-name


@dataclass(frozen=True)
class NodeState:
    """A node's key and status: ``registered``, ``online``, ``offline`` or ``unregistered``."""

    node_id: int
    public_key: bytes
    status: str


class ControlApi:
    """The calls of the Control API that this project uses.

    Parameters
    ----------
    address : HOST:PORT of the SuperLink's Control API
    authority : the certificates to trust (PEM); None: without TLS

    Notes
    -----
    Every method raises :class:`CallError` if the SuperLink does not answer or refuses. Over gRPC the connection
    recovers by itself. Over HTTP each call can open a new one.
    """

    def __init__(self, address: str, authority: bytes | None) -> None:
        if OVER_GRPC:
            from flwr.proto.control_pb2_grpc import ControlStub

            self._call = over_grpc(ControlStub, address, authority)
        else:
            from flwr.supercore.control import ControlHttpClient
            from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

            version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
            self._call = over_http(ControlHttpClient, address, authority, version)

    def register(self, public_key: bytes, name: str = "") -> None:
        """Register a SuperNode's public key (PEM), with a name if this Flower keeps names."""
        named = {"name": name} if name and "name" in control_pb2.RegisterNodeRequest.DESCRIPTOR.fields_by_name else {}
        self._call("RegisterNode", control_pb2.RegisterNodeRequest(public_key=public_key, **named))

    def unregister(self, node_id: int) -> None:
        """Refuse a node's key from now on."""
        self._call("UnregisterNode", control_pb2.UnregisterNodeRequest(node_id=node_id))

    def nodes(self) -> list[NodeState]:
        """Return the nodes that the SuperLink knows; a dead node stays online for a minute."""
        nodes = self._call("ListNodes", control_pb2.ListNodesRequest()).nodes_info
        return [NodeState(int(node.node_id), node.public_key, node.status) for node in nodes]

    def runs(self, run_id: int | None = None) -> list[RunState]:
        """Return the latest runs of the SuperLink, the newest last; or the run with this id."""
        answer = self._call("ListRuns", control_pb2.ListRunsRequest(run_id=run_id))
        runs = sorted(answer.run_dict.values(), key=lambda run: run.pending_at)
        return [
            RunState(
                r.run_id,
                r.status.status,
                r.status.sub_status,
                r.status.details,
                r.override_config["run-name"].string if "run-name" in r.override_config else "",
            )
            for r in runs
        ]

    def run(self, run_id: int) -> RunState | None:
        """Return the state of a run; None if it is not a run of this SuperLink."""
        try:
            return next(iter(self.runs(run_id)), None)
        except CallError as error:
            if error.code in _MISSING:
                return None
            raise

    def stop(self, run_id: int) -> None:
        """Stop a run; its status is finished at once, and its ServerApp ends within seconds."""
        self._call("StopRun", control_pb2.StopRunRequest(run_id=run_id))

    def log(self, run_id: int) -> str:
        """Return the part of a run's log that the SuperLink has kept."""
        parts: list[str] = []
        stream = self._call("StreamLogs", control_pb2.StreamLogsRequest(run_id=run_id, after_timestamp=0.0))

        def collect() -> None:
            with suppress(Exception):  # any error ends the stream; the lines so far are the log
                parts.extend(part.log_output for part in stream)

        reader = threading.Thread(target=collect, daemon=True)  # the stream of a run that has ended may stay open
        reader.start()
        reader.join(_LOG)
        return "".join(parts)
