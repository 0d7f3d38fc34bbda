"""``aoi play`` and ``aoi adopt``: a Flower app of your own under a policy of this library."""

from __future__ import annotations

import ast
import difflib
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from aoi_fl.cli.keys import pairs
from aoi_fl.config.policies import BUDGETED, POLICIES
from aoi_fl.config.values import like
from aoi_fl.protocol.files import read_text
from aoi_fl.protocol.own_code import error_and_place, is_stop
from aoi_fl.science.errors import AoiError, ConfigError, check_choice

_App = Annotated[Path, typer.Argument(metavar="[APP]", hidden=True)]
_Clients = Annotated[int, typer.Option(min=1, max=100_000, help="Number of clients.")]
_STRATEGIES = "flwr.serverapp.strategy"
_CLIENTS = ("flwr.clientapp", "flwr.client")


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
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
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
    from aoi_fl.engine.local_run import run_local
    from aoi_fl.report import page
    from aoi_fl.server.record import under

    known = [name for name in POLICIES if name not in BUDGETED]
    check_choice("policy", policy, known)
    app = find(folder, pairs(config or []))
    try:
        server, client = _loaded(app)
        with tempfile.TemporaryDirectory() as states, under(policy, clients, per_round, app.name) as played:
            run_local(server, attach(client), {"seed": 1, "runs-dir": states, **app.config}, nodes=clients)
    except BaseException as error:  # also one that would end the process as a success
        if isinstance(error, AoiError) or is_stop(error):
            raise
        remedy = (
            "Install what the app needs into this environment." if isinstance(error, ImportError) else "Correct it."
        )
        raise ConfigError("APP", app.folder, f"an app that runs ({error_and_place(error)})", remedy) from error
    if not played:
        allowed = "one whose ServerApp calls the start of a Flower strategy"
        raise ConfigError("APP", app.folder, allowed, "Call strategy.start(grid, …) in its main function.")
    print(page.write([str(one.folder) for one in played]))


def _loaded(app: App) -> tuple[Any, Any]:
    """Import both halves of an app, as Flower does from its folder."""
    sys.path.insert(0, str(app.folder.resolve()))
    halves = [place.partition(":") for place in (app.server, app.client)]
    server, client = (getattr(import_module(module), name) for module, _, name in halves)
    return server, client


def adopt(
    folder: _App = Path(),
    clients: _Clients = 10,
    per_round: Annotated[int, typer.Option(min=1, help="Clients a round, in the mean.")] = 3,
    write: Annotated[bool, typer.Option("--write", help="Change the files.")] = False,
) -> None:
    """Show how to adopt a Flower app, as a diff.

    The lines bring its strategy under the age-optimal policy. APP is the folder of the app, by default this one. With
    --write the files are changed.
    """
    app = find(folder, {})
    if per_round > clients:
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


def edits(app: App, clients: int, per_round: int) -> dict[Path, tuple[str, str]]:
    """Return the files to change, each with its old and its new text.

    Raises
    ------
    ConfigError : the place of a change is not found, or a strategy has a loop of its own.
    """
    texts = {path: read_text(path) for path in sorted(app.folder.rglob("*.py"))}
    if any("aoi_fl" in text for text in texts.values()):
        return {}
    try:
        names = _strategies([ast.parse(text) for text in texts.values()])
    except SyntaxError as error:
        raise ConfigError("APP", app.folder, f"an app of valid Python ({error})", "Correct it.") from error
    policy = f"MarkovParticipation.optimal({clients}, {per_round}, aggregation="
    found = {path: _adopted(text, names, policy) for path, text in texts.items()}
    changed = {path: (texts[path], new) for path, new in found.items() if new != texts[path]}
    new = "\n".join(text for _, text in changed.values())
    for what, where, remedy in (
        ("MarkovParticipation", "strategy = FedAvg(…)", f"Add before its start: strategy = {policy}strategy)."),
        ("aoi_fl.client", "an import of ClientApp alone", "Wrap yours: app = aoi_fl.client.attach(app)."),
    ):
        if what not in new:
            raise ConfigError("APP", app.folder, f"one with the line {where}", remedy)
    return changed


def _strategies(trees: list[ast.Module]) -> set[str]:
    """Return the names of Flower's strategies and of an app's own.

    Raises
    ------
    ConfigError : one of its own has a loop of its own, which no policy would call.
    """
    from flwr.serverapp import strategy

    names = {
        name for name, kind in vars(strategy).items() if isinstance(kind, type) and issubclass(kind, strategy.Strategy)
    }
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imported = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == _STRATEGIES]
    names |= {one.asname for node in imported for one in node.names if one.asname and one.name in names}
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    for _ in classes:
        names |= {node.name for node in classes if names.intersection(map(_last, node.bases))}
    for node in classes:
        if node.name in names and any(isinstance(part, ast.FunctionDef) and part.name == "start" for part in node.body):
            place = f"{node.name}.start"
            remedy = 'Change its base by hand: docs/adopt.md, "A strategy of your own".'
            raise ConfigError("APP", place, "that of Flower's strategies, as the policy runs rounds", remedy)
    return names


def _adopted(text: str, names: set[str], policy: str) -> str:
    """Return a module's text with our ClientApp, and a policy around its strategies."""
    tree, lines = ast.parse(text), text.splitlines(keepends=True)
    calls = list(_made(tree, names))
    for call in reversed(calls):
        _insert(lines, call.end_lineno or 0, call.end_col_offset or 0, ")")
        _insert(lines, call.lineno, call.col_offset, policy)
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module not in _CLIENTS:
            continue
        if [one.name for one in node.names] == ["ClientApp"]:
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = line.replace(f"from {node.module} ", "from aoi_fl.client ", 1)
    if calls:
        imports = (node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
        first = min(node.lineno for node in imports if getattr(node, "module", "") != "__future__")
        lines.insert(first - 1, "from aoi_fl.strategies import MarkovParticipation\n")
    return "".join(lines)


def _made(node: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    """Yield the calls of names that are in no other such call."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and _last(child.func) in names:
            yield child
        else:
            yield from _made(child, names)


def _insert(lines: list[str], number: int, column: int, new: str) -> None:
    """Insert a text at a place as ``ast`` counts it, in bytes."""
    line = lines[number - 1].encode()
    lines[number - 1] = line[:column].decode() + new + line[column:].decode()


def _last(node: ast.expr) -> str:
    """Return the last name of a dotted one."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
