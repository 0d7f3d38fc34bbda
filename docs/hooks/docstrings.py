"""Docstrings as the reference shows them: our NumPy style read with what Markdown and Griffe expect.

Ours have a parameter and what it means on one line, where Griffe looks for a type; roles of Sphinx; examples in the
text; and a list of references.
"""

import re
from typing import Any

import griffe

_TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^([*\w][\w*, ]*) : (.*)$", re.MULTILINE)
_ROLE = re.compile(r":(?:class|mod|func|meth|attr|data|exc):`~?([^`]+)`")
# A link where the reference has that name, and the name alone where it has not.
_LINK = r'<autoref identifier="\1" optional>`\1`</autoref>'
_EXAMPLE = re.compile(r"(?:^|(?<=\n\n))(>>> .*?)(?=\n\n|\Z)", re.DOTALL)
_REFERENCE = re.compile(r"^\[(\d+)\]", re.MULTILINE)
_LISTS = {"Attributes", "Parameters", "Raises", "Returns", "Yields"}


class Readable(griffe.Extension):
    """Rewrites each docstring once, when everything is loaded."""

    def on_object(self, *, obj: Any, loader: Any, **kwargs: Any) -> None:
        """Griffe has loaded an object."""
        if obj.docstring:
            obj.docstring.value = readable(obj.docstring.value)


def readable(text: str) -> str:
    """Return a docstring that Griffe parses and Markdown shows: what is in no list first, then the lists."""
    said, *titled = _TITLE.split(_ROLE.sub(_LINK, text))
    prose, lists = [said], []
    for title, body in zip(titled[::2], titled[1::2], strict=True):
        if title not in _LISTS:
            prose.append(f"**{title}**\n\n{_REFERENCE.sub(lambda found: f'- [{found[1]}]', body)}")
            continue
        entries, _, rest = body.partition("\n\n")
        if title in ("Attributes", "Parameters", "Raises"):
            entries = _ENTRY.sub(r"\1\n    \2", entries)
        prose.append(rest)
        lists.append(f"{title}\n{'-' * len(title)}\n{entries}")
    shown = _EXAMPLE.sub(lambda found: f"```pycon\n{found[1]}\n```", "\n\n".join(filter(None, map(str.strip, prose))))
    return "\n\n".join([shown, *lists])
