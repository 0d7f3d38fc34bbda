"""The client's decision as a pure function of state and request."""

from dataclasses import replace
from itertools import pairwise

import pytest

from aoi_fl.client.promises import promise_after
from aoi_fl.client.state import ClientState
from aoi_fl.client.step import ClientMemory, Request, step
from aoi_fl.protocol import CENTRAL, RESERVE, WIRES, ParticipationRequest


def promised(state, ask):
    return replace(state, promise=promise_after(state.promise, state.own.age, ask, 1))


TERMS = [{"table": (0.1, 0.3, 0.7)}, {"rate": 0.3}]


@pytest.mark.parametrize("terms", TERMS, ids=["table", "rate"])
@pytest.mark.parametrize("wire", [CENTRAL, *WIRES])
@pytest.mark.parametrize("private", [False, True])
def test_a_repeated_request_gets_the_same_reply_and_a_training_needs_a_yes(wire, terms, private):
    state, taken = ClientMemory(ClientState(3)), []
    for t in range(1, 60):
        ask = ParticipationRequest("r", t, wire=wire, clear=False if private else None, min_separation=2, **terms)
        request = Request(ask, "pi", 5, trains=True)
        after = replace(request, trained=True)
        state = promised(state, ask)
        before, asked = step(state, request)
        assert step(state, request) == (before, asked)
        for forced in (False, True):
            paused, no = step(state, pause := replace(request, ask=replace(ask, forced=forced), rule="pause"))
            assert no.takes_part is False and step(paused, pause)[0] == paused
            if forced or asked.takes_part:  # the age grows, and a reservation is drawn again
                assert (no.rule, no.age, paused.own.age.last) == ("pause", asked.age, before.own.age.last)
                assert wire != "reserve" or no.next_round > t
        if wire == RESERVE:  # a reservation is kept, and one that was missed is drawn again
            last, reserved = before.own.age.last, (state.own.age or before.own.age).reserved
            assert asked.rule or reserved < t or asked.next_round == reserved
            _, late = step(before, replace(request, ask=replace(ask, round=asked.next_round + 1)))
            assert late.next_round > asked.next_round == last + late.age
        repeated, again = step(before, request)
        assert (repeated, again.takes_part) == (before, asked.takes_part)
        if asked.takes_part:
            state, done = step(before, after)
            assert step(state, after) == (state, done) and state.own.age.last == t
            taken.append(t)
            if private:
                for own in (
                    state.own,
                    before.own,
                ):  # one update a round, also if a resume brings the age before it back
                    assert step(ClientMemory(own, state.promise), request)[1].takes_part is False
        else:
            state = before
    assert taken and (not private or min(b - a for a, b in pairwise(taken)) >= 2)
