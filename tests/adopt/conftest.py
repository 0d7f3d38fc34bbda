"""This project, installed once for all tests of a process."""

import pytest

from tests.adopt.installation import ROOT, Environment, build_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def from_wheel(tmp_path_factory, wheel):
    """An environment that has the wheel; to be left as it is."""
    return Environment(tmp_path_factory.mktemp("from-wheel") / "venv").install(wheel)


@pytest.fixture(scope="session")
def from_checkout(tmp_path_factory):
    """An environment that has an editable installation of this checkout; to be left as it is."""
    return Environment(tmp_path_factory.mktemp("from-checkout") / "venv").install("--editable", ROOT)
