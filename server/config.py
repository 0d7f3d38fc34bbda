"""The configuration of a run: one model over Flower's flat keys, checked whole before the first message."""

import re
from collections.abc import Mapping
from typing import Any, Self

from pydantic import ValidationError, model_validator

from aoi_fl.learning.settings import DATASETS, MODELS, kebab
from aoi_fl.science.errors import ConfigError, did_you_mean
from aoi_fl.server.keys import RunKeys
from aoi_fl.server.rules import conflicts


class RunConfig(RunKeys):
    """A run's keys, of which it is certain that their values go together."""

    @model_validator(mode="after")
    def _feasible(self) -> Self:
        for conflict in conflicts(self):
            raise ValueError(conflict)
        return self

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "RunConfig":
        """Check a flat configuration and fill in the data set's defaults.

        Raises
        ------
        ConfigError
            One paragraph that names every wrong key, its value, what is allowed and what to do.
        """
        try:
            return cls.model_validate(dict(values)).resolved()
        except ValidationError as error:
            raise ConfigError(" ".join(_sentence(e) for e in error.errors())) from None

    def flat(self) -> dict[str, bool | int | float | str]:
        """Return the configuration as Flower's flat mapping."""
        return self.model_dump(by_alias=True)


def variable(key: str) -> str:
    """Return the name of the environment variable that sets a run key in a cluster."""
    return "AOI_" + key.upper().replace("-", "_")


def _sentence(error: Any) -> str:
    key = kebab(str(error["loc"][0])) if error["loc"] else None
    if error["type"] == "extra_forbidden":
        keys = sorted(kebab(name) for name in RunConfig.model_fields)
        return f"{key} is no run key.{did_you_mean(str(key), keys)} The keys are {', '.join(keys)}."
    message = str(error["msg"]).removeprefix("Value error, ")
    if key is None:
        return f"{message}."
    if key == "run-name":
        message = "use letters, digits, '.', '_' and '-', at most 100, beginning with a letter or a digit"
    allowed = re.findall(r"'([^']+)'", str(error.get("ctx", {}).get("expected", "")))
    known = {"dataset": DATASETS, "model": MODELS}.get(str(key), allowed)
    near = did_you_mean(str(error["input"]), known)
    remedy = f"Set it with -c {key}=VALUE (a cluster: {variable(key)})."
    ending = "" if message.endswith("?") else "."
    return f"{key} is {error['input']!r}: {message[0].lower()}{message[1:]}{ending}{near} {remedy}"
