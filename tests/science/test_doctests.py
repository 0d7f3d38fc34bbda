"""The examples in the docstrings of the science."""

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest

import aoi_fl.science


@pytest.mark.parametrize("name", [module.name for module in walk_packages(aoi_fl.science.__path__, "aoi_fl.science.")])
def test_examples(name):
    assert not doctest.testmod(import_module(name)).failed
