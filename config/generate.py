"""Generate docs and defaults from the tables of keys and policies (``make generated``)."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from pydantic.fields import FieldInfo

from aoi_fl.config.fields import allowed, extra, variable
from aoi_fl.config.groups import GROUPS
from aoi_fl.config.policies import KEYS, REGISTRY, STRATEGIES, users_of
from aoi_fl.config.presets import PRESET

_IMAGE = ("data-dir", "model-dir", "runs-dir")  # folders of the image, which a cluster does not set
_CLUSTER = {"num-clients": "5", "clients-per-round": "2", "join-timeout": "180"}  # defaults that differ in a cluster
_POLICIES = "| `policy` | clients of a round | weight in the mean | source |\n|---|---|---|---|\n"


def _default(key: str, field: FieldInfo) -> str:
    """Return a key's default as TOML writes it."""
    return json.dumps(PRESET if key == "preset" else field.default)


def _row(key: str, field: FieldInfo) -> str:
    """Return a key's row in docs/configuration.md."""
    default, ways, see = _default(key, field), allowed(field), extra(field, "see")
    shown = f"`{default[1:-1]}`" if len(default) > 2 and default[0] == '"' else default.replace('""', "empty")
    values = ways if isinstance(ways, str) else ", ".join(f"`{way}`" for way in ways)
    users = ", ".join(f"`{name}`" for name in users_of(key)) if key in KEYS else "all"
    return f"| `{key}` | {shown} | {values} | {field.description}{f'; {see}' if see else ''} | {users} |\n"


def reference() -> str:
    """Return the tables of docs/configuration.md."""
    tables = []
    for group in GROUPS:
        name, about = group.__name__.removesuffix("Keys"), str(group.__doc__)
        rows = "".join(_row(key, field) for key, field in group.table())
        head = "| key | default | allowed | meaning | policies |\n|---|---|---|---|---|\n"
        tables.append(f"## {name}: {about[0].lower()}{about[1:-1]}\n\n{head}{rows}")
    return "\n".join(tables)


def policies() -> str:
    """Return the table of docs/policies.md."""
    return "".join(f"| `{row.name}` | {row.who} | {row.weight} | {row.source} |\n" for row in REGISTRY.values())


def defaults() -> str:
    """Return the defaults of pyproject's [tool.flwr.app.config]."""
    return "".join(f"{key} = {_default(key, field)}\n" for group in GROUPS for key, field in group.table())


def variables() -> str:
    """Return the run keys of compose.yaml as variables."""
    values = {
        variable(key): f" ${{{variable(key)}:-{value}}}" for key, value in _CLUSTER.items() if key != "num-clients"
    }
    names = [variable(key) for group in GROUPS for key, _ in group.table() if key not in _IMAGE]
    return "".join(f"  {name}:{values.get(name, '')}\n" for name in names)


def settings() -> str:
    """Return the run keys of .env.example, each with its help and default."""
    lines = []
    for group in GROUPS:
        lines.append(f"# {group.__doc__}\n")
        for key, field in group.table():
            if key not in _IMAGE:
                value = _CLUSTER.get(key, _default(key, field).strip('"'))
                lines.append(f"#{variable(key)}={value}\n")
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
