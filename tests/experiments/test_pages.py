"""The pages of docs/results are what the code concludes from the recorded data, byte for byte."""

import shutil

import pytest

from aoi_fl.lab.experiments.registry import known
from aoi_fl.lab.experiments.runner import write_page
from aoi_fl.lab.experiments.summary import write_summary
from tests.processes import ROOT

RESULTS = ROOT / "docs/results"
HOMES = dict.fromkeys(one.home for one in known().values())


@pytest.fixture
def copy(tmp_path):
    """Return a folder with the recorded data, and the documents that the first page points to."""
    folder = tmp_path / "docs" / "results"
    shutil.copytree(RESULTS, folder, ignore=shutil.ignore_patterns("*.md", "*.png", "*.svg"))
    for document in ("policies.md", "clock.md"):
        (folder.parent / document).touch()
    return folder


@pytest.mark.parametrize("home", [home for home in HOMES if (RESULTS / home).parent == RESULTS])
def test_a_page_follows_from_its_data(copy, home):
    page = write_page(home, copy)
    assert page.exists() == (RESULTS / home).exists()
    assert not page.exists() or page.read_text() == (RESULTS / home).read_text(), "run aoi reproduce summary"


@pytest.mark.slow
def test_the_first_pages_follow_from_their_data(copy):
    for home in filter(lambda home: (RESULTS / home).parent == RESULTS, HOMES):
        (copy / home).touch()  # the first page lists those that are there
    write_summary(copy)
    for page in ("README.md", "not-run.md", "verdicts.svg"):
        assert (copy / page).read_text() == (RESULTS / page).read_text(), "run aoi reproduce summary"
