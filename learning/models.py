"""The models of the papers and their losses.

torch is imported on use, so a check of a model's name needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aoi_fl.config.task import MODELS
from aoi_fl.learning import own_model
from aoi_fl.learning.form import Form
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import is_own

if TYPE_CHECKING:
    import torch

# Output channels of each model's convolutions, and units of its hidden layers.
_LAYERS = {"lr": ((), ()), "svm": ((), ()), "2nn": ((), (200, 200)), "cnn": ((32, 64), (512,))}


def build(name: str, form: Form, *, seed: int, zeros: bool = False, folder: str = ".") -> torch.nn.Module:
    """Build a model with seeded initial values; the global random state does not change.

    Parameters
    ----------
    name : ``lr``: linear, which is multinomial logistic regression for classes. ``svm``: linear, with the
        multi-class hinge loss. ``2nn``: two hidden layers of 200 rectified units. ``cnn``: two 5×5 convolutions (32 and
        64 channels, padded to keep the size), each followed by 2×2 max pooling, then 512 rectified units. The last two
        are McMahan et al. (2017), Section 3, with 199,210 and 1,663,370 parameters for MNIST. Or your own:
        :mod:`aoi_fl.learning.own_model`.
    form : the form of the data, which sets inputs and outputs.
    seed : seed of the initial values, which have torch's default distribution.
    zeros : start from zeros, as Xu et al. (2024). Only ``lr`` and ``svm`` can; hidden layers of other models would get
        no gradient.
    folder : searched first for your own model.

    Raises
    ------
    ConfigError : the name is unknown; the CNN with a table, or with images too small for its two poolings; the SVM with
        a regression; zeros with hidden layers; or your own model cannot be made.
    """
    refusals = (
        (name not in MODELS and not is_own(name), (*MODELS, own_model.HOW), "Choose one of these."),
        (
            zeros and name not in ("lr", "svm"),
            "lr or svm with zeros, because hidden layers that start at zero get no gradient",
            "Leave zeros out, or choose model=lr or model=svm.",
        ),
        (
            name == "cnn" and (len(form.shape) != 3 or min(form.shape[1:]) < 4),
            f"2nn or lr for examples of shape {form.shape}: the CNN needs images of at least 4×4 pixels",
            "Choose model=2nn or model=lr.",
        ),
        (name == "svm" and form.regression, "lr or 2nn for a regression", "Choose model=lr or model=2nn."),
    )
    for refused, allowed, remedy in refusals:
        if refused:
            raise ConfigError("model", name, allowed, remedy)
    if is_own(name):
        return own_model.make(name, folder, form, seed)
    import torch
    from torch import nn

    convolutions, hidden = _LAYERS[name]
    shape, layers = form.shape, list[nn.Module]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for out in convolutions:
            layers += [nn.Conv2d(shape[0], out, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2)]
            shape = out, shape[1] // 2, shape[2] // 2
        layers.append(nn.Flatten())
        values = math.prod(shape)
        for out in hidden:
            layers += [nn.Linear(values, out), nn.ReLU()]
            values = out
        model = nn.Sequential(*layers, nn.Linear(values, form.outputs))
    if zeros:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
    return model


def loss_of(name: str, *, regression: bool = False) -> Callable[..., torch.Tensor]:
    """Return a model's loss ``f(outputs, labels, reduction=…)`` for training and evaluation.

    It is the cross entropy; for ``svm`` the multi-class hinge loss Σ_{j≠y} max(0, 1 − s_y + s_j) / classes of the
    outputs s; for a regression the squared error.
    """
    from torch.nn import functional

    if regression:  # of outputs (n, 1) and targets (n,); broadcasting them would compare each with all
        return lambda s, y, reduction="mean": functional.mse_loss(s.reshape(y.shape), y, reduction=reduction)
    return functional.multi_margin_loss if name == "svm" else functional.cross_entropy


def to_arrays(model: torch.nn.Module) -> dict[str, NDArray[np.float32]]:
    """Copy the model's arrays, named and ordered as in its state_dict."""
    return {name: value.detach().cpu().numpy().copy() for name, value in model.state_dict().items()}


def load_arrays(model: torch.nn.Module, arrays: Mapping[str, NDArray[np.float32]]) -> None:
    """Copy arrays into the model.

    Raises
    ------
    ConfigError : names or shapes are not the model's, because client and server use different models or data sets.
    """
    import torch

    state = model.state_dict()
    for name in sorted({*state, *arrays}):
        ours, theirs = (f"of shape {tuple(of[name].shape) if name in of else 'none'}" for of in (state, arrays))
        if ours != theirs:
            remedy = "Use the same model and data set on client and server."
            raise ConfigError(f"array {name}", theirs, f"{ours}, as in the model", remedy)
    with torch.no_grad():
        for name, value in state.items():
            value.copy_(torch.from_numpy(np.asarray(arrays[name], order="C")))
