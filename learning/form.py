"""A data set and its form: the shape of an example and the kind of target."""

from dataclasses import dataclass

import numpy as np

from aoi_fl.science.types import AnyArray, Ints, Singles

MOST_CLASSES = 100  # more different whole numbers are targets of a regression, such as counts
Shape = tuple[int, ...]
Labels = Ints | Singles


def resemble_classes(targets: AnyArray) -> bool:
    """Return whether numbers (n,) are few different whole ones that repeat."""
    kinds = np.unique(targets)
    return len(kinds) <= min(MOST_CLASSES, len(targets) // 2) and bool((kinds == np.rint(kinds)).all())


@dataclass(frozen=True)
class Form:
    """The form of a data set, which determines a model's inputs and outputs.

    Attributes
    ----------
    shape : shape of one example, (channels, height, width) of an image or (features,) of a row of a table
    classes : number of classes; 0 for a regression, where targets are numbers
    """

    shape: Shape
    classes: int

    @property
    def regression(self) -> bool:
        """Whether targets are numbers, not classes."""
        return self.classes == 0

    @property
    def outputs(self) -> int:
        """The number of a model's outputs: one for each class, or 1."""
        return self.classes or 1

    @property
    def metric(self) -> str:
        """The metric beside the loss: accuracy, or root mean squared error."""
        return "rmse" if self.regression else "accuracy"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples with labels or targets.

    Attributes
    ----------
    name : the data set's name
    train_x, test_x : images, float32 (N, C, H, W), or tables, float32 (N, features)
    train_y, test_y : labels, int64 (N,) in 0 … classes-1, or the targets of a regression, float32 (N,)
    classes : number of classes, 0 in a regression
    owners, test_owners : (N,) the client of each training or test example, from 0, if the data name clients
    clients : the names of these clients, in order
    notes : warnings about the file
    understood : what the file was read as, in one line
    """

    name: str
    train_x: Singles
    train_y: Labels
    test_x: Singles
    test_y: Labels
    classes: int
    owners: Ints | None = None
    clients: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    understood: str = ""
    test_owners: Ints | None = None

    @property
    def shape(self) -> Shape:
        """Channels, height and width of one image; or the number of features."""
        return self.train_x.shape[1:]

    @property
    def yardstick(self) -> float:
        """The metric of the best constant prediction: the share of the most common class, or the deviation."""
        return float(np.bincount(self.test_y).max() / len(self.test_y) if self.classes else self.test_y.std())

    @property
    def form(self) -> Form:
        """The data set's form."""
        return Form(self.shape, self.classes)
