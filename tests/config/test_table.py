"""The table of run keys: one field a key, and everything that is written from it."""

import pytest

from aoi_fl.config import generate
from aoi_fl.config.fields import kebab
from aoi_fl.config.groups import GROUPS
from aoi_fl.config.policies import KEYS
from aoi_fl.config.run import RunConfig
from tests.processes import ROOT

TABLE = {key: field for group in GROUPS for key, field in group.table()}


@pytest.mark.parametrize("name", generate.PLACES)
def test_what_is_generated_is_up_to_date(name):
    begin, end, make = generate.PLACES[name]
    text = (ROOT / name).read_text("utf-8")
    assert begin in text and generate.generated(text, begin, end, make()) == text
    assert generate.generated(text, begin, end, "other\n") != text


def test_a_key_is_in_one_group():
    assert sum(len(list(group.table())) for group in GROUPS) == len(TABLE)
    assert set(TABLE) == set(map(kebab, RunConfig.model_fields)) == set(RunConfig().flat())
    assert set(TABLE) >= KEYS
