"""What clients bid under a budget: the indices that they computed themselves, and what they ask for fresh data."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from aoi_fl.strategies.collect import drop
from aoi_fl.strategies.records import Participation, RoundRecord
from aoi_fl.strategies.roster import Roster
from aoi_fl.wire.protocol import Bid


def usable_bids(
    answers: Iterable[tuple[int, Bid]], roster: Roster, record: RoundRecord
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (n,) the payments asked for and the bids, NaN for who is left out of the round.

    That is who bids nonsense, or asks for more than its declared payment; it is named in the round's record.
    """
    payments, bids = roster.payments.copy(), np.full(len(roster), np.nan)
    for client, bid in answers:
        declared = payments[client]
        if bid.bid < 0:
            reason = f"its bid is {bid.bid:g}, below 0"
        elif not 0 < bid.payment <= declared:
            reason = f"it asks for {bid.payment:g}, its declared payment is {declared:g}"
        else:
            bids[client], payments[client] = bid.bid, bid.payment
            continue
        drop(record, Participation(client, roster.name(client), "refused", reason=reason))
    return payments, bids
