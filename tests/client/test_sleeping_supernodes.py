"""Real SuperNodes that sleep, as `aoi enroll` has them, at a real SuperLink that counts them as connected meanwhile."""

import json
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from aoi_fl.docker.control import Control
from aoi_fl.docker.pki import make_client_key
from aoi_fl.flower.seams import BEATS, CONTROL
from aoi_fl.flower.superlink import free_ports
from benchmarks.fleet.link import superlink

CLIENTS, ROUNDS, SECONDS = 3, 8, 12.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(not (BEATS.there and CONTROL.there), reason=BEATS.lost),
]


def test_they_are_there_for_their_rounds_and_hardly_look_in_between(tmp_path):
    with superlink() as link, ExitStack() as running:
        control = Control(f"127.0.0.1:{link.addresses.control}", link.folder / "trust" / "ca.crt")
        for i, port in enumerate(free_ports(CLIENTS)):
            key = tmp_path / f"{i}.key"
            make_client_key(key, key.with_suffix(".pub"))
            assert control.register(key.with_suffix(".pub"))
            config = f'name="client-{i}" partition-id={i} state-dir="{tmp_path}" seed=2 sleep=true'
            command = [
                sys.executable, "-m", "aoi_fl.client.supernode", f"--superlink={link.fleet}",
                f"--root-certificates={link.folder / 'trust' / 'ca.crt'}", f"--auth-supernode-private-key={key}",
                f"--node-config={config}", f"--clientappio-api-address=127.0.0.1:{port}",
            ]  # fmt: skip
            log = running.enter_context(open(tmp_path / f"{i}.log", "wb"))
            node = subprocess.Popen(command, env=link.environment, stdout=log, stderr=log)
            running.callback(node.wait)
            running.callback(node.kill)
        while control.online() < CLIENTS:
            time.sleep(0.5)
        notes = link.folder / "notes"
        about = {"what": "fleet", "clients": CLIENTS, "per-round": 1, "rounds": ROUNDS, "round-seconds": SECONDS}
        link.submit(" ".join(f"{k}={json.dumps(v)}" for k, v in (about | {"out": str(notes)}).items()))
        begun, lines, looks = time.monotonic(), [], 0
        while not lines or "ended" not in lines[-1]:
            assert time.monotonic() - begun < 300, link.said()
            time.sleep(0.5)
            lines = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
            if not looks and any(line.get("round") == 1 for line in lines):
                looks, first = looked(link), time.monotonic()
        assert control.online() == CLIENTS
        rounds = [line for line in lines if "round" in line]
        assert sum(line["trained"] for line in rounds) >= 4 and not any(line["dropped"] for line in rounds)
        awake = CLIENTS * (time.monotonic() - first) / 3.0  # if each looked every three seconds, as Flower's own
        assert looked(link) - looks < 0.7 * awake  # on a busy machine rounds are late, and they look until they come


def looked(link) -> int:
    return (link.folder / "log").read_text(errors="replace").count("[Fleet.PullMessages]")
