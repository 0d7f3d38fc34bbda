"""Run keys on the command line: options made from the table of keys, and ``-c KEY=VALUE``.

A command declares its keys with :func:`keyed`. Each key is an option, for instance ``--clients`` or ``--seed``, and can
also be set with ``-c``. The command's function receives only its context, and reads the keys with :func:`typed` and
:func:`parse`. The table is imported when a command runs, so that ``aoi --help`` does not load pydantic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click
import typer
from typer.core import TyperCommand

from aoi_fl.science.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from aoi_fl.config.run import RunConfig


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """Parse KEY=VALUE texts.

    Raises
    ------
    ConfigError : a text has another form, or two texts set the same key.
    """
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError("-c", text, "of the form KEY=VALUE", "Write for instance -c num-server-rounds=50.")
        if key in values:
            raise ConfigError(
                f"-c {key}", value.strip(), f"given once, and was {values[key]!r} before", "Leave one of them out."
            )
        values[key] = value.strip()
    return values


def keyed(*keys: str, more: bool = False, **defaults: bool | int | float | str) -> type[TyperCommand]:
    """Return a command class with an option for each of these run keys.

    Parameters
    ----------
    keys : the run keys
    more : whether ``-c`` also sets run keys that have no option
    defaults : defaults of this command that differ from the table, with ``_`` for ``-``
    """

    class Command(TyperCommand):
        def get_params(self, ctx: click.Context) -> list[click.Parameter]:
            texts = click.Option(
                ["-c", "--config"], multiple=True, metavar="KEY=VALUE", help="Set a run key; can be repeated."
            )
            return [*_options(keys, defaults), texts, *super().get_params(ctx)]

        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            rest = super().parse_args(ctx, args)
            values = pairs(ctx.params.pop("config"))
            options = {key: ctx.params.pop(key.replace("-", "_")) for key in keys}
            for key, value in options.items():
                if value is not None and key in values:
                    allowed = f"given once, as -c {key}=… or as --{option(key)}"
                    raise ConfigError(key, value, allowed, "Leave one of them out.")
                if value is not None:
                    values[key] = value
            unknown = () if more else values.keys() - set(keys)
            for key in sorted(unknown):
                remedy = did_you_mean(key, options).strip() or "Choose one of these keys."
                allowed = f"a run key of this command: {', '.join(sorted(keys))}"
                raise ConfigError(f"-c {key}", values[key], allowed, remedy)
            ctx.obj = (values, {name.replace("_", "-"): value for name, value in defaults.items()})
            return rest

    return Command


def option(key: str) -> str:
    """Return the name of a run key's option."""
    from aoi_fl.config.fields import extra, snake
    from aoi_fl.config.keys import RunKeys

    return str(extra(RunKeys.model_fields[snake(key)], "short") or key)


def _options(keys: Iterable[str], defaults: Mapping[str, Any]) -> list[click.Parameter]:
    from aoi_fl.config.fields import snake
    from aoi_fl.config.keys import RunKeys
    from aoi_fl.config.policies import OWN, POLICIES

    options: list[click.Parameter] = []
    for key in keys:
        field, name = RunKeys.model_fields[snake(key)], snake(key)
        text = str(field.description).replace("`", "")
        if key == "policy":
            text += f": {', '.join((*POLICIES, OWN))}"
        default = defaults.get(name, field.default)
        if default != "":
            text += f"  [default: {str(default).lower() if isinstance(default, bool) else default}]"
        kind: Any = field.annotation
        kinds = {int: "N", float: "X", bool: "true|false"}
        metavar = "|".join(get_args(kind)) if get_origin(kind) is Literal else kinds.get(kind, "TEXT")
        options.append(
            click.Option(
                [f"--{option(key)}", name],
                metavar=metavar,
                help=text if text[0] in "αωδ" else text[0].upper() + text[1:],
            )
        )
    return options


def typed(context: typer.Context) -> dict[str, str]:
    """Return the run keys that the command line sets, as text."""
    return dict(context.obj[0])


def parse(context: typer.Context, **changes: Any) -> RunConfig:
    """Return the configuration that the command line sets.

    Parameters
    ----------
    context : the command's context
    changes : values that override the command line, with ``_`` for ``-``

    Raises
    ------
    ConfigError : a value is invalid, or a key has no effect.
    """
    from aoi_fl.config.rules import check_effect
    from aoi_fl.config.run import RunConfig

    values, defaults = context.obj
    config = RunConfig.parse(defaults | values | {name.replace("_", "-"): value for name, value in changes.items()})
    check_effect(config, {key for key, value in values.items() if value != ""})
    return config
