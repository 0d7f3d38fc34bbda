"""``aoi play`` and ``aoi adopt``: a Flower app of your own under a policy of this library."""

from __future__ import annotations

import ast
import difflib
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from aoi_fl.cli.keys import pairs
from aoi_fl.cli.scaffold import POLICIES
from aoi_fl.config.values import like
from aoi_fl.protocol.files import read_text
from aoi_fl.protocol.own_code import error_and_place, is_stop
from aoi_fl.science.errors import AoiError, ConfigError, check_choice

_App = Annotated[Path, typer.Argument(metavar="[APP]", hidden=True)]
_Clients = Annotated[int, typer.Option(min=1, max=100_000, help="Number of clients.")]
_STRATEGIES = "flwr.serverapp.strategy"
_FEDAVG = f"from {_STRATEGIES} import FedAvg"
_CLIENTS = ("flwr.clientapp", "flwr.client")
_LONGEST = 90  # characters of a run's name that are the app's
_Edit = tuple[tuple[int, int, int, int], str]  # the first line, its column, the last line, the end there; the new text


@dataclass(frozen=True)
class App:
    """A Flower app: its folder, its name, the places of its two halves, and its flat configuration."""

    folder: Path
    name: str
    server: str
    client: str
    config: dict[str, Any]


def find(folder: Path, given: Mapping[str, str]) -> App:
    """Read the app in a folder; ``given`` are values of its configuration.

    Raises
    ------
    ConfigError : there is no Flower app, or its configuration lacks a key.
    """
    path = folder / "pyproject.toml"
    try:
        project = tomllib.loads(read_text(path))
        flwr = project["tool"]["flwr"]["app"]
        server, client = (flwr["components"][half] for half in ("serverapp", "clientapp"))
        name, config = str(project["project"]["name"]), dict(_flat(flwr.get("config", {})))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        allowed = f"the folder of a Flower app, with pyproject.toml ({type(error).__name__}: {error})"
        raise ConfigError("APP", folder, allowed, "Go to that folder, or write one by aoi init.") from error
    for key, value in given.items():
        if key not in config:
            raise ConfigError(f"-c {key}", value, tuple(config), "Choose a key of the app's configuration.")
        config[key] = like(f"-c {key}", value, config[key])
    return App(folder, name, server, client, config)


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def play(
    folder: _App = Path(),
    clients: _Clients = 10,
    policy: Annotated[str, typer.Option(help="Selection policy, as in aoi run; by default random.")] = "random",
    per_round: Annotated[
        int | None, typer.Option(min=1, help="Clients a round; by default the strategy's fraction_train.")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("-c", "--config", metavar="KEY=VALUE", help="Set a key of the app.")
    ] = None,
) -> None:
    """Play a Flower app in this process and write its page.

    APP is the folder of the app, by default this one. Nothing in it changes. Its strategy aggregates the updates of
    the clients that the policy selects.
    """
    from aoi_fl.client import attach
    from aoi_fl.report import page
    from aoi_fl.server.engine.local_run import run_local
    from aoi_fl.server.record import under

    check_choice("policy", policy, POLICIES)
    app = find(folder, pairs(config or []))
    try:
        sys.path.insert(0, str(app.folder.resolve()))  # as Flower does
        server, client = map(_load, (app.server, app.client))
        with tempfile.TemporaryDirectory() as states, under(policy, clients, per_round, _run_name(app.name)) as played:
            run_local(server, attach(client), {"seed": 1, "runs-dir": states, **app.config}, nodes=clients)
    except BaseException as error:  # also one that would end the process as a success
        if isinstance(error, AoiError) or is_stop(error):
            raise
        remedy = "Correct it, or install what it needs into this environment."
        raise ConfigError("APP", app.folder, f"an app that runs ({error_and_place(error)})", remedy) from error
    if not played:
        allowed = "one whose ServerApp calls the start of a Flower strategy"
        raise ConfigError("APP", app.folder, allowed, "Call strategy.start(grid, …) in its main function.")
    print(page.write([str(one.folder) for one in played]))


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _run_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-")[:_LONGEST] or "app"


