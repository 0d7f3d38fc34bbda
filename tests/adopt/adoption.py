"""What docs/adopt.md tells an owner of a Flower app to change, done to an app."""

import json
import re
import shutil
from pathlib import Path

from tests.processes import ROOT

# Chapters of docs/adopt.md.
FEDAVG = "Federated averaging"
OTHER = "Another of Flower's strategies"
COUNTING = "A strategy that counts clients"
OWN = "A strategy of your own"

Change = tuple[str, str]  # the new line, and the old one; none for a line that is new

GUIDE = (ROOT / "docs" / "adopt.md").read_text()
_IMPORT = r"^(?=from flwr\.serverapp\.strategy)"  # a new line of the server goes before the first of these


def copied(name, folder):
    """Copy an app of tests/apps into a folder."""
    return Path(shutil.copytree(ROOT / "tests" / "apps" / name, folder / name))


def rewrite(path, old, new):
    """Replace a phrase that must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def outcome(text):
    """Return what the app's ServerApp printed."""
    (line,) = [line for line in text.splitlines() if line.startswith("RESULT ")]
    return json.loads(line.removeprefix("RESULT "))


def changes(text):
    """Return the changes that a document shows: ``new line  # was: old line``, where ``...`` is anything."""
    return re.findall(r"^(\S.*?) +# (?:was: (.*)|new)$", text, re.MULTILINE)


def section(title):
    """Return the changes of a chapter of docs/adopt.md; of what stands before the first, for an empty title."""
    chapters = dict(re.findall(r"(?:\A# .*|^## (.*))\n((?:(?!## ).*\n?)*)", GUIDE, re.MULTILINE))
    return changes(chapters[title])


CLIENT = section("")


def adopt(folder, title, names=None):
    """Change an app as a chapter says, each line in exactly one place, and nothing else.

    ``names`` are to be read in place of the chapter's own.
    """
    texts = {path: path.read_text() for path in folder.rglob("*.py")}
    for change in [*CLIENT, *section(title)]:
        for mine, yours in (names or {}).items():
            change = tuple(re.sub(rf"\b{mine}\b", yours, line) for line in change)
        made = 0
        for path, text in texts.items():
            texts[path], count = _change(text, *change)
            made += count
        assert made == 1, f"{change} fits {made} places of {folder.name}"
    for path, text in texts.items():
        path.write_text(text)


def _change(text, new, old):
    if not old:
        return re.subn(_IMPORT, f"{new}\n", text, count=1, flags=re.MULTILINE)
    wanted = rf"^( *){re.escape(old)}$".replace(re.escape("..."), "(.*)")
    return re.subn(wanted, r"\1" + new.replace("...", r"\2"), text, flags=re.MULTILINE)
