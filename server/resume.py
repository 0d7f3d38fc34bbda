"""Resume an interrupted run: its record and its next round."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from aoi_fl.config.fields import kebab
from aoi_fl.config.run import RunConfig
from aoi_fl.config.values import MILLION
from aoi_fl.protocol.records import ClientRecord
from aoi_fl.science.errors import ConfigError, ResumeError
from aoi_fl.science.types import Arrays
from aoi_fl.server.checkpoint import Checkpoints
from aoi_fl.server.folder import CHECKPOINTS, LEDGER, STATES, only_player
from aoi_fl.server.ledger import DAMAGE, About, Ledger, progress, read, read_run
from aoi_fl.server.sources import check_unchanged, dealt_sources, given_sources
from aoi_fl.strategies.plan import Resume


def recorded_run(folder: Path) -> About:
    """Return the run of a ledger: configuration, status and more.

    Raises
    ------
    ResumeError : there is no run, it ended before its configuration was recorded, another version recorded it, its
        ledger is damaged, or its folder was renamed.
    """
    with _whole(folder):
        about = read_run(folder / LEDGER)
    if not isinstance(about.get("config"), dict) or "status" not in about:
        Checkpoints(folder / CHECKPOINTS).check_newest(0)
        raise ResumeError(f"the run in {folder} ended before its configuration was recorded. Start it again.")
    if unknown := sorted(about["config"].keys() - set(map(kebab, RunConfig.model_fields))):
        raise ResumeError(
            f"another version recorded the run in {folder}: this one has no run key {', '.join(unknown)}. Resume the "
            "run with the version that began it, or start a new one."
        )
    if about.get("run") != folder.name:
        raise ResumeError(
            f"the folder {folder} holds the run {about.get('run')!r}, and its clients know it under that name: give "
            "the folder its name back."
        )
    return about


@contextmanager
def _whole(folder: Path) -> Iterator[None]:
    """Raise ResumeError if the block finds no ledger, or a damaged one."""
    try:
        yield
    except ConfigError as error:
        raise ResumeError(str(error)) from error
    except DAMAGE as error:
        raise ResumeError(f"the run in {folder} cannot continue: {error}. Restore its ledger from a copy.") from error


def check_simulated(folder: Path) -> None:
    """Check that a run's clients are simulated: only then can this machine resume it alone.

    Raises
    ------
    ResumeError : the run has rounds, and its clients' states are on the clients.
    """
    with _whole(folder):
        rounds, *_ = progress(folder / LEDGER)
    if rounds and not (folder / STATES).is_dir():
        raise ResumeError(
            f"the run in {folder} belongs to a deployment, where the clients keep their own ages. Continue it there: "
            f"AOI_RUN_NAME={folder.name} AOI_RESUME=true docker compose up, or flwr run with resume=true."
        )


def extend(folder: Path, rounds: int) -> None:
    """Add rounds to a run; resumed, it gives the same results as a run of that length.

    The last round of a finished run is removed from the ledger and runs again. It differs from other rounds, because
    its messages do not ask about a next round.

    Raises
    ------
    ConfigError : the number of rounds does not increase, or the run's end or its noise does not depend on it alone.
    ResumeError : the run cannot be resumed, or the checkpoint before its last round is missing.
    """
    about = recorded_run(folder)
    check_simulated(folder)
    config, key = RunConfig.parse({**about["config"], "resume": True, "run-name": folder.name}), "--rounds"
    if config.privacy != "none":
        why = f"left out with privacy={config.privacy}, because its noise is made for {config.num_server_rounds} rounds"
        raise ConfigError(key, rounds, why, "Start a new run with more rounds.")
    if about["status"] == "completed" and (config.until or about.get("reason")):
        why = about.get("reason") or "its simulated time is over"
        raise ConfigError(key, rounds, f"left out: the run is complete because {why}", "Start a new run.")
    if not config.num_server_rounds < rounds <= MILLION:
        allowed = f"above {config.num_server_rounds}, the rounds of the run, and at most {MILLION}"
        raise ConfigError(key, rounds, allowed, "Give more rounds.")
    check_unchanged(folder, about, given_sources(config) | dealt_sources(folder), config)
    with only_player(folder):
        last = config.num_server_rounds
        with _whole(folder):
            done, *_ = progress(folder / LEDGER)
        if done == last > 1:
            try:
                Checkpoints(folder / CHECKPOINTS).load(last - 1)
            except ResumeError as error:
                raise ResumeError(f"{error} Start a new run of {rounds} rounds.") from error
        with closing(Ledger(folder / LEDGER)) as ledger:
            config_now = about["config"] | {"num-server-rounds": rounds}
            ledger.note(config=config_now, status="interrupted", reason=None)
            if done == last:
                ledger.forget_after(last - 1)


def take_up(folder: Path, ledger: Ledger) -> tuple[Resume, Arrays, Checkpoints]:
    """Return a run's next round, the model after the last complete one, empty before round 1, and its checkpoints.

    Raises
    ------
    ResumeError : the last complete rounds have no usable checkpoint, or the ledger is damaged.
    """
    with _whole(folder):
        rounds, last, _ = progress(ledger.path)
        if last is not None and last != rounds:
            raise ValueError(f"it has {rounds} rounds, and the last of them is {last!r:.40}")
        rows = sorted(read(ledger.path, "clients"), key=lambda row: (row["since"], row["client"]))
        clients, begun = [ClientRecord(**row) for row in rows], str(read_run(ledger.path).get("begun", ""))
    checkpoints = Checkpoints(folder / CHECKPOINTS, begun)
    checkpoint = checkpoints.last(rounds)
    if checkpoint.round < rounds:
        ledger.forget_after(checkpoint.round)
    return Resume(checkpoint.round + 1, clients, checkpoint.memory), checkpoint.model, checkpoints