def adopt(
    folder: _App = Path(),
    clients: _Clients = 10,
    per_round: Annotated[
        int | None, typer.Option(min=1, help="Clients a round, in the mean; by default the app's fraction_train, or 3.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Change the files.")] = False,
) -> None:
    """Show how to adopt a Flower app, as a diff.

    The lines bring its strategy under the age-optimal policy. APP is the folder of the app, by default this one. With
    --write the files are changed.
    """
    app = find(folder, {})
    if per_round is not None and per_round > clients:
        raise ConfigError("--per-round", per_round, f"at most --clients, {clients}", "Lower it.")
    changed = edits(app, clients, per_round)
    for path, (old, new) in changed.items():
        name = path.relative_to(app.folder).as_posix()
        lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}", n=1)
        print("".join(lines), end="")
        if write:
            path.write_text(new, "utf-8")
    if not changed:
        print("This app is adopted already: nothing to change.")
    elif write:
        print(f"\nThe files are changed. To try the app: aoi play {folder}", file=sys.stderr)
    else:
        print(f"\nTo change the files, add --write. To try the app as it is: aoi play {folder}", file=sys.stderr)


def edits(app: App, clients: int, per_round: int | None) -> dict[Path, tuple[str, str]]:
    """Return the files to change, each with its old and its new text.

    Raises
    ------
    ConfigError : the place of a change is not found.
    """
    texts = {path: read_text(path) for path in sorted(app.folder.rglob("*.py"))}
    if any("aoi_fl" in text for text in texts.values()):
        return {}
    try:
        trees = {path: ast.parse(text) for path, text in texts.items()}
    except SyntaxError as error:
        raise ConfigError("APP", app.folder, f"an app of valid Python ({error})", "Correct it.") from error
    own, others = _families([node for tree in trees.values() for node in ast.walk(tree)])

    def sizes(call: ast.Call) -> str:
        found = per_round or _fraction(call, app.config, clients)
        if not found:
            found = min(3, clients)
            print(f"The app names no number of clients a round, so it is {found}: see --per-round.", file=sys.stderr)
        return f"{clients}, {found}"

    changed = {}
    for path, tree in trees.items():
        if found := [*_edits(tree, own, others, sizes)]:
            changed[path] = texts[path], _edited(texts[path], found)
    new = "".join(text for _, text in changed.values())
    by_hand = f"strategy = MarkovParticipation.optimal({clients}, {per_round or 3}, aggregation=strategy)"
    for what, where, remedy in (
        ("MarkovParticipation", "strategy = FedAvg(…)", f"Add before its start: {by_hand}."),
        ("aoi_fl.client", "an import of ClientApp alone", "Wrap yours: app = aoi_fl.client.attach(app)."),
    ):
        if what not in new:
            raise ConfigError("APP", app.folder, f"one with the line {where}", remedy)
    return changed


