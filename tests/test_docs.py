"""What the documents say must be so."""

import re
from pathlib import Path

import aoi_fl
from tests.processes import ROOT


def test_changes_and_citation_match_this_version():
    citation, changes = (ROOT / "CITATION.cff").read_text(), (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [aoi_fl.__version__]
    assert re.findall(r"^## ([\d.]+)", changes, re.MULTILINE)[0] == aoi_fl.__version__
    papers = re.findall(r"\*(.+?)\* (?:\w+ )*(\d{4})\.$", (ROOT / "README.md").read_text(), re.MULTILINE)
    cited = re.findall(r"^    title: (.*)\n    year: (\d{4})$", citation, re.MULTILINE)
    assert len(cited) == 3 and [(title.rstrip("."), year) for title, year in papers] == cited


def test_the_first_command_of_the_readme_comes_soon():
    text = (ROOT / "README.md").read_text()
    assert len(text.split("```")[0].split()) <= 60 and len(text.split()) <= 700


def test_a_simulation_of_flowers_is_begun_with_what_ray_needs():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "cli").rglob("*.md.template")]
    text = "\n".join(page.read_text() for page in pages)
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    begun = [line for block in blocks for line in block.splitlines() if "flwr run" in line]
    assert len(begun) >= 2 and all(line.startswith("GRPC_ENABLE_FORK_SUPPORT=0 flwr run") for line in begun), begun


def anchors(page: Path) -> set[str]:
    """Return what a link may name within a page: its headings, lower, without punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_what_is_there():
    broken, pages = [], [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not re.match(r"[a-z]+:", link) and not (target.exists() and (not anchor or anchor in anchors(target))):
                broken.append((page.name, link))
    assert len(pages) > 40 and not broken


def test_pages_are_short():
    """A guide has at most 1,500 words and there are at most 18; tables that a command writes do not count."""
    pages = [*(ROOT / "docs").glob("*.md")]
    written = re.compile(r"<!-- (\w+): generated -->.*?<!-- \1: end -->|<!-- (\w+) -->.*?<!-- end of \2 -->", re.DOTALL)
    words = {page.name: len(written.sub("", page.read_text()).split()) for page in pages}
    assert len(words) <= 18 and max(words.values()) <= 1500, words


def test_each_promise_of_security_names_an_adversary_and_tests_that_exist():
    table = re.findall(r"^\| (.*) \|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    heading, _, *rows = [line.split(" | ") for line in table]
    assert heading == ["promise", "adversary", "test"] and len(rows) >= 20
    for promise, adversary, tests in rows:
        named = re.findall(r"`([^`:]+)::([^`]+)`", tests)
        assert adversary.strip() and named, promise
        for file, name in named:
            assert f"def {name}(" in (ROOT / file).read_text(), promise
