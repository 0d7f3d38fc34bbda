"""A second run of one process reads files that have changed since the first, as in a notebook."""

import hashlib

import numpy as np
import pytest

import aoi_fl
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import read_run

KEYS = {"num_clients": 4, "clients_per_round": 2, "num_server_rounds": 2, "local_epochs": 1}
RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 2))


def table(path, shift):
    rows = [f"{a},{b},{'ab'[int(a + shift * b > 0)]}" for a, b in X]
    path.write_text("\n".join(["u,v,y", *rows]) + "\n")


def model(path, width):
    path.write_text(
        "import math\nfrom torch import nn\ndef make(shape, outputs):\n"
        f"    first = nn.Linear(math.prod(shape), {width})\n"
        f"    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear({width}, outputs))\n"
    )


def helped_from_afar(path, width):
    """Write a model whose layers are in another folder of Python's, as in a notebook."""
    path.write_text("from help_7 import make\n")
    model(path.parent / "lib" / "help_7.py", width)


def policy(path, first):
    path.write_text(
        "from aoi_fl.science.selection import RandomSelector\nclass Mine:\n    def select(self, round_, population):\n"
        f"        return RandomSelector(2, {first}).select(round_, population)\n"
    )


@pytest.mark.parametrize(
    ("name", "write", "key", "keys"),
    [
        ("own.csv", table, "data_source", {"dataset": "csv:{}", "target": "y"}),
        ("net_7.py", helped_from_afar, "model_source", {"model": "python:net_7:make"}),
        ("sel_9.py", policy, "policy_source", {"policy": "python:sel_9:Mine"}),
    ],
)
def test_a_changed_file_counts_in_the_next_run(name, write, key, keys, tmp_path, monkeypatch):
    """The third run, on the first content, equals the first, and each digest is its file's."""
    keys = {k: v.format(tmp_path / name) for k, v in keys.items()} | KEYS
    (tmp_path / "lib").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "lib")
    ends, digests = [], []
    for content in (1, 2, 1):
        write(tmp_path / name, content)
        run = aoi_fl.run(model_dir=str(tmp_path), runs_dir=str(tmp_path / "runs"), **keys)
        ends.append([run.numbers["test_loss"], *(row["client"] for row in run.recorded.participations)])
        digests.append(read_run(run.folder / LEDGER)[key])
    assert ends[0] == ends[2] != ends[1] and digests[0] == digests[2] != digests[1]
    if write is not helped_from_afar:
        assert digests[2] == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
