"""Links that work in the repository work on the site: a file outside docs/ has a page there, and links lead to it.

A module of a documented room leads to its reference, a document of the root to its page, any other file to a page that
shows it. What is written in the documents stays as it is.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Documents of the root and where they are on the site, which has a front page of its own.
DOCUMENTS = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
COMMAND = "cli/main.py"  # its page is what it says of itself
# The rooms whose names are for others to use; `aoi` is documented by its help, the figures by their results.
ROOMS = ("strategies", "client", "server", "science", "learning", "config", "report", "protocol", "flower")

_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def place(path: str) -> str:
    """Return where a file of the repository is on the site, both relative to their roots.

    >>> place("docs/adopt.md"), place("README.md"), place("strategies/policy.py"), place("compose.yaml")
    ('adopt.md', 'overview.md', 'reference/strategies/policy.md', 'files/compose.yaml.md')
    """
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in DOCUMENTS:
        return DOCUMENTS[path]
    if path == COMMAND:
        return "commands.md"
    if path.endswith(".py") and path.split("/")[0] in ROOMS:
        page = path.removesuffix(".py").removesuffix("/__init__")
        return f"reference/{page}.md" if "/" in page else f"reference/{page}/index.md"
    return f"files/{path.lstrip('.')}.md"  # MkDocs leaves out what is hidden


def outside(text: str, path: str) -> list[str]:
    """Return the files outside docs/ that a document links to.

    Parameters
    ----------
    text : the document's Markdown
    path : where it is in the repository
    """
    found = {_target(link[1], path) for link in _LINK.findall(text)}
    return sorted(target for target in found if target and not target.startswith("docs/"))


def relink(text: str, path: str, page: str) -> str:
    """Return a document with its links as the site needs them.

    Parameters
    ----------
    text : the document's Markdown
    path : where it is in the repository
    page : where it is on the site
    """

    def replace(link: "re.Match[str]") -> str:
        target = _target(link[2], path)
        if not target:
            return link[0]
        return link[1] + posixpath.relpath(place(target), posixpath.dirname(page) or ".") + link[3]

    return _LINK.sub(replace, text)


def _target(link: str, path: str) -> str:
    """Return the file of the repository that a link leads to, or nothing if it leads to none."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return target if not target.startswith("..") and (ROOT / target).is_file() else ""


def source(page: str) -> str:
    """Return where the document of a page is in the repository."""
    return next((path for path, where in DOCUMENTS.items() if where == page), f"docs/{page}")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """MkDocs asks for a page's text before it is rendered."""
    uri = page.file.src_uri
    return markdown if uri.startswith(("reference/", "files/")) else relink(markdown, source(uri), uri)
