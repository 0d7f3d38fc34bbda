"""A sandbox for the app: its processes reach their SuperNode through one socket file, and no network.

The server sends the app, so its code could open connections of its own, or read the device's key and state. Therefore
it runs apart, in a container or a systemd unit without network (``docker/gate.yaml``, ``aoi enroll --sandbox``):

- ``python -m aoi_fl.client.supernode --app-socket FILE`` serves the app's processes at the socket ``FILE``;
- ``python -m aoi_fl.client.sandbox FILE`` starts one of them for each message.

Flower's programs speak gRPC or HTTP to a port. In both places a relay connects a port of the loopback with the file.
The folder of ``FILE`` belongs to a group of both accounts, as its file ``nap`` does.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from aoi_fl.client import superexec
from aoi_fl.client.poll_schedule import NAP_FILE
from aoi_fl.flower.superlink import apps_address
from aoi_fl.science.errors import refusing

_CHUNK = 1 << 16  # bytes
_OPEN = 0o660  # the socket's mode
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def nap_file(path: Path) -> Path:
    """Return the file by which the app tells its SuperNode the next message's time."""
    return path.with_name("nap")


def serve(path: Path, port: int) -> None:
    """Relay connections to the socket ``path`` to a port of the loopback, in a thread.

    Raises
    ------
    ConfigError : the socket cannot be made.
    """

    async def listen() -> asyncio.Server:
        server = await asyncio.start_unix_server(_relay(lambda: asyncio.open_connection("127.0.0.1", port)), path)
        path.chmod(_OPEN)
        return server

    remedy = "Make the folder, for the group of the app's account."
    with refusing(OSError, "--app-socket", path, "a file in a folder that this account can write", remedy):
        _in_thread(listen)


def reach(path: Path) -> int:
    """Relay connections to a port of the loopback to the socket ``path``, in a thread; return the port."""

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(_relay(lambda: asyncio.open_unix_connection(path)), "127.0.0.1", 0)

    return int(_in_thread(listen).sockets[0].getsockname()[1])


def _in_thread(listen: Callable[[], Awaitable[asyncio.Server]]) -> asyncio.Server:
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(listen())
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return server


def _relay(connect: Callable[[], Awaitable[_Streams]]) -> Callable[..., Awaitable[None]]:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await connect()
        except OSError:  # not started yet, or restarting: Flower's programs try again
            writer.close()
            return
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    return accept


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while content := await reader.read(_CHUNK):
            writer.write(content)
            await writer.drain()
    writer.close()


def main() -> None:
    """Start a process of the app for each message of the SuperNode behind a socket file."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m aoi_fl.client.sandbox FILE, the SuperNode's --app-socket")
    path = Path(sys.argv[1])
    os.umask(0o007)  # the SuperNode reads and removes the file `nap`
    os.environ[NAP_FILE] = str(nap_file(path))
    address = f"127.0.0.1:{reach(path)}"
    command = [*superexec.COMMAND, "--insecure", *apps_address(address)]
    sys.exit(subprocess.run(command, check=False).returncode or 1)


if __name__ == "__main__":
    main()
