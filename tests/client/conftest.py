"""A cluster's authority, and clients that are enrolled under it."""

import pytest

from aoi_fl.client.device import enroll
from aoi_fl.docker.pki import make_all


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """Return the folder with an authority's certificate and that of a server; no test changes it."""
    make_all(root := tmp_path_factory.mktemp("pki"))
    return root


@pytest.fixture
def enrol(authority, tmp_path):
    """Return a function that enrols pi-3 in a folder of its name."""
    usual = {"name": "pi-3", "superlink": "h:9092", "ca": authority / "trust/ca.crt", "folder": tmp_path / "pi-3"}
    return lambda **how: enroll.enroll(**usual | how)
