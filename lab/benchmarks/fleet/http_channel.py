"""A replacement of ``grpc.aio``'s channel for Fleet APIs over HTTP."""

import re
import ssl
from base64 import b64encode

import aiohttp
import grpc

_SECONDS = 60.0  # for one call
_CONNECTIONS = 8  # of one channel
_PROTOBUF = {"content-type": "application/protobuf", "accept": "application/protobuf"}
_CODES = {401: grpc.StatusCode.UNAUTHENTICATED, 503: grpc.StatusCode.UNAVAILABLE, 500: grpc.StatusCode.INTERNAL}


class HttpChannel:
    """TLS connections to a Fleet API over HTTP, with the interface that Flower's stub needs.

    Parameters
    ----------
    address : host and port of the Fleet API
    authority : certificate (PEM) of the authority that signed the SuperLink's

    Notes
    -----
    It is created in a running event loop.
    """

    def __init__(self, address, authority):
        context = ssl.create_default_context(cadata=authority.decode("ascii"))
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=context)
        limit = aiohttp.ClientTimeout(total=_SECONDS)
        self._session = aiohttp.ClientSession(f"https://{address}", connector=connector, timeout=limit)

    def unary_unary(self, method, request_serializer, response_deserializer, **_):
        """Return a function that makes one kind of call; it raises ``AioRpcError`` as over gRPC."""
        path = "/v1/fleet" + re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", method.rpartition("/")[2])
        path = path.replace("fleet-", "fleet/", 1)

        async def call(request, metadata):
            content, headers = request_serializer(request), _PROTOBUF | _headers(metadata)
            try:
                async with self._session.post(path, data=content, headers=headers) as answer:
                    body = await answer.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                raise _error(grpc.StatusCode.UNAVAILABLE, str(error)) from error
            if not answer.ok:
                raise _error(_CODES.get(answer.status, grpc.StatusCode.FAILED_PRECONDITION), body.decode())
            return response_deserializer(body)

        return call

    async def close(self):
        """Close the connections."""
        await self._session.close()


def _headers(metadata):
    """Return gRPC's metadata as HTTP headers, with binary values in base64."""
    return {
        name.removesuffix("-bin"): b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        for name, value in metadata
    }


def _error(code, details):
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
