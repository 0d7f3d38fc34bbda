"""Health check of a container: exit status 0 if a gRPC or HTTP address serves."""

import sys

_SECONDS = 4


def main() -> None:
    """Check the address given on the command line."""
    address = sys.argv[1]
    if address.startswith("http://"):
        import urllib.request

        try:
            urllib.request.urlopen(address, timeout=_SECONDS).close()
        except OSError as error:
            sys.exit(f"{address}: {error}")
    else:
        _check_grpc(address)


def _check_grpc(address: str) -> None:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]
        try:
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=_SECONDS)
        except grpc.RpcError as error:
            sys.exit(f"{address}: {error.details()}")
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        sys.exit(f"{address}: not serving")


if __name__ == "__main__":
    main()
