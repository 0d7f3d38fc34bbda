"""The model in which a process trains its clients, one after another.

A user's own model may have state beside its arrays, in non-persistent buffers or plain attributes. It is copied for
each use, so that no client sees another client's state.
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
    """Return this process's model, unchanged; a user's own model is copied: :func:`fresh`."""
    if source and (here := source_digest("model", name, folder)) != source:
        allowed = f"the server's, of digest {source[:12]}…; the file in {Path(folder).absolute()} has {here[:12]}…"
        raise ConfigError("model", name, allowed, "Copy the server's file.")
    module = _made(name, form, device, folder)
    # This saves a tenth of the CNN's training and a third of its evaluation, but breaks view() in users' own models.
    if device.type == "cpu" and not is_own(name):
        module = module.to(memory_format=torch.channels_last)
    return module


def fresh(name: str, form: Form, device: torch.device, folder: str, source: str) -> torch.nn.Module:
    """Return a model without state of earlier use; the caller replaces its arrays.

    The models of :mod:`aoi_fl.learning.models` have no other state, and are shared.
    """
    kept = model(name, form, device, folder, source)
    if not is_own(name):
        return kept
    try:
        return deepcopy(kept)
    except Exception:  # it has a lock, a generator or a computed tensor, which cannot be copied
        return _made(name, form, device, folder)


def _made(name: str, form: Form, device: torch.device, folder: str) -> torch.nn.Module:
    return models.build(name, form, seed=0, folder=folder).to(device)


@contextmanager
def drawing(model: torch.nn.Module, seed: Callable[[], int]) -> Iterator[None]:
    """Seed the draws of layers such as dropout, and keep the global random state.

    The seed is computed only if a layer may draw.
    """
    if stacked.is_plain(model):
        yield
        return
    device = next(model.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed())
        yield
