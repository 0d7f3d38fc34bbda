"""Which of a client's or a user's metrics is the loss, the accuracy and the RMSE, by explicit names."""

from collections.abc import Mapping

KINDS = ("loss", "accuracy", "rmse")  # of an evaluation
TRAINING = "training"  # the loss of a training
_PREFIXES = ("", "eval_", "test_", "val_", "valid_", "validation_", "server_", "central_", "centralized_")
_ROUNDING = 1e-6  # by which a mean of shares may be above 1
_WORDS = {"loss": ("loss",), "accuracy": ("accuracy", "acc"), "rmse": ("rmse",)}
_NAMES = {kind: [prefix + word for prefix in _PREFIXES for word in words] for kind, words in _WORDS.items()}
_NAMES[TRAINING] = ["train_loss", "loss"]


def measured(metrics: Mapping[str, object], kind: str) -> float | None:
    """Return the measure of a kind of :data:`KINDS`, or :data:`TRAINING`; None for none."""
    name = measured_name(metrics, kind)
    return None if name is None else number_of(metrics[name])


def measured_name(metrics: Mapping[str, object], kind: str) -> str | None:
    """Return the name of the metric of a kind; None for none.

    The loss of a training is ``train_loss``, else ``loss``. Another measure is the metric of its kind's name, else
    ``eval_…``, ``test_…``, ``val_…`` and the like. Of accuracies and RMSEs it is then the first with such an ending, as
    in ``top1_accuracy``.
    """
    ends = tuple(f"{sign}{word}" for sign in "_-" for word in _WORDS.get(kind, ()) if word != "loss")
    names = (*_NAMES[kind], *(name for name in metrics if name.lower().endswith(ends)))
    return next((name for name in names if number_of(metrics.get(name)) is not None), None)


def as_share(accuracy: float | None) -> tuple[float | None, str | None]:
    """Return an accuracy as a share from 0 to 1, and what there is to say where it was none.

    Examples
    --------
    >>> as_share(0.5)
    (0.5, None)
    >>> as_share(50.0)[0]
    0.5
    """
    if accuracy is None or not (accuracy > 1 or accuracy < 0):
        return accuracy, None
    remedy = "Return a share from 0 to 1."
    if 1 + _ROUNDING < accuracy <= 100:
        return accuracy / 100, f"is {accuracy:g}: it is taken for per cent and recorded as {accuracy / 100:g}. {remedy}"
    if 1 < accuracy <= 1 + _ROUNDING:
        return 1.0, None
    return None, f"is {accuracy:g}, neither a share nor per cent: it is not recorded. {remedy}"


def number_of(value: object) -> float | None:
    """Return a metric that is one number; None for another."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
