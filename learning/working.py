"""The one model that every client of a process is trained in: made once, checked, and drawn in by a seed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import torch

from aoi_fl.learning import models, own_model, stacked
from aoi_fl.learning.form import Form
from aoi_fl.science.errors import ConfigError


@lru_cache(maxsize=1)
def model(name: str, form: Form, device: torch.device, folder: str, source: str) -> torch.nn.Module:
    """Return the one model that every client of this process is trained in; its values are always replaced."""
    if source and (here := own_model.source_digest(name, folder)) != source:
        raise ConfigError(
            f"model={name!r} is another one here: its file in {Path(folder).absolute()} has the digest {here[:12]}…, "
            f"the server's {source[:12]}…. Copy the server's file."
        )
    made = models.build(name, form, seed=0, folder=folder).to(device)
    # A tenth less to train the CNN, a third less to evaluate it; but view(), which many a model uses, would fail.
    if device.type == "cpu" and not own_model.is_own(name):
        made = made.to(memory_format=torch.channels_last)
    return made


@contextmanager
def drawing(model: torch.nn.Module, seed: Callable[[], int]) -> Iterator[None]:
    """Let layers that draw, as dropout does, draw by a seed, and leave the global random state as it was.

    The seed is made only where a layer draws.
    """
    if stacked.is_plain(model):
        yield
        return
    device = next(model.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed())
        yield
