"""Close connections that send half a request and no more."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LONGEST = 10.0  # seconds from the begin of a request to its end


class Prompt(H11Protocol):
    """Uvicorn's protocol with a time limit for the arrival of a request."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take data, and wait for the rest of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop()
        elif self._limit is None:
            self._limit = self.loop.call_later(LONGEST, self.transport.abort)

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
