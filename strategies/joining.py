"""How a run comes by its clients: waiting for them before round 1, and the roll call at the start of each round."""

import logging
import time

from flwr.serverapp import Grid

from aoi_fl.protocol import ParticipationReply, ParticipationRequest
from aoi_fl.science.errors import NodesError
from aoi_fl.strategies.exchange import Waits
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.records import ClientRecord, Nodes
from aoi_fl.strategies.rollcall import RollCall
from aoi_fl.strategies.roster import Roster

logger = logging.getLogger("flwr")
_REPEATED_ROLLS = 2  # at most, before the first round: a client that dies again and again does not hold up the others
_STRANGER = 5.0  # seconds that a round waits for nodes not met before, where there are clients enough without them


class Joining:
    """Waits for clients and calls the roll.

    Parameters
    ----------
    roster : the clients, kept up to date
    options : deadlines
    needs : clients without which round 1 does not begin
    first : the round that this run, or its resumption, begins with
    """

    def __init__(self, roster: Roster, options: RoundOptions, needs: int, first: int) -> None:
        self._roster, self._options, self._needs, self.first = roster, options, needs, first
        self._roll = RollCall(roster)

    @property
    def answers(self) -> dict[int, ParticipationReply]:
        """What clients have decided that introduced themselves in this round, and were asked at once."""
        return self._roll.answers

    @property
    def nodes(self) -> Nodes:
        """Who was connected in the last roll call."""
        return self._roll.nodes

    @property
    def late(self) -> dict[int, ParticipationReply]:
        """What clients have decided whose answer to an earlier message has just been heard."""
        return self._roll.late

    def await_clients(self, grid: Grid) -> None:
        """Wait for everyone; a run that goes on does so with those who are there, as it would have without a break.

        Raises
        ------
        NodesError
            There are too few for a new run.
        """
        found = self._connected(grid, self._needs)
        if found < self._needs and self.first == 1:
            raise NodesError(
                f"{found} clients are connected after {self._options.join_timeout:g} s (join-timeout), the run "
                f"needs {self._needs}. In simulation, start it with\n  flwr run . --federation-config "
                f"'num-supernodes={self._needs} client-resources-num-cpus=1'\nand in a deployment start more "
                "clients, or ask for fewer (num-clients, clients-per-round, min-clients)."
            )

    def call_roll(self, grid: Grid, ask: ParticipationRequest) -> tuple[list[ClientRecord], float]:
        """Call the roll of a round; return the new clients, and the seconds spent waiting for others than the dead.

        Before the first round, where some of those who were waited for turn out dead, they or others are waited for,
        and the roll is called again.

        Raises
        ------
        NodesError
            Nobody who is there can join a new run.
        """
        self._connected(grid, 1)  # with nobody there, rounds must not rush by empty
        fresh = self._call(grid, ask)
        begun = time.monotonic()
        if ask.round == self.first == 1 and (why := self._roll.all_refused):
            raise NodesError(f"{len(self._roll.turned_away)} node(s) are connected, and none can join: {why}")
        if ask.round == self.first:
            for _ in range(_REPEATED_ROLLS):
                if not self._roll.gone or self._roster.available.sum() >= self._needs:
                    break
                self.await_clients(grid)
                fresh += self._call(grid, ask)
            if (found := self._roster.available.sum()) < self._needs:
                logger.warning("Round %d begins with %d of %d clients.", ask.round, found, self._needs)
        return fresh, time.monotonic() - begun

    def _call(self, grid: Grid, ask: ParticipationRequest) -> list[ClientRecord]:
        # Clients start up for the first question; in Flower's simulation that takes Ray's start, up to a minute.
        start_up = self._options.join_timeout if ask.round == self.first else 0.0
        enough = self._needs if ask.round == self.first else 0
        return self._roll.call(
            grid, ask, self._options.ask_timeout + start_up, lambda known: _STRANGER if known >= enough else None
        )

    def _connected(self, grid: Grid, wanted: int) -> int:
        """Wait until ``wanted`` clients are connected or the join deadline has passed; return how many are.

        Whoever was turned away in the roll call does not count.
        """
        deadline, turned_away = time.monotonic() + self._options.join_timeout, self._roll.turned_away
        waits = Waits()
        while (found := len(set(grid.get_node_ids()) - turned_away)) < wanted and time.monotonic() < deadline:
            waits.pause(deadline)
        return found
