"""The SuperLink's Control API over gRPC: keys of SuperNodes, and how runs go."""

from dataclasses import dataclass

import grpc
from flwr.proto import control_pb2
from flwr.proto.control_pb2_grpc import ControlStub

_SECONDS = 10.0


@dataclass(frozen=True)
class RunState:
    """How a run stands: status (``pending``, ``starting``, ``running``, ``finished``), outcome once it has finished."""

    run_id: int
    status: str
    outcome: str
    details: str


@dataclass(frozen=True)
class NodeState:
    """A node whose key the SuperLink has; its status is ``registered``, ``online``, ``offline`` or ``unregistered``."""

    node_id: int
    public_key: bytes
    status: str


class ControlApi:
    """What is asked of the Control API.

    Parameters
    ----------
    channel : to the SuperLink's Control API

    Notes
    -----
    Every method raises ``grpc.RpcError`` while the SuperLink is away.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = ControlStub(channel)

    def register(self, public_key: bytes) -> None:
        """Let a SuperNode with this public key (PEM) in."""
        self._stub.RegisterNode(control_pb2.RegisterNodeRequest(public_key=public_key), timeout=_SECONDS)

    def unregister(self, node_id: int) -> None:
        """Refuse a node's key from now on."""
        self._stub.UnregisterNode(control_pb2.UnregisterNodeRequest(node_id=node_id), timeout=_SECONDS)

    def nodes(self) -> list[NodeState]:
        """Return the nodes that the SuperLink knows; it lists one that died as online for a minute."""
        found = self._stub.ListNodes(control_pb2.ListNodesRequest(), timeout=_SECONDS).nodes_info
        return [NodeState(int(node.node_id), node.public_key, node.status) for node in found]

    def runs(self, run_id: int | None = None) -> list[RunState]:
        """Return the latest runs that the SuperLink knows, the newest last; or only the one with this number."""
        answer = self._stub.ListRuns(control_pb2.ListRunsRequest(run_id=run_id), timeout=_SECONDS)
        found = sorted(answer.run_dict.values(), key=lambda run: run.pending_at)
        return [RunState(r.run_id, r.status.status, r.status.sub_status, r.status.details) for r in found]

    def stop(self, run_id: int) -> None:
        """End a run; the SuperLink marks it as finished, and its ServerApp ends within seconds."""
        self._stub.StopRun(control_pb2.StopRunRequest(run_id=run_id), timeout=_SECONDS)

    def log(self, run_id: int) -> str:
        """Return the log of a run, as much as the SuperLink kept."""
        request = control_pb2.StreamLogsRequest(run_id=run_id, after_timestamp=0.0)
        text = ""
        try:
            for part in self._stub.StreamLogs(request, timeout=_SECONDS):
                text += part.log_output
        except grpc.RpcError:  # the stream of a run that has ended may stay open; what came is all there is
            pass
        return text
