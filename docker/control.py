"""The SuperLink's Control API, as far as a cluster needs it: register keys, see who is connected, how a run goes.

Flower's own commands do the same, each in a second or two of start-up; with eight clients that would be most of the
time between `docker compose up` and the first round. This is the one file of docker/ that knows Flower's protocol
buffers, which are those of the pinned version.
"""

from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography.hazmat.primitives import serialization
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


class Control:
    """A connection to the Control API over TLS; gRPC mends it by itself when the SuperLink comes back.

    Parameters
    ----------
    address : host and port
    authority : the certificate of the authority that the SuperLink's certificate comes from

    Notes
    -----
    Every method raises ``grpc.RpcError`` while the SuperLink is away.
    """

    def __init__(self, address: str, authority: Path) -> None:
        credentials = grpc.ssl_channel_credentials(authority.read_bytes())
        self._stub = ControlStub(grpc.secure_channel(address, credentials))

    def register(self, public_key: Path) -> bool:
        """Register a client's public key (OpenSSH format); False if the SuperLink has it already."""
        key = serialization.load_ssh_public_key(public_key.read_bytes())
        pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        nodes = self._stub.ListNodes(control_pb2.ListNodesRequest(), timeout=_SECONDS).nodes_info
        if any(node.public_key.strip() == pem.strip() and node.status != "unregistered" for node in nodes):
            return False
        self._stub.RegisterNode(control_pb2.RegisterNodeRequest(public_key=pem), timeout=_SECONDS)
        return True

    def online(self) -> int:
        """Return how many clients are connected."""
        nodes = self._stub.ListNodes(control_pb2.ListNodesRequest(), timeout=_SECONDS).nodes_info
        return sum(node.status == "online" for node in nodes)

    def runs(self) -> list[RunState]:
        """Return the latest runs that the SuperLink knows, the newest last."""
        answer = self._stub.ListRuns(control_pb2.ListRunsRequest(), timeout=_SECONDS)
        runs = sorted(answer.run_dict.values(), key=lambda run: run.pending_at)
        return [RunState(r.run_id, r.status.status, r.status.sub_status, r.status.details) for r in runs]

    def run(self, run_id: int) -> RunState:
        """Return how one run stands."""
        answer = self._stub.ListRuns(control_pb2.ListRunsRequest(run_id=run_id), timeout=_SECONDS)
        run = answer.run_dict[run_id]
        return RunState(run_id, run.status.status, run.status.sub_status, run.status.details)

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
