"""Generate docs and defaults from the tables of keys and policies (``make generated``)."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from aoi_fl.config.fields import Group, Value, allowed, extra, variable
from aoi_fl.config.groups import GROUPS
from aoi_fl.config.policies import KEYS, REGISTRY, STRATEGIES, users_of
from aoi_fl.config.presets import PRESET

_IMAGE = ("data-dir", "model-dir", "runs-dir")  # folders of the image, which a cluster does not set
# A cluster's defaults that differ, with comments.
_CLUSTER = {
    "num-clients": ("5", ""),
    "clients-per-round": ("2", ""),
    "join-timeout": ("180", "containers of a busy machine take their time"),
}


_POLICIES = "| `policy` | clients of a round | weight in the mean | source |\n|---|---|---|---|\n"


def _keys() -> Iterator[tuple[type[Group], str, Value, str, str, str]]:
    """Yield group, key, default, allowed values, help and users of each key."""
    for group in GROUPS:
        for key, field in group.table():
            ways = allowed(field)
            values = ways if isinstance(ways, str) else ", ".join(f"`{way}`" for way in ways)
            see = extra(field, "see")
            meaning = f"{field.description}; {see}" if see else str(field.description)
            users = ", ".join(f"`{name}`" for name in users_of(key)) if key in KEYS else "all"
            yield group, key, PRESET if key == "preset" else field.default, values, meaning, users


def _written(value: Value) -> str:
    """Return a default in the syntax of TOML and shells, without quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def reference() -> str:
    """Return the tables of docs/configuration.md."""
    lines: list[str] = []
    last: type[Group] | None = None
    for group, key, default, values, meaning, users in _keys():
        if group is not last:
            title = f"{group.__name__.removesuffix('Keys')}: {str(group.__doc__)[0].lower()}{str(group.__doc__)[1:-1]}"
            lines += [
                "",
                f"## {title}",
                "",
                "| key | default | allowed | meaning | policies |",
                "|---|---|---|---|---|",
            ]
            last = group
        shown = _written(default) or "empty"
        shown = f"`{shown}`" if isinstance(default, str) and default else shown
        lines.append(f"| `{key}` | {shown} | {values} | {meaning} | {users} |")
    return "\n".join(lines[1:]) + "\n"


def policies() -> str:
    """Return the table of docs/policies.md."""
    return "".join(f"| `{row.name}` | {row.who} | {row.weight} | {row.source} |\n" for row in REGISTRY.values())


def defaults() -> str:
    """Return the defaults of pyproject's [tool.flwr.app.config]."""
    return "".join(
        f'{key} = "{value}"\n' if isinstance(value, str) else f"{key} = {_written(value)}\n"
        for _, key, value, *_ in _keys()
    )


def variables() -> str:
    """Return the run keys of compose.yaml as variables."""
    lines = []
    for _, key, *_ in _keys():
        if key in _CLUSTER and key != "num-clients":
            value, why = _CLUSTER[key]
            lines.append(f"  {variable(key)}: ${{{variable(key)}:-{value}}}{f' # {why}' if why else ''}\n")
        elif key not in _IMAGE:
            lines.append(f"  {variable(key)}:\n")
    return "".join(lines)


def settings() -> str:
    """Return the run keys of .env.example, each with its help and default."""
    lines = []
    last: type[Group] | None = None
    for group, key, default, _, _, _ in _keys():
        if key in _IMAGE:
            continue
        if group is not last:
            lines.append(f"# {group.__doc__}\n")
            last = group
        lines.append(f"#{variable(key)}={_CLUSTER.get(key, (_written(default), ''))[0]}\n")
    return "".join(lines)


def strategies() -> str:
    """Return the strategies made from rows, as type checkers and the API pages see them."""
    rows = sorted((name, REGISTRY[policy]) for name, policy in STRATEGIES.items())
    listed = "".join(f'    "{name}",\n' for name, _ in rows)
    classes = "".join(
        f'\n    class {name}(_Central):\n        """Policy ``{row.name}``, {row.source}."""\n' for name, row in rows
    )
    return f"__all__ += [\n{listed}]\nif TYPE_CHECKING:\n{classes}\n"


PLACES: dict[str, tuple[str, str, Callable[[], str]]] = {
    "docs/configuration.md": ("<!-- keys: generated -->\n\n", "\n<!-- keys: end -->", reference),
    "docs/policies.md": ("<!-- policies: generated -->\n" + _POLICIES, "\n<!-- policies: end -->", policies),
    "pyproject.toml": ("# Keys: generated.\n", "# Keys: end.", defaults),
    "compose.yaml": ("  # Keys: generated.\n", "  # Keys: end.", variables),
    "strategies/__init__.py": ("# Strategies made from rows: generated.\n", "# Strategies: end.", strategies),
    ".env.example": ("# -- Run keys: generated --\n", "# -- Run keys: end --", settings),
}
"""Files with their markers, and the function that generates the text between them."""


def generated(text: str, begin: str, end: str, made: str) -> str:
    """Return a file's text with the generated part between its markers.

    >>> generated("a [ x ] b", "[ ", "]", "y ")
    'a [ y ] b'
    """
    return re.sub(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", lambda _: made, text, count=1, flags=re.DOTALL)


def main() -> None:
    """Write all generated parts; with ``--check``, fail with the names of files that differ."""
    root, different = Path(__file__).resolve().parents[1], []
    for name, (begin, end, make) in PLACES.items():
        path = root / name
        text = path.read_text("utf-8")
        if begin not in text or end not in text:
            sys.exit(f"{name} has no markers {begin.strip()!r} and {end.strip()!r}.")
        new = generated(text, begin, end, make())
        if new != text:
            different.append(name)
            if "--check" not in sys.argv:
                path.write_text(new, "utf-8")
    if different and "--check" in sys.argv:
        sys.exit(f"{', '.join(different)} differ from the table of keys: run make generated.")


if __name__ == "__main__":
    main()
