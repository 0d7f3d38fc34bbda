"""A round's evaluation by clients: who is sent the new model, what they think of it, and what they may say with it.

The next round's question can ride on it: whoever evaluates the model of round t after that round's training is over
can say in the same reply whether it takes part in round t+1, and need not be asked again.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from flwr.app import Message

from aoi_fl import protocol
from aoi_fl.flower.errors import CLIENT_APP_RAISED
from aoi_fl.protocol import ParticipationReply, ParticipationRequest
from aoi_fl.science import draws
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.questions import Inbox
from aoi_fl.strategies.records import RoundRecord
from aoi_fl.strategies.retry_policy import EVALUATION, QUESTION, TRAINING
from aoi_fl.strategies.roster import Roster
from aoi_fl.strategies.validation import Refused, check_metrics, check_name, one_line, read_record, some_of

logger = logging.getLogger("flwr")


class Evaluation:
    """One round's evaluation.

    Parameters
    ----------
    options, roster, record : of the round
    ask : run and round
    ahead : the next round's question to a client; None: it does not ride on this evaluation
    inbox : keeps the answers
    clients : those who evaluate, where a subclass has chosen them; None: they are drawn

    Attributes
    ----------
    clients : the numbers of those who evaluate, in order, drawn from all that are connected and not silent of late
    unable : those whose app failed, as one does that evaluates nothing; one that is late or gone says nothing of that
    """

    def __init__(
        self,
        options: RoundOptions,
        roster: Roster,
        record: RoundRecord,
        ask: ParticipationRequest,
        ahead: Callable[[int], ParticipationRequest | None],
        inbox: Inbox,
        clients: Sequence[int] | None = None,
    ) -> None:
        self._examples_key, self._roster, self._record = options.weighted_by_key, roster, record
        self._inbox = inbox
        self.clients = _drawn(options, roster, ask.round) if clients is None else list(clients)
        # A client whose update did not come may still be at work on it, and learn its age only then.
        unsettled = {part.client for part in record.participations if part.outcome != "trained"}
        settled = (client for client in self.clients if client not in unsettled)
        self._ahead = {client: question for client in settled if (question := ahead(client)) is not None}
        self._ask = ask
        self._accepted: dict[int, Message] = {}
        self._dropped: dict[str, list[str]] = {}
        self._left_out: dict[str, list[str]] = {}
        self.unable: set[int] = set()

    def terms(self, client: int) -> ParticipationRequest:
        """Return what goes with a client's message."""
        question = self._ahead.get(client)
        return self._ask if question is None else replace(question, round=self._ask.round, ahead=True)

    def take(self, client: int, reply: Message) -> bool:
        """Accept a client's metrics, and pass on what it says of the next round; or drop its reply, and say so."""
        try:
            for metric in check_metrics(reply, self._examples_key):
                self._left_out.setdefault(one_line(metric), []).append(self._roster.name(client))
        except Refused as reason:
            if reply.has_error() and reply.error.code == CLIENT_APP_RAISED:
                self.unable.add(client)
            self.drop(client, str(reason))
            return False
        if client in self._ahead and protocol.AOI in reply.content:
            try:
                answer = read_record(reply, ParticipationReply)
                check_name(answer.name, self._roster.name(client))
                self._inbox.put(self._ahead[client], client, answer)
            except Refused as reason:
                logger.warning("Client %s will be asked again: %s", client, reason)
        reply.content.pop(protocol.AOI, None)
        self._accepted[client] = reply
        return True

    def drop(self, client: int, reason: str) -> None:
        """Count and name an evaluation that is not used; what the client did in training stays as it is."""
        self._record.dropped += 1
        self._dropped.setdefault(reason, []).append(self._roster.name(client))

    def accepted(self) -> list[Message]:
        """Return the accepted evaluations in client order, and log what was dropped."""
        for metric, names in self._left_out.items():
            logger.warning(
                "Round %d: metric %s of %s is no finite number, and is left out.",
                self._record.round,
                metric,
                some_of(names),
            )
        for reason, names in self._dropped.items():
            logger.warning("Round %d: evaluation of %s dropped: %s", self._record.round, some_of(names), reason)
        return [reply for _, reply in sorted(self._accepted.items())]


def _drawn(options: RoundOptions, roster: Roster, round_: int) -> list[int]:
    """Draw who evaluates in a round from those who are there and have not been silent of late."""
    here = np.flatnonzero(roster.available_but(roster.patience.resting(round_, QUESTION, TRAINING, EVALUATION)))
    lots = draws.uniforms(options.seed, round_, "evaluate", len(roster))[here]
    drawn: list[int] = np.sort(here[np.argsort(lots)[: options.evaluators(len(here))]]).tolist()
    return drawn
