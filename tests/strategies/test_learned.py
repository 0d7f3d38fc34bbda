"""What policies that learn are told of a round."""

import numpy as np

from aoi_fl.strategies.policy import ClientOutcome
from aoi_fl.strategies.selection.selector import report


def test_a_report_has_updates_and_vain_tries():
    def part(client, result, **how):
        return ClientOutcome(client, "train", False, False, result, **how)

    outcomes = [
        part(4, "late", seconds=9.0),
        part(2, "late"),  # silent to a question: it was sent no model
        part(3, "failed"),
        part(1, "late", seconds=7.0),
        part(5, "trained", seconds=2.0),
        part(0, "trained", loss=0.5, seconds=3.0),
    ]
    found = report(outcomes)
    assert found.clients.tolist() == [0, 5] and found.seconds.tolist() == [3, 2]
    assert found.losses[0] == 0.5 and np.isnan(found.losses[1])
    assert found.late.tolist() == [1, 3, 4] and found.waited.tolist() == [7, 0, 9]
