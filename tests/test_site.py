"""The documentation site: what docs/hooks makes of docs/, and a strict build that loads nothing from elsewhere."""

import importlib
import re
import shutil
import sys
from pathlib import Path

import pytest
from mkdocs.exceptions import PluginError
from playwright.sync_api import sync_playwright

from tests.processes import ROOT, python

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture
def hook(monkeypatch):
    """Return a function that imports a hook as MkDocs does, from its folder."""
    monkeypatch.syspath_prepend(ROOT / "docs/hooks")

    def load(name):
        module = importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name)
        return module

    return load


@pytest.mark.parametrize(
    "page, link, led",
    [
        ("docs/adopt.md", "../strategies/policy.py", "reference/strategies/policy.md"),
        ("docs/adopt.md", "choosing.md#which-m", "choosing.md#which-m"),
        ("docs/results/README.md", "../../CHANGELOG.md", "../changes.md"),
        ("docs/index.md", "../strategies/__init__.py", "reference/strategies/index.md"),
        ("docs/index.md", "../cli/main.py", "commands.md"),
        ("docs/deployment.md", "../.env.example", "files/env.example.md"),
        ("README.md", "docs/images/live.png", "images/live.png"),
        ("README.md", "server/ledger.py#L1", "reference/server/ledger.md#L1"),
        ("README.md", "https://flower.ai", "https://flower.ai"),
        ("README.md", "no/such/file.md", "no/such/file.md"),
    ],
)
def test_a_link_of_the_repository_leads_to_its_page_of_the_site(hook, page, link, led):
    links = hook("links")
    assert links.relink(f"see [it]({link}).", page, links.place(page)) == f"see [it]({led})."


def test_lists_get_their_space_and_code_keeps_its_own(hook):
    page = """```
- no item
  no more
```
- one
  ```sh
  a
  ```
- two

  | t |
- three

End
  x"""
    shown = """```
- no item
  no more
```

- one
    ```sh
    a
    ```
- two

    | t |

- three

End
  x"""
    assert "\n".join(hook("lists").spaced(page.split("\n"))) == shown


def test_a_docstring_is_rewritten_as_its_readers_expect(hook):
    text = (
        "Of :class:`~a.B`.\n\nParameters\n----------\nn, k : clients\n    of a round\nm : age\n\nSource: C.\n\n"
        ">>> 1\n1\n\nReferences\n----------\n[1] D."
    )
    assert hook("docstrings").readable(text) == (
        'Of <autoref identifier="a.B" optional>`a.B`</autoref>.\n\nSource: C.\n\n```pycon\n>>> 1\n1\n```\n\n'
        "**References**\n\n- [1] D.\n\nParameters\n----------\nn, k\n    clients\n    of a round\nm\n    age"
    )


def test_an_unwritable_or_foreign_folder_is_refused(hook, tmp_path):
    check = hook("folder").check
    check(tmp_path / "new/site")
    assert list((tmp_path / "new/site").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(PluginError, match=r"cannot be written to .*file/site: Not a directory.*make docs SITE="):
        check(tmp_path / "file/site")
    with pytest.raises(PluginError, match=r"holds something else .*would be emptied.*make docs SITE="):
        check(tmp_path)
    (tmp_path / "objects.inv").touch()
    check(tmp_path)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The whole site, built once."""
    folder = tmp_path_factory.mktemp("documentation") / "site"
    python("-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder), NO_MKDOCS_2_WARNING="1")
    return folder


@pytest.mark.slow
def test_the_site_has_every_page_and_is_self_contained(site):
    pages = {page.relative_to(site).as_posix(): page.read_text() for page in site.rglob("*.html")}
    assert {"index.html", "adopt.html", "results/index.html", "commands.html", "changes.html"} <= set(pages)
    assert "MarkovParticipation.optimal" in pages["reference/strategies/selection/markov.html"]
    tags = re.compile(r"<(?:script|img|iframe|link)\b[^>]*>")
    for name, text in pages.items():
        loaded = [tag for tag in tags.findall(text) if "canonical" not in tag]
        listed = re.findall(r'<a href="([^"#]*)" class="md-nav__link', text)
        assert len(listed) == len(set(listed)), name
        assert loaded and not [tag for tag in loaded if re.search(r"(?:src|href)=[\"']?(?:https?:)?//", tag)], name


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed, in which the site could be opened")
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opened_from_the_disk_it_fits_and_is_searched(site, width, scheme):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        asked, faults = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: said.type == "error" and faults.append(said.text))
        for name in ("index", "choosing", "how", "configuration", "results/index", "reference/science/markov"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
            if width == 1440 and name == "results/index":
                assert page.evaluate("document.documentElement.scrollHeight") <= 4.5 * 900
            if width == 1440 and name == "index":  # the picture of the load and every link are seen at once
                page.set_viewport_size({"width": 1280, "height": 900})
                assert page.evaluate("document.documentElement.scrollHeight") <= 900
                seen = "[...document.images].filter(e => e.getClientRects().length && e.naturalWidth > 500)"
                assert page.evaluate(f"{seen}.length") == 1
                page.set_viewport_size({"width": 1440, "height": 900})
        dark = page.evaluate("document.body.dataset.mdColorScheme") == "slate"
        page.keyboard.press("/")
        page.wait_for_selector(".md-search__input:focus")
        page.keyboard.type("secure aggregation")
        page.wait_for_selector(".md-search-result__item", state="visible", timeout=60_000)
        found = page.inner_text(".md-search-result__list")
        browser.close()
    assert dark == (scheme == "dark") and "In your own Flower app" in found and not faults
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []
