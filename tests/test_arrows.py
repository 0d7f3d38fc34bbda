"""The arrows between rooms, as docs/architecture.md draws them: read from every import, those inside functions too."""

import ast
import importlib
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.processes import ROOT

BENCHMARKS = ROOT / "lab/benchmarks"  # they measure any room
VIRTUAL = BENCHMARKS / "fleet/virtual.py"  # plays SuperNodes
# What a room may import.
BELOW = {
    "science": set(),
    "config": {"science"},
    "flower": set(),
    "protocol": {"science"},
    "strategies": {"config", "protocol", "science", "flower"},
    "client": {"protocol", "science", "flower"},
    "learning": {"config", "client", "protocol", "science"},
    "server": {"config", "strategies", "learning", "client", "protocol", "science", "flower"},
    "report": {"config", "server", "protocol", "science"},
    "lab": {"config", "report", "server", "learning", "protocol", "science", "flower"},
    "cli": {"config", "lab", "report", "server", "client", "protocol", "science"},
    "docker": {"config", "report", "server", "client", "protocol", "science", "flower"},
}


def modules(root: Path = ROOT) -> Iterator[tuple[str, Path]]:
    """Yield each module of the rooms, as it is imported, and its file."""
    for room in BELOW:
        for path in sorted((root / room).rglob("*.py")):
            if BENCHMARKS in path.parents:
                continue
            name = ".".join(("aoi_fl", *path.relative_to(root).with_suffix("").parts))
            yield name.removesuffix(".__init__"), path


def imports(path: Path, package: str) -> Iterator[tuple[str, str]]:
    """Yield what a file imports of a package, wherever in it: modules, and names in them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == package)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package:
            yield from ((node.module, alias.name) for alias in node.names)


def imported(path: Path) -> set[str]:
    """Return the modules of this project that a file imports, and names in them."""
    return {f"{module}.{name}".strip(".") for module, name in imports(path, "aoi_fl")} - {"aoi_fl"}


def room(name: str) -> str:
    return name.split(".")[1]


def test_every_room_has_its_arrows():
    rooms = {path.name for path in (ROOT / "typings/aoi_fl").iterdir() if path.is_symlink() and path.is_dir()}
    assert rooms == set(BELOW)


def test_the_arrows_point_one_way():
    list(TopologicalSorter(BELOW).static_order())


@pytest.mark.parametrize("owner", BELOW)
def test_a_room_imports_only_what_lies_below_it(owner):
    wrong = {
        (name, room(other))
        for name, path in modules()
        if room(name) == owner
        for other in imported(path)
        if room(other) in BELOW and room(other) not in BELOW[owner] | {owner}
    }
    assert not wrong, f"{owner} may import {sorted(BELOW[owner])}; {sorted(wrong)} import more"


def test_no_module_imports_itself_by_a_circle():
    known = dict(modules())
    graph = {}
    for name, path in known.items():
        targets = {other if other in known else other.rpartition(".")[0] for other in imported(path)}
        graph[name] = targets & known.keys() - {name}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None


def test_only_one_room_touches_flowers_insides():
    public = ("flwr", "flwr.app", "flwr.clientapp", "flwr.clientapp.mod", "flwr.serverapp", "flwr.serverapp.strategy")
    others = [(name, path) for name, path in modules() if room(name) != "flower"]
    others += [(str(path.relative_to(ROOT)), path) for path in BENCHMARKS.rglob("*.py") if path != VIRTUAL]
    found = {
        f"{name}: {module} {attribute}"
        for name, path in others
        for module, attribute in imports(path, "flwr")
        if module not in public or (attribute and attribute not in importlib.import_module(module).__all__)
    }
    assert not found, f"these use what Flower does not promise: {sorted(found)}; it belongs into flower/"


def test_nobody_reaches_for_what_another_keeps_private():
    found = {
        f"{name}: {ast.unparse(node)}"
        for name, path in modules()
        if room(name) != "flower"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr)
        if not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
    }
    known = {f"aoi_fl.learning.{module}: torch._foreach_add_" for module in ("batched", "sgd")}
    known |= {"aoi_fl.strategies.strategy: sys._getframe"}  # to name a loop that is not ours
    known |= {f"aoi_fl.{module}: os._exit" for module in ("client.supernode", "server.engine.parent")}
    assert found == known
