"""Run keys on the command line: ``-c KEY=VALUE`` everywhere, and options that are short for the common ones.

``aoi run`` takes every run key. A command that takes some of them names them by :func:`taking`, and they set the
options of the same meaning: ``aoi simulate -c num-clients=20`` is ``aoi simulate --clients 20``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import click
import typer
from typer.core import TyperCommand

from aoi_fl.science.errors import ConfigError, did_you_mean

_EMPTY = ("clients-file", "clock")  # run keys that are empty unless they are given
Config = Annotated[
    list[str] | None, typer.Option("-c", "--config", metavar="KEY=VALUE", help="A run key; may be repeated.")
]

# Run keys by the options that are short for them; an option without an entry is called as its key.
SHORT = {
    "num-clients": "clients",
    "clients-per-round": "per-round",
    "num-server-rounds": "rounds",
    "train-timeout": "deadline",
}


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE texts.

    Raises
    ------
    ConfigError
        One has another form, or two are of the same key.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError("-c", text, "of the form KEY=VALUE", "Write for instance -c num-server-rounds=50.")
        if key in found:
            raise ConfigError(
                f"-c {key}", value.strip(), f"given once, and was {found[key]!r} before", "Leave one of them out."
            )
        found[key] = value.strip()
    return found


def merge(texts: Sequence[str], options: dict[str, str | None]) -> dict[str, str]:
    """Return run keys and values from ``-c`` and from options, each by the run key it is short for.

    Raises
    ------
    ConfigError
        A key is given both ways, or ``-c`` names an option in place of its key.
    """
    found = pairs(texts)
    for key, value in options.items():
        short = SHORT.get(key, key)
        if short != key and short in found:
            said = found[short]
            raise ConfigError(
                f"-c {short}",
                said,
                "given under the name of its run key or as an option",
                f"Write --{short} {said}, or -c {key}={said}.",
            )
        if value is None:
            continue
        if key in found:
            raise _both_ways(key)
        found[key] = value
    return found


def taking(*keys: str) -> type[TyperCommand]:
    """Return a class of commands that take these run keys by ``-c``."""
    options = {key: SHORT.get(key, key).replace("-", "_") for key in keys}

    class Command(TyperCommand):
        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            # What -c says stands in for the options' defaults, so it is converted and checked as they are.
            said = pairs(_values_of_c(self, ctx, list(args)))
            for key in said:
                if key not in options:
                    raise ConfigError(
                        f"-c {key}",
                        None,
                        f"a run key that {ctx.info_name} takes: {', '.join(sorted(options))}",
                        did_you_mean(key, options).strip() or "Choose one of these keys.",
                    )
            named = {key: value for key, value in said.items() if value or key not in _EMPTY}
            ctx.default_map = {options[key]: value for key, value in named.items()}
            rest = super().parse_args(ctx, args)
            for key in said:
                if ctx.get_parameter_source(options[key]) is click.core.ParameterSource.COMMANDLINE:
                    raise _both_ways(key)
            return rest

    return Command


def _values_of_c(command: click.Command, ctx: click.Context, args: list[str]) -> Sequence[str]:
    values, _, _ = command.make_parser(ctx).parse_args(args)
    return values.get("config") or ()


def _both_ways(key: str) -> ConfigError:
    option = SHORT.get(key, key)
    return ConfigError(key, None, f"given once, as -c {key}=… or as --{option}", "Leave one of them out.")


def given(context: typer.Context, name: str) -> bool:
    """Say whether an option was given on the command line, itself or by its key, and is not there by default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name in ("COMMANDLINE", "DEFAULT_MAP")


class Number(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic from Click 8.5 on
    """A number within bounds, both of them allowed; what lies beyond is one paragraph, as for a run key."""

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most = least, most
        self._kind: type = int if isinstance(least, int) and isinstance(most, int) else float
        self.name = f"{least}..{most}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        name = "the value" if param is None else (param.name or "").replace("_", "-")
        kind = "whole number" if self._kind is int else "number"
        try:
            number = self._kind(value)
        except ValueError:
            number = None
        if number is None or not self.least <= number <= self.most:
            raise ConfigError(
                name, value, f"a {kind} from {self.least} to {self.most}", "Choose a value of this range."
            )
        return number
