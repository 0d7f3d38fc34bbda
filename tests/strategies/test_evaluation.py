"""The next round's question rides on an evaluation; a client that answers it badly is asked by itself."""

from functools import partial

import pytest

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.strategies import MarkovParticipation
from tests import fakes
from tests.fakes import ASK, EVALUATE, ToyApp, unchanged, with_answer, with_record, zeros

N, ROUNDS, SEED = 12, 6, 1  # a seed without an empty round


def play(folder, evaluate_clients, spoil):
    """Run rounds; ``spoil(kind, round, client, reply)`` may raise or change the reply."""

    def behave(message, act, *about):
        reply = act()
        spoil(*about, reply)
        return reply

    make = partial(MarkovParticipation, MarkovPolicy.increasing(N, 4, 5), coordination="poll")
    how = {"start": zeros(3), "seed": SEED, "evaluate_clients": evaluate_clients}
    app = ToyApp(unchanged, evaluates=1.0, spoil=behave)
    return fakes.play(make, app, folder, ROUNDS, N, **how)


@pytest.mark.parametrize("change", [{"name": "client-3"}, {"takes-part": "perhaps"}, {"age": -1}, None], ids=str)
def test_an_unusable_early_answer_is_asked_again(change, tmp_path, caplog):
    def spoil(kind, round_, client, reply):
        if (kind, client) == (EVALUATE, 5) and "aoi" in reply.content:
            (with_record("aoi", None) if change is None else with_answer(**change))(None, lambda: reply)

    plain = play(tmp_path / "plain", 0, spoil)
    riding = play(tmp_path / "spoilt", N, spoil)
    assert riding.trained() == plain.trained()
    assert all(riding.grid.whom(ASK, t) == [5] for t in range(2, ROUNDS + 1))
    assert all(r.dropped == 0 and r.client_loss == 1.0 for r in riding.rounds)  # its metrics are as good as any
    assert ("will ask client 5 again" in caplog.text) == (change is not None)
