"""Which requests the page answers: names of this machine alone, and headers of a bounded size."""

import socket
import threading
from contextlib import closing

import pytest

from aoi_fl.report import site
from tests.report.chromium import serving
from tests.report.recorded import browse

NAME = socket.gethostname().lower()


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """Serve a folder of runs on a host that is given by name; yield the port."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "runs").mkdir()
    with serving("--host", "localhost", "--allow-host", "Board.example.org", cwd=folder) as address:
        yield int(address.rpartition(":")[2])


def status(port, *headers, path="/list", version="1.1"):
    """Send a request of one's own making; return the status, 0 if the connection was closed without one."""
    request = "\r\n".join([f"GET {path} HTTP/{version}", *headers, "Connection: close", "", ""])
    with closing(socket.create_connection(("localhost", port), 20)) as connection:
        try:
            connection.sendall(request.encode("latin-1"))
            answer = connection.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            return 0
    return int(answer.split()[1]) if answer else 0


@pytest.mark.parametrize(
    "host",
    [
        "localhost:{port}",
        "LOCALHOST",
        "localhost.",
        "127.0.0.1:{port}",
        "[::1]:{port}",
        "[::1]",
        "192.0.2.7:80",
        "board.example.org",
        "BOARD.example.org.:8050",
        NAME,
    ],
)
def test_names_of_this_machine_and_addresses_are_answered(port, host):
    assert status(port, f"Host: {host.format(port=port)}") == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "evil.example#localhost",
        "localhost:80@evil.example",
        "1.evil.example:8050",
        "xlocalhost",
        "board.example.org.evil.example",
        "[::1].evil.example",
        "[evil.example]",
        "localhost:evil",
        "127.1.evil",
        "",
        "localhost,evil.example",
    ],
)
def test_another_name_is_refused(port, host):
    assert status(port, f"Host: {host.format(port=port)}") in (400, 421)


@pytest.mark.parametrize("path", ["/", "/list", "/plotly.js", "/run/x/content", "/run/x/metrics", "/nothing"])
def test_every_path_is_behind_the_check(port, path):
    assert status(port, "Host: evil.example", path=path) == 421


def test_two_hosts_or_none_are_refused(port):
    assert status(port, "Host: localhost", "Host: evil.example") == 400
    assert status(port, "Host: evil.example", "Host: localhost") == 400
    assert status(port) == 400
    assert status(port, version="1.0") == 400


FLOODS = {
    "one long header": [f"X: {'a' * 20_000}"],
    "a header that needs a second look": [f"X: {'a' * 300_000}"],
    "many headers": [f"X-{i}: a" for i in range(200)],
}


@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_of_headers_is_refused(port, what):
    assert status(port, "Host: localhost", *FLOODS[what]) in (0, 400, 431)


@pytest.mark.parametrize("path", ["/" + "a" * 20_000, "/list?" + "b" * 20_000, "/%61" * 6000])
def test_a_path_without_end_is_refused(port, path):
    assert status(port, "Host: localhost", path=path) in (0, 400, 414, 431)


def test_headers_that_never_end_are_cut_off(port):
    """Megabytes of headers, none of which is the last: the server hangs up long before it has them all."""
    with closing(socket.create_connection(("localhost", port), 20)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        sent = 0
        with pytest.raises(OSError):  # a reset, or a broken pipe
            for _ in range(2000):
                connection.sendall(b"X: " + b"a" * 8000 + b"\r\n")
                sent += 8000
        assert sent < 8_000_000
    assert status(port, "Host: localhost") == 200


def test_a_script_is_sent_compressed_and_once():
    client = browse()
    first = client.get("/plotly.js")
    assert first.headers["Content-Encoding"] == "gzip" and b"Plotly" in first.content
    again = client.get("/plotly.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_half_a_request_is_cut_off(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("aoi_fl.report.slow.LONGEST", 0.3)
    listening = site.listen("127.0.0.1", 0)
    threading.Thread(target=site.serve, args=(None, listening), daemon=True).start()
    for half in (
        b"",
        b"GET / HTTP/1.1\r\nHost: loc",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab",
    ):
        with socket.create_connection(listening.getsockname(), timeout=20) as peer:
            peer.sendall(half)
            while peer.recv(4096):  # perhaps an answer, then the end
                pass
