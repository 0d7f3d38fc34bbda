"""A SuperLink of one's own: where its parts listen, and how it speaks to its database.

The parts listen at three gRPC addresses once, at one HTTP port in the end.

Up to Flower 1.34 each part has a gRPC address. With 1.35 the ServerApp's side moves to HTTP, with 1.37 the command's,
with 1.40 the SuperNodes': what speaks HTTP shares one port.
"""

import re
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from aoi_fl.flower.seams import CONTROL, DATABASE, FLEET, GRPC_GRID

_HOST = "127.0.0.1"
_TURN = 60.0  # seconds that a call waits for its turn at the database
# What a SuperLink writes into its log, and the port that it got where it was left to the system.
CONTROL_LISTENS = re.compile(r"Control (?:HTTP )?API on \S*?:(\d+)")


@dataclass(frozen=True)
class Addresses:
    """Ports on this machine.

    Attributes
    ----------
    runtime : for the ServerApp
    fleet : for SuperNodes
    control : for the command ``flwr``
    """

    runtime: int
    fleet: int
    control: int

    @classmethod
    def free(cls) -> "Addresses":
        """Return ports that nobody listens on."""
        return cls._shared(*free_ports(3))

    @classmethod
    def any(cls) -> "Addresses":
        """Return ports that the system chooses, 0, where Flower takes that; else those that nobody listens on."""
        return cls._shared(0, 0, 0) if GRPC_GRID.there else cls.free()

    @classmethod
    def _shared(cls, http: int, fleet: int, control: int) -> "Addresses":
        return cls(http, fleet if FLEET.there else http, control if CONTROL.there else http)

    def of_superlink(self, *, fleet: bool = True) -> list[str]:
        """Return the arguments of ``flower-superlink``; one that simulates has no fleet."""
        if GRPC_GRID.there:
            found = [f"--serverappio-api-address={_HOST}:{self.runtime}"]
        else:
            found = [f"--host={_HOST}", f"--port={self.runtime}"]
        if CONTROL.there:
            found.append(f"--control-api-address={_HOST}:{self.control}")
        if FLEET.there and fleet:
            found.append(f"--fleet-api-address={_HOST}:{self.fleet}")
        return found

    def of_supernode(self, port: int) -> list[str]:
        """Return the arguments of a ``flower-supernode`` that hears its own apps on a port."""
        over_grpc = [f"--clientappio-api-address={_HOST}:{port}"]
        own = over_grpc if GRPC_GRID.there else [f"--host={_HOST}", f"--port={port}"]
        return [f"--superlink={_HOST}:{self.fleet}", *own]

    def connection(self, name: str) -> str:
        """Return the lines of Flower's ``config.toml`` by which ``flwr`` finds the SuperLink, without TLS."""
        return f'[superlink.{name}]\naddress = "{_HOST}:{self.control}"\ninsecure = true\n'


def connect_once() -> None:
    """Have a SuperLink in this process use one connection to its database, where it would use up to fifteen.

    SQLite lets one of them write at a time. The others sleep meanwhile, up to a tenth of a second at a time, and break
    a call off after five ("database is locked"); those beyond the fifth are opened anew for each call. In turn, a
    thousand clients are answered one and a half times as fast.
    """
    if not DATABASE.there:
        DATABASE.say_what_is_lost()
        return
    from flwr.supercore import sql_mixin

    module: Any = sql_mixin
    make: Callable[..., Any] = module.create_engine

    def create_engine(url: str, **settings: Any) -> Any:
        if "poolclass" not in settings:  # of a database in memory, which has one connection already
            settings |= {"pool_size": 1, "max_overflow": 0, "pool_timeout": _TURN}
        return make(url, **settings)

    module.create_engine = create_engine


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for found in sockets:
            found.bind((_HOST, 0))
        return [found.getsockname()[1] for found in sockets]


def listens(port: int, wait: Callable[[], None]) -> None:
    """Return as soon as somebody listens on a port; ``wait`` is called between two looks, and may raise."""
    while True:
        try:
            socket.create_connection((_HOST, port), 1).close()
        except OSError:
            wait()
        else:
            return
