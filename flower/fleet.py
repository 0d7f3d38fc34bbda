"""Client of the SuperLink's Fleet API over gRPC or HTTP: signed heartbeats and activations."""

import datetime
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec
from flwr.common.constant import (
    HEARTBEAT_MIN_INTERVAL,
    PUBLIC_KEY_HEADER,
    SIGNATURE_HEADER,
    SYSTEM_TIME_TOLERANCE,
    TIMESTAMP_HEADER,
    TIMESTAMP_TOLERANCE,
)
from flwr.proto import fleet_pb2, fleet_pb2_grpc, heartbeat_pb2, node_pb2
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message

from aoi_fl.flower.calls import over_grpc, over_http
from aoi_fl.flower.versions import OVER_GRPC

# Seconds by which a signature's time may be ahead of the SuperLink's clock, or behind it.
AHEAD, BEHIND = float(SYSTEM_TIME_TOLERANCE), float(TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE)


Metadata: TypeAlias = list[tuple[str, str | bytes]]


def signature(key: ec.EllipticCurvePrivateKey, public: bytes) -> Metadata:
    """Return the metadata that signs a request; ``public`` is the registered key (PEM)."""
    time = datetime.datetime.now(datetime.UTC).isoformat()
    return [
        (PUBLIC_KEY_HEADER, public),
        (TIMESTAMP_HEADER, time),
        (SIGNATURE_HEADER, sign_message(key, time.encode("ascii"))),
    ]


class FleetApi:
    """The calls of the Fleet API that this project makes with one client's key.

    Parameters
    ----------
    superlink : host and port
    authority : the certificates to trust (PEM)
    key : the client's private key

    Notes
    -----
    Every method raises :class:`~aoi_fl.flower.calls.CallError` if the SuperLink is unavailable or refuses.
    """

    def __init__(self, superlink: str, authority: bytes, key: ec.EllipticCurvePrivateKey) -> None:
        public = key.public_key()
        self._public = public_key_to_bytes(public)
        if OVER_GRPC:
            self._call = over_grpc(
                fleet_pb2_grpc.FleetStub, superlink, authority, partial(signature, key, self._public)
            )
        else:
            clients: Any = import_module("flwr.supernode.fleet_http_client")
            signing: Any = import_module("flwr.supernode.node_auth_http_interceptor")
            signed = signing.NodeAuthHttpInterceptor(key, public)
            self._call = over_http(clients.FleetHttpClient, superlink, authority, signed)

    def stay(self, node_id: int, seconds: float) -> None:
        """Send a node's heartbeat and announce the next one in ``seconds``."""
        node = node_pb2.Node(node_id=node_id)
        request = heartbeat_pb2.SendNodeHeartbeatRequest(node=node, heartbeat_interval=seconds)
        self._call("SendNodeHeartbeat", request)

    def activate(self) -> int:
        """Connect as a SuperNode does and return the node's id."""
        request = fleet_pb2.ActivateNodeRequest(public_key=self._public, heartbeat_interval=HEARTBEAT_MIN_INTERVAL)
        return int(self._call("ActivateNode", request).node_id)

    def deactivate(self, node_id: int) -> None:
        """Disconnect a node."""
        self._call("DeactivateNode", fleet_pb2.DeactivateNodeRequest(node_id=node_id))
