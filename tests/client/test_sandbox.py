"""The relay between a sandbox's loopback and the socket of its SuperNode, with real sockets."""

import os
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread

from aoi_fl.client import sandbox
from tests.refusals import refused

CONTENT = os.urandom(3_000_000)


class Backwards(StreamRequestHandler):
    """Answer with what came, from its end."""

    def handle(self):
        self.wfile.write(self.rfile.read(len(CONTENT))[::-1])


def ask(port):
    with socket.create_connection(("127.0.0.1", port), 10) as there, there.makefile("rb") as answer:
        there.sendall(CONTENT)
        return answer.read()


def test_connections_go_both_ways_at_once_and_end(tmp_path):
    with ThreadingTCPServer(("127.0.0.1", 0), Backwards) as server, ThreadPoolExecutor() as pool:
        Thread(target=server.serve_forever, daemon=True).start()
        sandbox.serve(tmp_path / "app", server.server_address[1])
        port = sandbox.reach(tmp_path / "app")
        assert list(pool.map(ask, [port] * 4)) == [CONTENT[::-1]] * 4
        server.shutdown()
    assert stat.S_IMODE((tmp_path / "app").stat().st_mode) == 0o660


def test_a_supernode_that_has_not_started_closes_the_connection(tmp_path):
    with socket.create_connection(("127.0.0.1", sandbox.reach(tmp_path / "app")), 10) as there:
        assert there.recv(1) == b""


def test_a_socket_that_cannot_be_made_is_named(tmp_path):
    with refused("--app-socket", tmp_path / "missing" / "app"):
        sandbox.serve(tmp_path / "missing" / "app", 1)
