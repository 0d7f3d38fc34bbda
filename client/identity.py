"""The identity of a client: a name, a number for its draws, a seed and a folder, all from Flower's context.

Never Flower's node id, which changes at every start. In simulation the name follows from the partition; in a
deployment it stands in the node's own configuration (``flower-supernode --node-config 'name="pi-3"'``).
"""

import secrets
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from flwr.app import Context

from aoi_fl.client.state import checked_name
from aoi_fl.science.draws import number_of
from aoi_fl.science.errors import ConfigError


@dataclass(frozen=True)
class Identity:
    """A client's name; its data partition, if it has one; the counter and the key of its draws; its state folder."""

    name: str
    partition: int | None
    number: int
    seed: int
    state_dir: Path


def identity(context: Context, run: str) -> Identity:
    """Read a client's identity for one run of ours.

    ``node_config`` may hold ``name``, ``partition-id``, ``state-dir`` and ``seed``; where it has no seed the run's
    configuration may, and where neither has, the client draws its own and keeps it with its state.

    Raises
    ------
    ConfigError : the node has neither a name nor a partition, or a name that cannot name a file.
    """
    node = context.node_config
    partition = node.get("partition-id")
    partition = partition if type(partition) is int and partition >= 0 else None
    name = node.get("name", None if partition is None else f"client-{partition}")
    if name is None:
        raise ConfigError(
            "name",
            None,
            "set for each client",
            "Start the client with --node-config 'name=\"…\"' (or partition-id=…), and keep the name across restarts.",
        )
    name = checked_name("client name", str(name))
    seed = node.get("seed", context.run_config.get("seed"))
    return Identity(
        name=name,
        partition=partition,
        number=number_of(name) if partition is None else partition,
        seed=seed if type(seed) is int else secrets.randbits(63),
        state_dir=run_folder(context, run),
    )


def run_folder(context: Context, run: str) -> Path:
    """Return the folder of this client's own files of a run: under ``state-dir``, else beside the run's results."""
    if state_dir := context.node_config.get("state-dir"):
        return _folder(str(state_dir), run, "")
    return _folder(str(context.run_config.get("runs-dir", "runs")), run, "clients")


@lru_cache(maxsize=16)
def _folder(base: str, run: str, below: str) -> Path:
    """Return a path, made once: a process that holds many clients asks for the same one all the time."""
    return Path(base) / checked_name("run name", run) / below
