"""Plotly's script without the kinds of chart that no page has.

Plotly's Python package carries the whole script, of which a page would need two megabytes packed; smaller ones are
published for JavaScript's package manager only. The script is a bundle of modules, each a statement that the others
refer to by its name, and one that registers the kinds of chart. With the kinds registered that are drawn, the rest of
the statements, which nothing reaches any more, is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from aoi_fl.science.errors import ConfigError, install

if TYPE_CHECKING:
    from tree_sitter import Node

DRAWN = ("bar", "heatmap")  # beside scatter, which Plotly's core registers itself
_REGISTRATION = re.compile(r"\.register\(\[((?:[\w$]+\(\),?)+)\]\)")
_FORWARD = re.compile(r"\.exports=([\w$]+)\(\)\}\);?$")
_FEW = 100  # statements: the block of the modules has far more
_ROOT = ""  # stands for what is played in any case
_NAME = re.compile(r"(?<![\w$.])[\w$]+")


@cache
def script() -> str:
    """Return Plotly's script, as much of it as the pages need; all of it where its form is not the one known.

    Raises
    ------
    ConfigError
        Plotly, or the parser of its script, is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigError("plotly", None, "installed for a report", f"Install it: {install('sim')}.") from error
    return trim(str(get_plotlyjs()), DRAWN)


def trim(bundle: str, kinds: tuple[str, ...]) -> str:
    """Return a bundle of Plotly with only these kinds of chart, and scatter; unchanged where it is of another form."""
    before, statements, names, after = _modules(bundle)
    found = [(i, match) for i, text in enumerate(statements) if (match := _REGISTRATION.search(text))]
    if len(found) != 1:
        return bundle
    place, match = found[0]
    wanted = [call for call in match[1].split(",") if _kind(call[:-2], statements, names) in kinds]
    if len(wanted) != len(kinds):
        return bundle
    statements[place] = statements[place].replace(match[1], ",".join(wanted))
    reached = _reached(statements, names)
    return "".join([before, *(text for i, text in enumerate(statements) if i in reached), after])


def _modules(bundle: str) -> tuple[str, list[str], dict[str, list[int]], str]:
    """Split a bundle at the statements of its modules.

    Returns what stands before them, the statements, for each name those that define or fill it, and what stands after.
    """
    try:
        import tree_sitter_javascript
        from tree_sitter import Language, Parser
    except ImportError as error:
        raise ConfigError("tree-sitter", None, "installed for a report", f"Install it: {install('sim')}.") from error

    source = bundle.encode()

    block = Parser(Language(tree_sitter_javascript.language())).parse(source).root_node
    while block.named_children and not (block.type == "statement_block" and len(block.named_children) > _FEW):
        block = max(block.named_children, key=lambda child: child.end_byte - child.start_byte)
    nodes = block.named_children
    if not nodes:
        return bundle, [], {}, ""
    names: defaultdict[str, list[int]] = defaultdict(list)
    for i, node in enumerate(nodes):
        for name in _names(node):
            names[name].append(i)
    ends = [*(node.start_byte for node in nodes), block.end_byte - 1]
    statements = [source[start:end].decode() for start, end in pairwise(ends)]
    return source[: ends[0]].decode(), statements, names, source[ends[-1] :].decode()


def _names(node: Node) -> list[str]:
    """Return the names that a statement defines; of a call, which fills a module's table of exports, that module's."""
    if node.type in ("variable_declaration", "lexical_declaration"):
        return [_text(child.child_by_field_name("name")) for child in node.named_children]
    if node.type in ("function_declaration", "class_declaration"):
        return [_text(node.child_by_field_name("name"))]
    if node.type == "expression_statement" and node.named_children[0].type == "call_expression":
        arguments = node.named_children[0].child_by_field_name("arguments")
        if arguments is not None and arguments.named_children and arguments.named_children[0].type == "identifier":
            return [_text(arguments.named_children[0])]
    return [_ROOT]


def _text(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode()


def _kind(name: str, statements: list[str], names: dict[str, list[int]]) -> str | None:
    """Return which kind of chart a module is; some only hand on what another exports."""
    while name in names:
        text = statements[names[name][0]]
        said = re.search(r'moduleType:"trace",name:"(\w+)"', text)
        if said:
            return said[1]
        forward = _FORWARD.search(text)
        if not forward:
            return None
        name = forward[1]
    return None


def _reached(statements: list[str], names: dict[str, list[int]]) -> set[int]:
    """Return the statements that run or are named, directly or not; rather one too many."""
    reached: set[int] = set()
    left = list(names.get(_ROOT, ()))
    while left:
        at = left.pop()
        if at not in reached:
            reached.add(at)
            left += [i for name in set(_NAME.findall(statements[at])) & names.keys() for i in names[name]]
    return reached
