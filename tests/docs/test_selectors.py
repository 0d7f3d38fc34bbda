"""What docs/policies.md says of the load, against the command that it prints above the table."""

import re

import pytest

from tests.processes import ROOT

PAGE = (ROOT / "docs/policies.md").read_text()
(COMMAND,) = re.findall(r"`aoi (simulate --policy POLICY .*--there 0\.3)`", PAGE)
ROWS = [
    line.strip("| ").split(" | ") for line in PAGE.split("never reached |\n|---|---|---|---|---|\n")[1].splitlines()
]
ROWS = ROWS[: ROWS.index([""])]


@pytest.mark.parametrize("row", [pytest.param(row, id=re.findall("[a-z0-9-]+", row[0])[0]) for row in ROWS])
def test_a_row_says_what_its_command_plays(told, row):
    policy, *more = [word for text in re.findall("`(.*?)`", row[0]) for word in text.split()]
    shown = told(COMMAND.replace("POLICY", policy), *more, "--trace")
    load = shown["participation"]
    assert row[1:4] == [f"{shown['interval_variance']:.0f}", f"{load['jain']:.3f}", f"{load['min']} to {load['max']}"]
    never = shown["clients_never_reached"]
    assert never == 1000 - len(set().union(*shown["selections"]))
    assert never / 10 == pytest.approx(int(row[4].removesuffix(" %")), abs=0.5)
