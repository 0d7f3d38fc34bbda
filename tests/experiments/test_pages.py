"""The pages of docs/results are what the code concludes from the recorded data, byte for byte."""

import shutil
from pathlib import Path

import pytest

from aoi_fl.lab.experiments.registry import known
from aoi_fl.lab.experiments.runner import write_page
from aoi_fl.lab.experiments.summary import write_summary

RESULTS = Path(__file__).parents[2] / "docs" / "results"
HOMES = dict.fromkeys(one.home for one in known().values())


@pytest.fixture
def copy(tmp_path):
    """Return a folder with the recorded data, and the documents that the first page points to."""
    folder = tmp_path / "docs" / "results"
    folder.mkdir(parents=True)
    for file in (*RESULTS.glob("*.csv"), *RESULTS.glob("*.json")):
        (folder / file.name).symlink_to(file)
    for document in ("policies.md", "clock.md"):
        (folder.parent / document).touch()
    return folder


@pytest.mark.parametrize("home", [home for home in HOMES if (RESULTS / home).parent == RESULTS])
def test_a_page_follows_from_its_data(copy, home):
    page = write_page(home, copy)
    assert page.exists() == (RESULTS / home).exists()
    if page.exists():
        assert page.read_text() == (RESULTS / home).read_text(), f"{home}: run aoi reproduce summary"


@pytest.mark.slow
def test_the_first_pages_follow_from_their_data(copy):
    for page in RESULTS.glob("*.md"):
        shutil.copy(page, copy)  # the first page lists those that are there
    (copy / "README.md").unlink()
    write_summary(copy)
    for page in ("README.md", "not-run.md"):
        assert (copy / page).read_text() == (RESULTS / page).read_text(), f"{page}: run aoi reproduce summary"
