"""The examples in the docstrings of the science."""

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest

import aoi_fl.lab.privacy
import aoi_fl.lab.rivals
import aoi_fl.lab.simulated_time
import aoi_fl.science

PLACES = (aoi_fl.science, aoi_fl.lab.simulated_time, aoi_fl.lab.privacy, aoi_fl.lab.rivals)
NAMES = [module.name for place in PLACES for module in walk_packages(place.__path__, f"{place.__name__}.")]


@pytest.mark.parametrize("name", NAMES)
def test_examples(name):
    assert not doctest.testmod(import_module(name)).failed
