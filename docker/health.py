"""Health check of a container: exit status 0 if a gRPC health service, or an http address, answers that it serves."""

import sys
import urllib.request

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc


def main() -> None:
    """Check the address given on the command line."""
    if sys.argv[1].startswith("http://"):
        try:
            urllib.request.urlopen(sys.argv[1], timeout=4).close()
        except OSError as error:
            sys.exit(f"{sys.argv[1]}: {error}")
        return
    with grpc.insecure_channel(sys.argv[1]) as channel:
        health = health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]
        try:
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=4)
        except grpc.RpcError as error:
            sys.exit(f"{sys.argv[1]}: {error.details()}")
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        sys.exit(f"{sys.argv[1]}: not serving")


if __name__ == "__main__":
    main()
