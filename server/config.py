"""The configuration of a run: one model over Flower's flat keys, checked whole before the first message."""

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import ValidationError, model_validator
from pydantic.fields import FieldInfo

from aoi_fl.learning.settings import kebab
from aoi_fl.science.errors import NAMES, ConfigError, ConfigErrors, did_you_mean
from aoi_fl.server.keys import RunKeys
from aoi_fl.server.rules import conflicts


class RunConfig(RunKeys):
    """A run's keys, of which it is certain that their values go together."""

    @model_validator(mode="after")
    def _feasible(self) -> Self:
        for conflict in conflicts(self):
            raise conflict
        return self

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "RunConfig":
        """Check a flat configuration and fill in the data set's defaults.

        Raises
        ------
        ConfigError
            Key, value, what is allowed and what to do, for every wrong key.
        """
        try:
            return cls.model_validate(dict(values)).resolved()
        except ValidationError as error:
            errors = [_as_error(e) for e in error.errors()]
            raise (errors[0] if len(errors) == 1 else ConfigErrors(errors)) from None

    def flat(self) -> dict[str, bool | int | float | str]:
        """Return the configuration as Flower's flat mapping."""
        return self.model_dump(by_alias=True)


def variable(key: str) -> str:
    """Return the name of the environment variable that sets a run key in a cluster."""
    return "AOI_" + key.upper().replace("-", "_")


def _as_error(error: Any) -> ConfigError:
    """Return an error of pydantic with the names and the remedy of this project."""
    if isinstance(cause := error.get("ctx", {}).get("error"), ConfigError):
        return cause
    name = str(error["loc"][0])
    key, remedy = kebab(name), f"Set it with -c {kebab(name)}=VALUE (a cluster: {variable(kebab(name))})."
    if error["type"] == "extra_forbidden":
        keys = sorted(map(kebab, RunConfig.model_fields))
        near = did_you_mean(key, keys).strip()
        return ConfigError(key, None, f"a run key: {', '.join(keys)}", near or "Choose one of these.")
    name = next(field for field in RunConfig.model_fields if key == kebab(field))
    return ConfigError(key, error["input"], allowed(RunConfig.model_fields[name]), remedy)


def allowed(field: FieldInfo) -> str | tuple[str, ...]:
    """Return what a key may be: its values, or its range in words.

    >>> allowed(RunConfig.model_fields["jitter"]), allowed(RunConfig.model_fields["trains"])
    ('a number from 0 to 1', ('selected', 'all'))
    """
    if get_origin(field.annotation) is Literal:
        return get_args(field.annotation)
    if field.annotation is bool:
        return "true or false"
    if field.annotation is str:
        return NAMES if field.metadata else "a text"
    bounds = {name: getattr(part, name) for part in field.metadata for name in part.__slots__}
    low = f"above {bounds['gt']:g} and at most" if "gt" in bounds else f"from {bounds['ge']:g} to"
    high = bounds["lt"] - 1 if "lt" in bounds else bounds["le"]
    kind, most = ("whole number", str(high)) if field.annotation is int else ("number", f"{high:g}")
    return f"a {kind} {low} {most}"
