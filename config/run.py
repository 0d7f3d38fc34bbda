"""The configuration of a run: Flower's flat keys, checked before the first message."""

import re
from collections.abc import Mapping
from typing import Any, Self

from pydantic import ValidationError, model_validator

from aoi_fl.config.fields import allowed, extra, kebab, snake, variable
from aoi_fl.config.keys import RunKeys
from aoi_fl.config.policies import Keys
from aoi_fl.config.presets import expanded
from aoi_fl.config.rules import conflicts
from aoi_fl.science.errors import ConfigError, ConfigErrors, did_you_mean

_LONGEST = 4096  # characters of a value
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


class RunConfig(RunKeys):
    """A run's keys with checked values and combinations."""

    @model_validator(mode="before")
    @classmethod
    def _expanded(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        for key, value in values.items():
            if (isinstance(value, str) and len(value) > _LONGEST) or (isinstance(value, int) and abs(value) >> 64):
                field = cls.model_fields.get(snake(key))
                numeric = field is not None and field.annotation in (int, float)
                range_ = allowed(field) if field is not None and numeric else f"at most {_LONGEST} characters long"
                raise ConfigError(kebab(key), value, range_, "Shorten it.")
            if isinstance(value, str) and _NO_TEXT.search(value):
                raise ConfigError(kebab(key), value, "a text in UTF-8 without NUL", "Correct it.")
        return expanded(values)

    @model_validator(mode="after")
    def _feasible(self) -> Self:
        for conflict in conflicts(self):
            raise conflict
        return self

    @classmethod
    def parse(cls, values: Keys) -> "RunConfig":
        """Check a flat configuration and fill in the data set's defaults.

        Raises
        ------
        ConfigError
            A key is invalid; the error has key, value, allowed values and remedy, for each invalid key.
        """
        try:
            return cls.model_validate(dict(values)).resolved()
        except ValidationError as error:
            errors = [_as_error(e) for e in error.errors()]
            raise (errors[0] if len(errors) == 1 else ConfigErrors(errors)) from None


def _as_error(error: Any) -> ConfigError:
    """Return an error of pydantic as a ConfigError."""
    if isinstance(cause := error.get("ctx", {}).get("error"), ConfigError):
        return cause
    key = kebab(str(error["loc"][0]))
    if error["type"] == "extra_forbidden":
        keys = dict(RunConfig.table())
        long = [name for name, field in keys.items() if extra(field, "short") == key]
        if near := f"Write {long[0]}." if long else did_you_mean(key, sorted(keys)).strip():
            return ConfigError(key, None, "a run key", near)
        return ConfigError(key, None, f"a run key: {', '.join(sorted(keys))}", "Choose one of these.")
    remedy = f"Set it with -c {key}=VALUE (a cluster: {variable(key)})."
    return ConfigError(key, error["input"], allowed(RunConfig.model_fields[snake(key)]), remedy)
