"""Small questions to many clients: whether they take part, or what they bid; also those that ride on other messages."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from aoi_fl import protocol
from aoi_fl.protocol import Bid, ParticipationReply, ParticipationRequest
from aoi_fl.strategies.clock import clock_of
from aoi_fl.strategies.collect import drop
from aoi_fl.strategies.exchange import ANSWERS_KEPT, Exchange
from aoi_fl.strategies.records import Participation, RoundRecord
from aoi_fl.strategies.retry_policy import QUESTION
from aoi_fl.strategies.roster import Roster
from aoi_fl.strategies.validation import Refused, check_name, read_record

A = TypeVar("A", ParticipationReply, Bid)


class Inbox:
    """Answers to questions that rode on other messages. They are lost with the process, and then asked for again.

    A client's answer about a round holds, even if the terms have changed since it answered.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[ParticipationRequest, ParticipationReply]] = {}

    def put(self, question: ParticipationRequest, client: int, answer: ParticipationReply) -> None:
        """Keep a client's answer to a question."""
        self._held[client] = question, answer

    def get(self, question: ParticipationRequest, client: int) -> ParticipationReply | None:
        """Return the client's answer about the same round of the same run; None: it has given none."""
        if client not in self._held:
            return None
        known, answer = self._held[client]
        return answer if _about(known) == _about(question) else None


def _about(question: ParticipationRequest) -> tuple[str, str | None, int, str]:
    return question.run, question.token, question.round, question.wire


def ask_clients(
    grid: Grid,
    roster: Roster,
    record: RoundRecord,
    kind: str,
    requests: Mapping[int, ParticipationRequest],
    expected: type[A],
    timeout: float,
) -> Iterator[tuple[int, A]]:
    """Ask clients and yield their answers as they come; who sends none that counts is named in the round's record.

    Parameters
    ----------
    grid, roster, record : where, who, and the round
    kind : the message's type
    requests : the question to each client; who left the last one unanswered is not waited for, until it has been heard
    expected : the record that an answer holds
    timeout : seconds until the deadline
    """
    contents: dict[ParticipationRequest, RecordDict] = {}  # most clients are asked the same
    messages = {}
    for client, ask in requests.items():
        if ask not in contents:
            contents[ask] = RecordDict({protocol.AOI: ConfigRecord(ask.write())})
        messages[client] = Message(contents[ask], roster.node(client), kind, group_id=str(record.round))
    record.asked += len(messages)
    record.messages += 2 * len(messages)
    settled = roster.patience.worth(QUESTION, messages, clock_of(grid), others=roster.others_answer)
    exchange = Exchange(grid, messages, timeout, sequential=False, keep=ANSWERS_KEPT, settled=settled)
    for reply in exchange:
        who = exchange.client_of(reply)
        if who is None:
            continue
        client = who
        roster.patience.answered(QUESTION, client, exchange.elapsed)
        try:
            answer = read_record(reply, expected)
            check_name(answer.name, roster.name(client))
        except Refused as reason:
            outcome = "failed" if reply.has_error() else "refused"
            drop(record, Participation(client, roster.name(client), outcome, reason=str(reason)))
            continue
        yield client, answer
    late = sorted(exchange.missing)
    roster.patience.ended(QUESTION, late, record.round, exchange)
    for client in late:
        drop(record, Participation(client, roster.name(client), "late", reason="no answer by the deadline"))
