"""What a private run has published: once a round, with fresh noise, in any history of kills, copies and restores."""

import hashlib
import json
import math
import os
import random
import shutil
import time
from contextlib import suppress

import numpy as np
import pytest

from aoi_fl.protocol.files import write_whole
from aoi_fl.science.errors import ResumeError
from aoi_fl.science.privacy.factorisation import coefficients
from aoi_fl.strategies.aggregation import releases
from aoi_fl.strategies.aggregation.releases import Releases

SIZE, ROUNDS, TERMS = 8, 6, {"rounds": 6, "clip": 1.0}


class Killed(BaseException):
    """The process ends."""


class Server:
    """Plays rounds in a folder with a noise key and a checkpoint; ``kill`` counts the writes until it is killed."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.published, self.left = folder, {}, None
        monkeypatch.setattr(releases, "write_whole", self.write)

    def write(self, path, content, mode=None):
        if self.left == 0:
            raise Killed
        write_whole(path, content, mode)
        self.left = None if self.left is None else self.left - 1

    def play(self, draw, kill=None, until=ROUNDS, resumed=True):
        self.left = kill
        done = int((self.folder / "done").read_text()) if (self.folder / "done").exists() else 0
        state = self.folder / f"state-{done}.npy"
        private = Releases(self.folder / "noise.key", "r", None, resumed)
        private.agree(TERMS, done, coefficients(3), 1.0, SIZE)
        private.load_state_dict({"private/digest": np.load(state)} if state.exists() else {})
        for round_ in range(done + 1, until + 1):
            release = private.of(round_, draw.standard_normal(SIZE))
            nonce, digest = json.loads((self.folder / "noise.key").read_text())["rounds"][-1]
            content = bytes.fromhex(nonce) + releases.npy.dumps(release) + b"null"  # no training is kept with it
            assert hashlib.sha256(content).hexdigest() == digest
            self.published.setdefault(round_, set()).add(release.tobytes())
            np.save(self.folder / f"state-{round_}.npy", private.state_dict()["private/digest"])
            if self.left == 0:  # between checkpoint and ledger
                raise Killed
            (self.folder / "done").write_text(str(round_))


def copied(source, target):
    time.sleep(0.005)  # the clock of a file system may tick slowly
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


@pytest.mark.parametrize("seed", range(80))
def test_no_history_publishes_two_sums_of_a_round(tmp_path, monkeypatch, seed):
    chance, draw = random.Random(seed), np.random.default_rng(seed)
    (tmp_path / "run").mkdir()
    server, copies, resumed = Server(tmp_path / "run", monkeypatch), [], False
    for _ in range(8):
        with suppress(Killed, ResumeError):
            server.play(draw, chance.choice([None, *range(2, 9)]), chance.randint(1, ROUNDS), resumed)
        resumed = (server.folder / "noise.key").exists()
        match chance.randint(0, 3):
            case 0:
                copies.append(tmp_path / f"copy-{len(copies)}")
                copied(server.folder, copies[-1])
            case 1 if copies:
                copied(chance.choice(copies), server.folder)
            case 2 if copies:  # over what is there, and only a part of it
                time.sleep(0.005)
                for name in chance.sample(["noise.key", "noise.release", "done", "state-1.npy"], chance.randint(1, 4)):
                    if (path := chance.choice(copies) / name).exists():
                        shutil.copy2(path, server.folder / name)
    assert all(len(sums) == 1 for sums in server.published.values())


@pytest.mark.parametrize("kill", range(2, 9))
def test_a_server_killed_at_any_write_goes_on(tmp_path, monkeypatch, kill):
    server, draw = Server(tmp_path, monkeypatch), np.random.default_rng(1)
    with pytest.raises(Killed):
        server.play(draw, kill, resumed=False)
    server.play(draw)
    assert len(server.published) == ROUNDS


def changed(**values):
    return lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def released(**values):
    """Change what lies beside the secret."""

    def change(path):
        about, _, array = (beside := path.with_suffix(".release")).read_bytes().partition(b"\n")
        beside.write_bytes(json.dumps({**json.loads(about), **values}).encode() + b"\n" + array)

    return change


def device(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "spoil, named",
    [
        (lambda path: path.chmod(0o644), "0644"),
        (device, "regular"),
        (lambda path: path.unlink(), "No such file"),
        (changed(run="other"), "other"),
        (changed(terms=[]), "AttributeError"),
        (changed(rounds=7), "TypeError"),
        (changed(key="00"), "ValueError"),
        (changed(terms={"rounds": 7, "clip": 1.0}), "rounds"),
        (changed(terms={"rounds": 6, "clip": 1.0, "delta": 0.1}), "delta"),
        (changed(rounds=[]), "0 rounds"),
        (lambda path: path.with_suffix(".release").write_bytes(b"{}\n"), "cannot be read"),
        (released(round=math.inf), "OverflowError"),
        (released(training=5), "does not go with"),
    ],
)
def test_a_key_that_is_not_the_runs_own_is_refused(tmp_path, monkeypatch, spoil, named):
    server, draw = Server(tmp_path, monkeypatch), np.random.default_rng(1)
    server.play(draw, until=3, resumed=False)
    spoil(tmp_path / "noise.key")
    with pytest.raises(ResumeError, match=named):
        server.play(draw)
