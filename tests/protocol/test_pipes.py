"""A pipe, a device or a folder in the place of a user's file is one error, and nothing waits."""

import os

import pytest

from aoi_fl.protocol.clients import read_clients_file
from aoi_fl.protocol.given_rates import read_rates
from aoi_fl.science.errors import ConfigError


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("read", [read_clients_file, lambda path: read_rates(path, 4)])
def test_what_is_no_file_is_refused_at_once(read, kind, tmp_path):
    path = tmp_path / "clients.csv"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(ConfigError):
        read(path)
