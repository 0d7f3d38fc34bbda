"""Read a client's identity from Flower's context: name, seed, number and folder.

Flower's node id is not used, because it changes at every start. In simulation the name follows from the partition. In a
deployment the node's configuration has it (``flower-supernode --node-config 'name="pi-3"'``).
"""

import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context

from aoi_fl.client.state import checked_name
from aoi_fl.protocol import default_name
from aoi_fl.science.draws import number_of
from aoi_fl.science.errors import ConfigError


@dataclass(frozen=True)
class Identity:
    """A client's name, data partition (or None), counter and key of its draws, and state folder.

    A simulated client has no owner, and the run's folder keeps its state.
    """

    name: str
    partition: int | None
    number: int
    seed: int
    state_dir: Path
    simulated: bool


def identity(context: Context, run: str, *, private: bool = False) -> Identity:
    """Read a client's identity in one run.

    ``node_config`` may have ``name``, ``partition-id``, ``state-dir`` and ``seed``. Without a seed there, the run's
    configuration may have one. Otherwise, and in a ``private`` run, the client draws a seed from the operating system
    and keeps it with its state: a seed of the run would tell the server when the client takes part.

    Raises
    ------
    ConfigError : the node has neither a name nor a partition, or its name is not valid in a file's name.
    """
    node = context.node_config
    partition = node.get("partition-id")
    partition = partition if type(partition) is int and partition >= 0 else None
    name = node.get("name", None if partition is None else default_name(partition))
    if name is None:
        raise ConfigError(
            "name",
            None,
            "set for each client",
            "Start the client with --node-config 'name=\"…\"' (or partition-id=…), and keep the name across restarts.",
        )
    name = checked_name("client name", str(name))
    seed = node.get("seed", None if private else context.run_config.get("seed"))
    return Identity(
        name=name,
        partition=partition,
        number=number_of(name) if partition is None else partition,
        seed=seed if type(seed) is int else secrets.randbits(63),
        state_dir=run_folder(context, run),
        simulated=_is_simulated(context),
    )


def _is_simulated(context: Context) -> bool:
    """Our engine says so in the node's configuration, which no server can set. Flower's engine runs clients in Ray."""
    ray = sys.modules.get("ray")
    simulated = context.node_config.get("simulated") is True or (ray is not None and bool(ray.is_initialized()))
    return simulated and "state-dir" not in context.node_config


def run_folder(context: Context, run: str) -> Path:
    """Return the folder of this client's files: in ``state-dir``, else beside the run's results."""
    name = checked_name("run name", run)
    if state_dir := context.node_config.get("state-dir"):
        return Path(str(state_dir)) / name
    return Path(str(context.run_config.get("runs-dir", "runs"))) / name / "clients"
