"""What tests expect of a refusal: its fields, never its words."""

import re
from unittest.mock import ANY

import pytest

from aoi_fl.science.errors import ConfigError


def refused(key, value=ANY, allowed=ANY):
    """Expect a ConfigError about a key, with this value.

    Parameters
    ----------
    key : the key, or a part of it where it names a place, such as a file
    value : the value; a string also stands for a path that ends so
    allowed : one of the values to choose from, or a regular expression that the allowed values match
    """

    def check(error):
        if key not in error.key:
            return False
        if isinstance(value, str) and not str(error.value).endswith(value):
            return False
        if not isinstance(value, str) and value != error.value:
            return False
        if allowed is ANY:
            return True
        return allowed in error.allowed if isinstance(error.allowed, tuple) else bool(re.search(allowed, error.allowed))

    return pytest.raises(ConfigError, check=check)
