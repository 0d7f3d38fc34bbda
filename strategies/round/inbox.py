"""Decisions that clients send before they are asked."""

from aoi_fl.protocol import ParticipationReply, ParticipationRequest


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
