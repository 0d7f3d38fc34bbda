"""A data set, and what a model must know of it: the shape of an example, and what is to be learnt of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]
Labels = NDArray[np.int64] | NDArray[np.float32]


@dataclass(frozen=True)
class Form:
    """What a model must know of a data set.

    Attributes
    ----------
    shape : of one example, (channels, height, width) of an image or (features,) of a row of a table
    classes : how many there are; 0 where each example has a number as its target: a regression
    """

    shape: Shape
    classes: int

    @property
    def regression(self) -> bool:
        """Whether targets are numbers, and not classes."""
        return self.classes == 0

    @property
    def outputs(self) -> int:
        """The outputs of a model: one for each class, or the number itself."""
        return self.classes or 1

    @property
    def metric(self) -> str:
        """What a model is judged by beside its loss: its accuracy, or the root of its mean squared error."""
        return "rmse" if self.regression else "accuracy"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples and what is to be learnt of them.

    Attributes
    ----------
    name : the data set's
    train_x, test_x : images, float32 (N, C, H, W), or tables, float32 (N, features)
    train_y, test_y : labels, int64 (N,) in 0 … classes-1, or the targets of a regression, float32 (N,)
    classes : how many there are, 0 in a regression
    owners : (N,) the client of each training example, from 0, where the data say so
    clients : the names of these clients, in order
    notes : warnings about the file
    """

    name: str
    train_x: NDArray[np.float32]
    train_y: Labels
    test_x: NDArray[np.float32]
    test_y: Labels
    classes: int
    owners: NDArray[np.int64] | None = None
    clients: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def shape(self) -> Shape:
        """Channels, height and width of one image; or the number of features."""
        return self.train_x.shape[1:]

    @property
    def form(self) -> Form:
        """What a model must know of it."""
        return Form(self.shape, self.classes)
