"""A connection that dies without a word must not hang a call; and how long the SuperNode waits between its looks."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import grpc
import pytest

from aoi_fl.client import supernode
from aoi_fl.client.poll_schedule import ASLEEP, LONGEST_LOOK, NAP_FILE, SHORTEST_LOOK, NextMessage, lay_down
from tests.processes import python

SERVE = """
from concurrent.futures import ThreadPoolExecutor
import grpc
handler = grpc.method_handlers_generic_handler("s", {"echo": grpc.unary_unary_rpc_method_handler(lambda r, _: r)})
server = grpc.server(ThreadPoolExecutor(2), handlers=[handler])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"""


@pytest.mark.slow
@pytest.mark.long
def test_a_call_over_a_dead_connection_fails():
    with subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True) as server:
        address = f"127.0.0.1:{int(server.stdout.readline())}"
        with supernode.keep_alive(grpc.insecure_channel)(address, options=[]) as channel:
            echo = channel.unary_unary("/s/echo")
            assert echo(b"there?", timeout=20) == b"there?"
            server.send_signal(signal.SIGSTOP)  # it keeps quiet and closes nothing
            with pytest.raises(grpc.RpcError) as raised:
                echo(b"still there?", timeout=90)
        server.kill()
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE  # not DEADLINE_EXCEEDED: gRPC gave the connection up


def test_the_wait_grows_with_the_silence_of_a_run(tmp_path, monkeypatch):
    now, slept, nap = [100.0], [], tmp_path / "nap"
    monkeypatch.setenv(NAP_FILE, str(nap))

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    heard = []
    monkeypatch.setattr(supernode, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    waits = supernode.BackingOff(nap, lambda *about: heard.append(about))
    waits.sleep(3)
    assert slept == [LONGEST_LOOK]  # nobody has told it anything
    lay_down(NextMessage(None, 0.0), 7)
    while now[0] < 200:
        waits.sleep(3)
    silent = slept[1:]
    assert silent[0] == SHORTEST_LOOK and silent == sorted(silent) and silent[-1] == LONGEST_LOOK
    waits.sleep(0.5)  # it waits for an answer
    waits.sleep(3)
    assert slept[-2:] == [supernode.ANSWER_LOOK, SHORTEST_LOOK]
    lay_down(NextMessage(900.0, ASLEEP), 7)
    waits.sleep(3)
    assert 899 < slept[-1] <= 900 and waits.changed.is_set()
    assert [(following.asleep, node) for following, node in heard] == [(False, 7), (True, 7)]


def test_a_supernode_that_fails_ends_whatever_its_threads_do():
    code = """
import threading, time
import flwr.supernode.cli
def refused():
    threading.Thread(target=time.sleep, args=(300,)).start()
    raise RuntimeError("refused")
flwr.supernode.cli.flower_supernode = refused
from aoi_fl.client import supernode
supernode.PAUSE = 0
supernode.main()
"""
    assert "RuntimeError: refused" in python("-c", code, status=1).stderr


def test_a_supernode_without_its_superexec_ends():
    code = """
import signal, time
from aoi_fl.client import supernode
supernode.PAUSE = 0
supernode.superexec.COMMAND = ("sleep",)
supernode.start_forking(["flower-superexec", "300"]).send_signal(signal.SIGKILL)
time.sleep(300)
"""
    assert "the SuperExec has ended" in python("-c", code, status=1).stderr


def test_a_killed_message_names_the_memory():
    code = """
import multiprocessing, os, signal, time
from aoi_fl.client import superexec
def die():
    os.kill(os.getpid(), signal.SIGKILL)
for work in (time.time, die):
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    superexec._name_end(process)
"""
    assert python("-c", code).stderr.count("memory") == 1
