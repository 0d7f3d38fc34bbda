"""The model that clients of a process are trained in: made once, checked, and drawn in by a seed.

A model of one's own may keep state beside its arrays, in buffers that are not persistent or in plain attributes. It is
copied for each use as it was made, so that no client trains on what another has left there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache
from pathlib import Path

import torch

from aoi_fl.learning import models, stacked
from aoi_fl.learning.form import Form
from aoi_fl.protocol.own_code import source_digest
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import is_own


@lru_cache(maxsize=1)
def model(name: str, form: Form, device: torch.device, folder: str, source: str) -> torch.nn.Module:
    """Return the model of this process as it was made; one of one's own is never trained itself: :func:`fresh`."""
    if source and (here := source_digest("model", name, folder)) != source:
        allowed = f"the server's, of digest {source[:12]}…; the file in {Path(folder).absolute()} has {here[:12]}…"
        raise ConfigError("model", name, allowed, "Copy the server's file.")
    made = _made(name, form, device, folder)
    # A tenth less to train the CNN, a third less to evaluate it; but view(), which many a model uses, would fail.
    if device.type == "cpu" and not is_own(name):
        made = made.to(memory_format=torch.channels_last)
    return made


def fresh(name: str, form: Form, device: torch.device, folder: str, source: str) -> torch.nn.Module:
    """Return a model to train or evaluate in, with no trace of what was done before; its values are to be replaced.

    The models of :mod:`aoi_fl.learning.models` keep nothing beside their values, and are shared.
    """
    kept = model(name, form, device, folder, source)
    if not is_own(name):
        return kept
    try:
        return deepcopy(kept)
    except Exception:  # it holds what cannot be copied: a lock, a generator, a tensor that was computed
        return _made(name, form, device, folder)


def _made(name: str, form: Form, device: torch.device, folder: str) -> torch.nn.Module:
    return models.build(name, form, seed=0, folder=folder).to(device)


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
