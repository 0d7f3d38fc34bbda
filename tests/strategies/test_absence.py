"""Clients that come and go: what counts as absence."""

from types import SimpleNamespace

import numpy as np
import pytest

from aoi_fl.strategies.policy import ClientOutcome, Plan, RoundOutcome
from aoi_fl.strategies.selection.absence import Absence


@pytest.mark.parametrize("result", ["late", "failed", "refused", "declined"])
def test_a_client_without_an_update_counts_as_absent(result):
    view = SimpleNamespace(
        free=np.ones(3, np.bool_), resting=np.zeros(3, np.bool_), known=np.ones(3, np.bool_), second_attempt=False
    )
    outcome = [ClientOutcome(1, "train", False, False, result)]
    absence = Absence()
    absence.learn(RoundOutcome(view, Plan(np.zeros(0, np.int64), np.zeros(0)), outcome, 0), np.zeros(3, np.bool_))
    assert absence.share.tolist() == [1.0, 0.5, 1.0]
