"""Client of the SuperLink's Fleet API over gRPC or HTTP: signed heartbeats and activations."""

import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import grpc
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

# Seconds by which a signature's time may be ahead of the SuperLink's clock, or behind it.
AHEAD, BEHIND = float(SYSTEM_TIME_TOLERANCE), float(TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE)
_PATIENCE = 10.0  # seconds a request may take


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
    channel : connection to the SuperLink's Fleet API
    key : the client's private key

    Notes
    -----
    Every method raises ``grpc.RpcError`` if the SuperLink is unavailable or refuses.
    """

    def __init__(self, channel: grpc.Channel, key: ec.EllipticCurvePrivateKey) -> None:
        self._stub: Any = fleet_pb2_grpc.FleetStub(channel)
        self._key, self._public = key, public_key_to_bytes(key.public_key())

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

    def _call(self, name: str, request: Any) -> Any:
        return getattr(self._stub, name)(request, metadata=signature(self._key, self._public), timeout=_PATIENCE)


class HttpFleetApi(FleetApi):
    """The same calls over HTTP.

    Parameters
    ----------
    superlink : host and port
    authority : the file of trusted certificates
    key : the client's private key

    Notes
    -----
    Every method raises ``ConnectionError`` if the SuperLink is unavailable or refuses.
    """

    def __init__(self, superlink: str, authority: Path, key: ec.EllipticCurvePrivateKey) -> None:
        client: Any = import_module("flwr.supernode.fleet_http_client")
        auth: Any = import_module("flwr.supernode.node_auth_http_interceptor")
        self._public = public_key_to_bytes(key.public_key())
        signed = auth.NodeAuthHttpInterceptor(key, key.public_key())
        self._client = client.FleetHttpClient.from_server_address(superlink, False, str(authority), [signed])

    def _call(self, name: str, request: Any) -> Any:
        try:
            return getattr(self._client, name)(request)
        except Exception as error:  # of httpx, which comes with that Flower
            raise ConnectionError(str(error)) from error
