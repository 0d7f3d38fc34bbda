"""Partition training images among clients, once before the run, into an index file.

To read it a client needs NumPy only, so it can count its images without loading them.
"""

import os
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from aoi_fl.learning.form import Labels
from aoi_fl.protocol import npy
from aoi_fl.protocol.files import check_regular, save
from aoi_fl.science.draws import generator
from aoi_fl.science.errors import ConfigError, install, refusing
from aoi_fl.science.sizes import make_sizes, scaled
from aoi_fl.science.types import Ints

Indices = Ints


def make(
    labels: Labels, clients: int, *, kind: str = "iid", alpha: float = 0.6, sizes: str | Indices = "equal", seed: int
) -> list[Indices]:
    """Divide the images among the clients, each image to at most one.

    Parameters
    ----------
    labels : labels of all training images, (N,); targets of a regression need ``iid``.
    clients : number of clients, at most N.
    kind : ``iid``: a random permutation, cut into pieces. ``dirichlet``: proportions of each class drawn from
        Dirichlet(α, …, α), which also determine the sizes. Hsu, Qi & Brown (2019), as in flwr-datasets, without
        balancing.
    alpha : concentration α > 0 of ``dirichlet``: small for clients with few classes, large for nearly IID clients.
    sizes : for ``iid``: ``equal`` (within one image), ``zipf:A`` or ``uniform:LO:HI``, scaled by
        :func:`aoi_fl.science.sizes.make_sizes` so that every image is used; or the numbers, (clients,), scaled down if
        there are too few images.
    seed : the partition depends on the seed and the other arguments only.

    Returns
    -------
    list of ndarray
        For each client, the positions of its images in ``labels``, int64, at least one.

    Raises
    ------
    ConfigError : a value is out of range, there are more clients than examples, or the draw leaves a client without
        data.
    """
    if not 1 <= clients <= len(labels):
        allowed = f"from 1 to {len(labels)}, the number of training examples"
        raise ConfigError("num-clients", clients, allowed, "Use fewer clients or a larger data set.")
    if kind == "dirichlet":
        if not isinstance(sizes, str) or sizes != "equal":
            allowed = "equal with partition=dirichlet, which draws the sizes along with the classes"
            raise ConfigError("sizes", sizes, allowed, "Leave sizes out, or choose partition=iid.")
        if labels.dtype.kind == "f":
            allowed = "iid for a regression, which has no classes to share out"
            raise ConfigError("partition", "dirichlet", allowed, "Choose partition=iid.")
        return _dirichlet(labels, clients, alpha, seed)
    order = generator(seed, 0, "partition").permutation(len(labels))
    if isinstance(sizes, str):
        counts = make_sizes(sizes, clients, seed, total=len(labels))
    else:
        counts = sizes if sizes.sum() <= len(labels) else scaled(sizes, len(labels))
    ends = np.cumsum(counts)
    return np.split(order[: ends[-1]], ends[:-1])


def natural(owners: Indices, names: Sequence[str], clients: int) -> list[Indices]:
    """Return each client's examples by ``owners``, (N,) the client of each example.

    Raises
    ------
    ConfigError : the data have another number of clients than the run.
    """
    if len(names) != clients:
        allowed = f"{len(names)}, the clients that the data name"
        raise ConfigError("num-clients", clients, allowed, f"Set num-clients to {len(names)}.")
    order = np.argsort(owners, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owners, minlength=clients))[:-1])


def _dirichlet(labels: Labels, clients: int, alpha: float, seed: int) -> list[Indices]:
    try:
        # Imported here, because it takes seconds and only a Dirichlet partition needs it.
        from datasets import Dataset
        from flwr_datasets.partitioner import DirichletPartitioner
    except ImportError as error:
        remedy = f"Install it: {install('sim')}, or choose partition=iid."
        raise ConfigError("flwr-datasets", None, f"installed for partition=dirichlet ({error})", remedy) from error
    partitioner = DirichletPartitioner(
        clients, "label", float(alpha), min_partition_size=1, self_balancing=False, seed=seed
    )
    partitioner.dataset = Dataset.from_dict({"index": np.arange(len(labels)), "label": labels})
    try:
        with warnings.catch_warnings(action="ignore"):  # it warns at every draw it repeats
            return [np.array(partitioner.load_partition(i)[:]["index"], np.int64) for i in range(clients)]
    except ValueError as error:
        allowed = f"larger for {clients} clients and seed {seed}: each of eleven draws leaves clients without data"
        raise ConfigError("alpha", alpha, allowed, "Choose a larger alpha, fewer clients or another seed.") from error


# The file is one int64 array: the number of clients n, n+1 offsets, and the indices of all clients one after another.
def write_index(path: Path | str, parts: Sequence[Indices]) -> None:
    """Write a partition atomically.

    Raises
    ------
    ConfigError : the file cannot be written.
    """
    offsets = np.cumsum([0, *map(len, parts)])
    whole = np.concatenate([[len(parts)], offsets, *parts]).astype(np.int64)
    save(Path(path), npy.dumps(whole), "partition")


def read_index(path: Path | str, client: int) -> Indices:
    """Return one client's images; only their part of the file is read.

    Raises
    ------
    ConfigError : the file is missing or damaged, or does not have this client.
    """
    errors, remedy = (OSError, ValueError, EOFError, IndexError), "Restore it from a copy, or start a new run."
    with refusing(errors, "partition", path, "readable, as a run makes it when it starts", remedy):
        check_regular(Path(path))
        about = os.stat(path)
        whole, clients = _mapped(str(path), about.st_ino, about.st_mtime_ns)
    if not 0 <= client < clients:
        remedy = f"Start as many clients as the run has, or start a new run with num-clients above {client}."
        raise ConfigError("client", client, f"from 0 to {clients - 1}, the clients of the partition {path}", remedy)
    start, end = whole[client + 1 : client + 3] + clients + 2
    return np.array(whole[start:end])


@lru_cache(maxsize=4)
def _mapped(path: str, inode: int, changed: int) -> tuple[Indices, int]:
    """Map a partition into memory, cached while the file is unchanged, for all clients."""
    whole = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(whole, np.ndarray) or whole.dtype != np.int64 or whole.ndim != 1:
        raise ValueError("not a list of whole numbers")
    clients = int(whole[0])
    if clients < 1 or len(whole) != clients + 2 + whole[clients + 1]:
        raise ValueError("its length differs from its header")
    return whole.view(np.ndarray), clients