def _edited(text: str, found: Iterable[_Edit]) -> str:
    """Return a text after edits, whose columns count bytes of UTF-8."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    for (first, begin, last, end), new in sorted(found, reverse=True):
        lines[first - 1 : last] = [lines[first - 1][:begin] + new.encode() + lines[last - 1][end:]]
    return b"".join(lines).decode()


def _families(nodes: list[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names of an app's subclasses of FedAvg, and of all other strategies.

    Raises
    ------
    ConfigError : another strategy has a loop of its own, which no policy would call.
    """
    from flwr.serverapp import strategy

    flowers = {
        name for name, kind in vars(strategy).items() if isinstance(kind, type) and issubclass(kind, strategy.Strategy)
    }
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
    bases = {name: {name, *map(_last, node.bases)} for name, node in classes.items()}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == _STRATEGIES:
            bases |= {one.asname: {one.name} for one in node.names if one.asname}
    for _ in classes:
        bases = {name: found.union(*(bases.get(one, ()) for one in found)) for name, found in bases.items()}
    averaging = {name for name in classes if bases[name] & flowers == {"FedAvg"}}
    others = {name for name, found in bases.items() if found & flowers} - averaging
    others |= {base for name in others for base in bases[name] & averaging}  # which has to stay a FedAvg
    for name in sorted(others & classes.keys()):
        if any(isinstance(part, ast.FunctionDef) and part.name == "start" for part in classes[name].body):
            remedy = "Move its lines to your main function, around the start of the policy: docs/adopt.md."
            raise ConfigError("APP", f"{name}.start", "that of Flower's strategies, as the policy runs rounds", remedy)
    return averaging - others, others | flowers


def _edits(tree: ast.Module, own: set[str], others: set[str], sizes: Callable[[ast.Call], str]) -> Iterator[_Edit]:
    """Yield what gives a module our ClientApp, and a policy in place of, or around, its strategy.

    ``own`` are the app's subclasses of FedAvg, ``others`` all strategies that aggregate under a policy, ``sizes`` the
    policy's arguments in place of a strategy's call.
    """
    nodes, wrapped = [*ast.walk(tree)], [*_outermost(tree, others)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name in own]
    derived = [base for node in classes for base in node.bases if _last(base) in others]
    alone = derived and "FedAvg" not in {_last(call.func) for call in calls}
    for node in nodes:
        if not isinstance(node, ast.ImportFrom):
            continue
        line = ast.unparse(node)
        if node.module in _CLIENTS and [one.name for one in node.names] == ["ClientApp"]:
            yield _place(node), line.replace(node.module, "aoi_fl.client", 1)
        elif alone and line in (_FEDAVG, f"{_FEDAVG}, Result"):  # it makes our policy the base of all
            yield _place(node), line.replace(_FEDAVG, "from aoi_fl.strategies import MarkovParticipation as FedAvg")
            derived = []
    for base in derived:
        yield _place(base), "MarkovParticipation"
    for call in calls:
        if _last(call.func) in own:
            if call.args:
                raise ConfigError("APP", _last(call.func), "made with arguments by name", "Name them: decay=0.9.")
            given = [ast.unparse(k) for k in call.keywords if k.arg not in ("fraction_train", "min_train_nodes")]
            yield _place(call), f"{ast.unparse(call.func)}.optimal({', '.join([sizes(call), *given])})"
    for call in wrapped:
        first, begin, last, end = _place(call)
        yield (first, begin, first, begin), f"MarkovParticipation.optimal({sizes(call)}, aggregation="
        yield (last, end, last, end), ")"
    if wrapped or derived:
        imports = (node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
        first = min(node.lineno for node in imports if getattr(node, "module", "") != "__future__")
        yield (first, 0, first, 0), "from aoi_fl.strategies import MarkovParticipation\n"


def _place(node: Any) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _fraction(call: ast.Call, config: Mapping[str, Any], clients: int) -> int | None:
    """Return the clients a round by a call's fraction_train; None if it is 1 or cannot be read."""
    from aoi_fl.server.record import trained

    given = {}
    for one in call.keywords:
        key = str(one.arg).replace("_", "-")
        given[key] = one.value.value if isinstance(one.value, ast.Constant) else config.get(key)
    share, least = given.get("fraction-train"), given.get("min-train-nodes", 2)
    if isinstance(share, float) and share < 1 and isinstance(least, int):
        return min(clients, trained(share, least, clients))
    return None


def _outermost(node: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    """Yield the calls of names that are in no other such call."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and _last(child.func) in names:
            yield child
        else:
            yield from _outermost(child, names)


def _last(node: ast.expr) -> str:
    """Return the last name of a dotted one."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
